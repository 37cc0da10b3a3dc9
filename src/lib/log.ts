import { fstatSync } from "node:fs";
import pino from "pino";
import { printable, printableJson } from "./printable.ts";
import type { LogCall } from "./repeated-errors.ts";

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
 *
 * @param hasPriorities whether systemd's journal reads the lines: each begins with its priority, which the journal
 *   takes away (`isJournal`)
 * @param filter returns the line that is logged in the place of one, or undefined for none
 */
export function openLog(
  level: LogLevel,
  format: "json" | "text",
  write = writeToStandardError,
  hasPriorities = false,
  filter?: LogFilter,
): Log {
  const render = (line: string) => (format === "json" ? escaped(line) : readable(line));
  const stream = {
    write: (line: string) => write(hasPriorities ? `${priorityOf(line)}${render(line)}` : render(line)),
  };
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: REDACTED, remove: true },
      serializers: { err: describeError },
      ...(filter ? { hooks: { logMethod: filtered(filter) } } : {}),
    },
    stream,
  );
}

type LogFilter = (call: LogCall) => LogCall | undefined;

function filtered(filter: LogFilter): NonNullable<NonNullable<pino.LoggerOptions["hooks"]>["logMethod"]> {
  return function (this: pino.Logger, args, method) {
    const call = filter(args as unknown as LogCall);
    if (call) method.apply(this, call as unknown as Parameters<pino.LogFn>);
  };
}

/** A log that writes nothing, for tests and short commands. */
export const silentLog: Log = pino({ level: "silent" });

/** The names of classes are shortened in the executable; those that errors give themselves are not. */
function describeError(error: unknown): unknown {
  const described = pino.stdSerializers.err(error as Error);
  return error instanceof Error ? { ...described, type: error.name } : described;
}

/** Priorities of the journal (sd-daemon(3)), by level. */
const PRIORITIES: Record<string, string> = {
  debug: "<7>",
  info: "<6>",
  warn: "<4>",
  error: "<3>",
  fatal: "<2>",
};

function priorityOf(line: string): string {
  const [, level = ""] = /^\{"level":"(\w+)"/.exec(line) ?? [];
  return PRIORITIES[level] ?? "";
}

/**
 * Reports whether standard error leads to systemd's journal: the variable `JOURNAL_STREAM` names its device and inode
 * (systemd.exec(5)). In a file or a pipe, the priorities would only disturb.
 */
export function isJournal(variable: string | undefined): boolean {
  if (variable === undefined) return false;
  try {
    const { dev, ino } = fstatSync(STANDARD_ERROR);
    return variable === `${dev}:${ino}`;
  } catch {
    return false;
  }
}

const STANDARD_ERROR = 2;

function writeToStandardError(line: string): void {
  process.stderr.write(line);
}

/** Escapes what JSON may have as it is, and a terminal must not get. */
function escaped(line: string): string {
  return printable(line.trimEnd()) === line.trimEnd() ? line : `${printableJson(JSON.parse(line))}\n`;
}

function readable(line: string): string {
  const { level, time, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const rest = Object.entries(fields).map(([name, value]) => `${name}=${shown(value)}`);
  return `${[time, String(level).toUpperCase().padEnd(5), printable(String(msg)), ...rest].join(" ")}\n`;
}

/** A text with a line end could pass for another line, and one with an escape could write to the admin's terminal. */
function shown(value: unknown): string {
  return typeof value === "string" && printable(value) === value ? value : printableJson(value);
}
