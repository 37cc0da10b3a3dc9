import { constants } from "node:os";
import { endChildren } from "../../engine/workers/orphans.ts";
import { removeAllScratch } from "../../lib/scratch.ts";
import { restoreTerminal } from "./progress.ts";

/** Signals that end a command: from a terminal's keys, its closing, or a service manager. */
const SIGNALS = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"] as const;

/**
 * Cleans up when a signal ends a command in the middle of its work: it ends child processes, removes decoded audio, and
 * restores the terminal's cursor and line wrap. The exit status is 128 plus the signal's number, as usual.
 *
 * @returns `stop`: call it when the work is over; signals then have their usual effect
 */
export function cleanUpAtEnd(): { stop(): void } {
  const cleanUp = () => {
    restoreTerminal();
    endChildren();
    removeAllScratch();
  };
  const end = (signal: (typeof SIGNALS)[number]) => process.exit(128 + constants.signals[signal]);
  // Also when something else ends the program, such as a reader of standard output that has closed it.
  process.on("exit", cleanUp);
  for (const signal of SIGNALS) process.on(signal, end);
  return {
    stop() {
      for (const signal of SIGNALS) process.off(signal, end);
      process.off("exit", cleanUp);
    },
  };
}
