import { statSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { within } from "../lib/within.ts";
import type { Database } from "../store/database.ts";
import { unconfirmedUpgrade } from "../store/upgrade.ts";
import { createJournalCopier } from "./backups/journal-copies.ts";
import { mirrorClosings } from "./journal/closings.ts";
import { CLOSINGS_FILE, DELETIONS_FILE } from "./journal/journal-file.ts";

type Deps = { database: Database; clock: Clock; dataDir: string; config: Config };

/** A command that may delete and close something. */
export type BegunCommand = {
  /**
   * Brings what the command has closed into the file, and new lines to the folders of backups. Does nothing for a command
   * that has changed nothing of this kind, and while an upgrade can be undone.
   *
   * @returns sentences about what failed
   */
  finish(): Promise<string[]>;
};

/** A disk of another machine that does not answer must not keep a command from its end. */
const COPIES_WITHIN_MS = 5_000;

export function beginCommand(deps: Deps): BegunCommand {
  const before = sizesIn(deps.dataDir);
  return {
    async finish() {
      try {
        if (unconfirmedUpgrade(deps.database.path)) return [];
        mirrorClosings(deps);
        if (sizesIn(deps.dataDir) === before) return [];
        return problemsOf(await within(COPIES_WITHIN_MS, createJournalCopier(deps).copy()));
      } catch {
        // The server, or the next command, does it.
        return [];
      }
    },
  };
}

function sizesIn(dataDir: string): string {
  const sizeOf = (name: string) => statSync(join(dataDir, name), { throwIfNoEntry: false })?.size ?? 0;
  return [DELETIONS_FILE, CLOSINGS_FILE].map(sizeOf).join(" ");
}

type Copied = Awaited<ReturnType<ReturnType<typeof createJournalCopier>["copy"]>>;

function problemsOf(copied: Copied | undefined): string[] {
  if (!copied)
    return ["A folder of backups does not answer: a restore from it will not know what this command did."];
  return copied.failed.map(
    ({ path, reason }) => `A restore from ${path} will not know what this command did: ${reason}.`,
  );
}
