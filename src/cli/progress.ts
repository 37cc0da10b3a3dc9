import { writeSync } from "node:fs";
import cliProgress from "cli-progress";
import type { CliIo } from "./context.ts";

export type ProgressDisplay = {
  /** @param done 0 to 1 */
  update(done: number): void;
  close(): void;
};

const SILENT: ProgressDisplay = { update: () => {}, close: () => {} };

/** The bar takes away the terminal's cursor and line wrap while it is there (xterm's private modes 25 and 7). */
const CURSOR_AND_WRAP = "\x1b[?25h\x1b[?7h";
const ERASE_LINE = "\r\x1b[K";
let isShown = false;

/** Gives a terminal back what the bar took, at once: for an end in the middle of the work. */
export function restoreTerminal(): void {
  if (!isShown) return;
  isShown = false;
  try {
    writeSync(2, ERASE_LINE + CURSOR_AND_WRAP);
  } catch {
    // The terminal has gone.
  }
}

/** A progress bar on standard error when that is a terminal; nothing otherwise. */
export function openProgress(io: CliIo, name: string): ProgressDisplay {
  if (!process.stderr.isTTY || io.environment.TERM === "dumb") return SILENT;
  const bar = new cliProgress.SingleBar({
    format: "{name} {bar} {percentage} % | {eta_formatted}",
    stream: process.stderr,
    hideCursor: true,
    clearOnComplete: true,
    stopOnComplete: false,
  });
  isShown = true;
  bar.start(1000, 0, { name });
  return {
    update: (done) => bar.update(Math.round(done * 1000)),
    close: () => {
      bar.stop();
      isShown = false;
    },
  };
}
