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
 * Opens the program's log: one line for each event, on standard error, as JSON or as readable text.
 * It removes fields that could contain a secret or the text of a transcript.
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

/** A log that writes nothing, for tests and short commands. */
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
