import { writeSync } from "node:fs";
import cliProgress from "cli-progress";
import type { CliIo } from "./context.ts";

export type ProgressDisplay = {
  /** @param done 0 to 1 */
  update(done: number): void;
  close(): void;
};

const SILENT: ProgressDisplay = { update: () => {}, close: () => {} };

/** Restores the cursor and line wrap, which the bar hides and disables (xterm's private modes 25 and 7). */
const CURSOR_AND_WRAP = "\x1b[?25h\x1b[?7h";
const ERASE_LINE = "\r\x1b[K";
let isShown = false;

/** Restores the terminal at once, when a command is ended in the middle of its work. */
export function restoreTerminal(): void {
  if (!isShown) return;
  isShown = false;
  try {
    writeSync(2, ERASE_LINE + CURSOR_AND_WRAP);
  } catch {
    // The terminal is closed.
  }
}

/** Opens a progress bar on standard error. It shows nothing when that is not a terminal. */
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
