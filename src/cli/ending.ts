import { constants } from "node:os";
import { endChildren } from "../engine/orphans.ts";
import { removeAllScratch } from "../lib/scratch.ts";
import { restoreTerminal } from "./progress.ts";

/** What a terminal's keys, its closing and a service manager send to end a command. */
const SIGNALS = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"] as const;

/**
 * Lets a command that decodes and transcribes leave nothing behind when it is ended in the middle: children end,
 * decoded audio is removed, the terminal gets its cursor and line wrap back. The exit status is 128 and the signal's
 * number, as of any program that a signal ends.
 *
 * @returns `stop`: the work is over, and signals end the program in their own way again
 */
export function cleanUpAtEnd(): { stop(): void } {
  const cleanUp = () => {
    restoreTerminal();
    endChildren();
    removeAllScratch();
  };
  const end = (signal: (typeof SIGNALS)[number]) => process.exit(128 + constants.signals[signal]);
  // Also where something else ends the program, as a reader of standard output that has gone.
  process.on("exit", cleanUp);
  for (const signal of SIGNALS) process.on(signal, end);
  return {
    stop() {
      for (const signal of SIGNALS) process.off(signal, end);
      process.off("exit", cleanUp);
    },
  };
}
