import pino from "pino";

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";
export type Log = pino.Logger;

const REDACTED = [
  "authorization",
  "token",
  "secret",
  "key",
  "text",
  "segments",
  "*.authorization",
  "*.token",
  "*.secret",
];

/**
 * The program's log: one line an event, on standard error, JSON or readable.
 * Fields that could carry a secret or somebody's words are removed whoever logs them.
 */
export function openLog(level: LogLevel, format: "json" | "text", write = writeToStandardError): Log {
  const stream = { write: format === "json" ? write : (line: string) => write(readable(line)) };
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: REDACTED, remove: true },
    },
    stream,
  );
}

/** A log that says nothing, for tests and one-shot commands. */
export const silentLog: Log = pino({ level: "silent" });

function writeToStandardError(line: string): void {
  process.stderr.write(line);
}

function readable(line: string): string {
  const { level, time, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const rest = Object.entries(fields).map(
    ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return `${[time, String(level).toUpperCase().padEnd(5), msg, ...rest].join(" ")}\n`;
}
