import { writeSync } from "node:fs";
import { basename } from "node:path";
import cliProgress from "cli-progress";
import { printable } from "../../lib/printable.ts";
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

export type BatchProgress = {
  /** @param done share of the work on one of the items, 0 to 1 */
  update(index: number, done: number): void;
  /** Takes the bar away while something is printed. */
  pause(print: () => Promise<void>): Promise<void>;
  close(): void;
};

/** Opens one progress bar for several items of about the same size, which are worked on side by side. */
export function openBatchProgress(io: CliIo, names: readonly string[]): BatchProgress {
  const shares = names.map(() => 0);
  const total = () => shares.reduce((sum, share) => sum + share, 0) / Math.max(1, names.length);
  const title = () => {
    if (names.length === 1) return basename(names[0] ?? "");
    return `${shares.filter((share) => share === 1).length} of ${names.length}`;
  };
  let bar = openProgress(io, title());
  return {
    update(index, done) {
      shares[index] = done;
      bar.update(total());
    },
    async pause(print) {
      bar.close();
      await print();
      if (shares.every((share) => share === 1)) return;
      bar = openProgress(io, title());
      bar.update(total());
    },
    close: () => bar.close(),
  };
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
  let isOpen = true;
  bar.start(1000, 0, { name: printable(name) });
  return {
    update: (done) => bar.update(Math.round(done * 1000)),
    close: () => {
      if (isOpen) bar.stop();
      isOpen = false;
      isShown = false;
    },
  };
}
