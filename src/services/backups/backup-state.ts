import { resolve } from "node:path";
import type { Config } from "../../config/schema.ts";
import { toTimestamp } from "../../lib/time.ts";
import type { Database, Store } from "../../store/database.ts";
import { type BackupFailure, backupFailure, readKnownStores, readLastPath } from "./backup-memory.ts";
import { lastBackup } from "./backups.ts";
import { problemOfFolder, requireStore } from "./store-identity.ts";

/** What is known of the backups of everything, for an admin. */
export type BackupState = {
  isScheduled: boolean;
  /** When the last one was made, and where it is. */
  lastAt: string | undefined;
  lastPath: string | undefined;
  failedAt: string | undefined;
  /** What is wrong, as the end of a sentence; undefined: nothing is known to be wrong. */
  problem: string | undefined;
};

/**
 * Reads what is known.
 *
 * @param dataDir looks at the folder of the schedule, too, which only the server's user can say everything about;
 *   undefined: does not
 */
export function readBackupState(database: Database, config: Config, dataDir?: string): BackupState {
  const last = lastBackup(database.store);
  const failure = failureOf(database.store, config);
  const isScheduled = config.backup.schedule !== "";
  return {
    isScheduled,
    lastAt: last && toTimestamp(last.at_ms),
    lastPath: last?.path,
    failedAt: failure && toTimestamp(failure.at_ms),
    problem:
      (failure && `the last scheduled backup failed at ${toTimestamp(failure.at_ms)}: ${failure.reason}`) ??
      (isScheduled && dataDir !== undefined ? problemOfStore(database, config, dataDir) : undefined) ??
      (last?.lacking?.count
        ? `the last backup lacks ${last.lacking.count} files that could not be read or are damaged`
        : undefined),
  };
}

function problemOfStore({ sqlite }: Database, config: Config, dataDir: string): string | undefined {
  const store = resolve(config.backup.to);
  try {
    const remembered = { known: readKnownStores(sqlite), lastPath: readLastPath(sqlite) };
    requireStore({ store, dataDir, ...remembered, isNew: false });
  } catch (error) {
    return (error as Error).message.replace(/\.$/, "");
  }
  return problemOfFolder(store);
}

/** Returns the last scheduled backup, where it failed and the config still has its folder. */
export function failureOf(store: Store, { backup }: Config): BackupFailure | undefined {
  const failure = backupFailure(store);
  return failure && backup.schedule !== "" && failure.to === backup.to ? failure : undefined;
}

/** Says in one line how the backups are; undefined: none are scheduled, and none was made. */
export function describeBackups(state: BackupState): string | undefined {
  const { isScheduled, lastAt, lastPath, problem } = state;
  if (!isScheduled && lastAt === undefined) return undefined;
  const last = lastAt === undefined ? "none was made yet" : `the last one is of ${lastAt}, ${lastPath}`;
  const schedule = isScheduled ? "" : "; none are scheduled";
  return problem === undefined ? `${last}${schedule}` : `${problem}; ${last}${schedule}`;
}
