import type { CommandFailure } from "./context.ts";

/** Exit statuses (docs/decisions/commands.md, "Exit statuses"). */
export const EXIT = {
  ...{ done: 0, failed: 1, usage: 2, not_found: 4, conflict: 5 },
  ...{ version: 6, rights: 7, machine: 8, incomplete: 9, interrupted: 130 },
} as const satisfies Record<CommandFailure | "done", number>;

/** What each exit status means, for the manual page. */
export const EXIT_MEANINGS: Record<keyof typeof EXIT, string> = {
  done: "done",
  failed: "failed",
  usage: "wrong usage or config",
  not_found: "not found",
  conflict: "conflict",
  version: "the database is of another version, or its upgrade failed",
  rights: "missing rights",
  machine: "this machine cannot run the engine",
  incomplete: "a backup was made or verified, and lacks recordings that could not be read or are damaged",
  interrupted: "Ctrl-C ended it",
};
