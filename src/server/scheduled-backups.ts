import { resolve } from "node:path";
import { ConfigError } from "../config/problems.ts";
import type { Config } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import { errorMessage } from "../lib/error-message.ts";
import type { Log } from "../lib/log.ts";
import { forgetFailure, rememberFailure } from "../services/backups/backup-memory.ts";
import { failureOf } from "../services/backups/backup-state.ts";
import { type LastBackup, lastBackup } from "../services/backups/backups.ts";
import { problemOfPlace } from "../services/backups/store-identity.ts";
import { dataDirOf } from "../services/data-dir.ts";
import { type Database, gatedTransaction, type Store } from "../store/database.ts";
import { rowsOnce } from "../store/once.ts";

/** Makes a backup of everything. @param signal ends it early @throws Error with the reason when none was made */
export type MakeBackup = (signal: AbortSignal) => Promise<void>;

export type BackupNumbers = {
  isScheduled: boolean;
  ageSeconds: number;
  /** Since the start. */
  failures: number;
  /** Whether the last one of the schedule failed, also before the start. */
  hasFailed: boolean;
  lacking: number;
  faulty: number;
};

/** The backups that `[backup]` of the config asks for. */
export type ScheduledBackups = {
  start(): void;
  /** Numbers for `GET /metrics`. */
  status(): BackupNumbers;
  /** Ends a running backup, of which nothing remains. */
  stop(): Promise<void>;
};

type Deps = { config: Config; clock: Clock; log: Log; database: Database; make: MakeBackup | undefined };

/** How often the clock is compared with the schedule. A timer of hours would be wrong after a change of the clock. */
const LOOK_EVERY_MS = 10_000;

/**
 * Makes a backup whenever the schedule says so. When the server did not run at that time, it makes one at its start.
 *
 * @param lookEveryMs pause between two looks at the clock
 */
export function createScheduledBackups(deps: Deps, lookEveryMs = LOOK_EVERY_MS): ScheduledBackups {
  const { config, clock, log, database, make } = deps;
  const stopping = new AbortController();
  const madeAt = lastBackup(database.store)?.at_ms;
  let countedFromMs = madeAt ?? clock.now();
  let failures = 0;
  let running: Promise<void> | undefined;
  let timer: Timer | undefined;

  async function run(work: MakeBackup): Promise<void> {
    const startedMs = clock.now();
    try {
      await work(stopping.signal);
      const made: Partial<LastBackup> = lastBackup(database.store) ?? {};
      await remember((tx) => forgetFailure(tx, clock.now()));
      const { path, bytes, lacking, faulty } = made;
      const fields = { path, bytes, seconds: (clock.now() - startedMs) / 1000 };
      if (lacking?.count) log.error({ ...fields, lacking }, "a backup was made, and it is incomplete");
      else if (faulty?.count)
        log.error({ ...fields, faulty }, "a backup was made, with earlier copies of faulty files");
      else log.info(fields, "a backup was made");
    } catch (error) {
      if (stopping.signal.aborted) return;
      failures += 1;
      log.error({ err: error, to: config.backup.to }, "the backup failed");
      const failure = { at_ms: clock.now(), to: config.backup.to, reason: errorMessage(error) };
      await remember((tx) => rememberFailure(tx, failure));
    }
  }

  /** A full disk does not stop the schedule. A lock of another program is waited for. */
  async function remember(write: (tx: Store) => void): Promise<void> {
    try {
      await gatedTransaction(database, write);
    } catch (error) {
      log.error({ err: error }, "the outcome of the backup could not be noted");
    }
  }

  function look(): void {
    if (running || make === undefined || config.backup.schedule === "") return;
    // A clock that was ahead and was set back must not put backups off.
    countedFromMs = Math.min(countedFromMs, clock.now());
    const dueMs = nextBackup(config, countedFromMs);
    if (dueMs === undefined || clock.now() < dueMs) return;
    countedFromMs = clock.now();
    running = run(make).finally(() => {
      running = undefined;
    });
  }

  return {
    start() {
      timer = setInterval(look, lookEveryMs);
      look();
    },
    status() {
      const last = lastBackup(database.store);
      return {
        isScheduled: make !== undefined && config.backup.schedule !== "",
        ageSeconds: Math.max(0, (clock.now() - (last?.at_ms ?? beginOf(database))) / 1000),
        failures,
        hasFailed: failureOf(database.store, config) !== undefined,
        lacking: last?.lacking?.count ?? 0,
        faulty: last?.faulty?.count ?? 0,
      };
    },
    async stop() {
      clearInterval(timer);
      stopping.abort(new Error("the program is stopping"));
      await running;
    },
  };
}

/** Returns when the database was made: until its first backup, its data has had none since then. */
function beginOf(database: Database): number {
  const [row] = rowsOnce<{ at: number }>(
    database.sqlite,
    "SELECT min(applied_at) AS at FROM schema_migrations",
  );
  return row?.at ?? 0;
}

/** Returns the first time of the schedule after another, epoch milliseconds; undefined: there is none. */
function nextBackup({ backup, billing }: Config, afterMs: number): number | undefined {
  return Bun.cron.parse(backup.schedule, afterMs, { tz: billing.timezone })?.getTime();
}

/** Checks `[backup]`. @throws ConfigError */
export function checkBackupSettings(config: Config): void {
  const { schedule, to } = config.backup;
  const problem = to === "" ? undefined : problemOfPlace(resolve(to), dataDirOf(config));
  if (problem !== undefined) throw new ConfigError(`backup.to: ${problem}`);
  if (schedule === "") return;
  if (to === "") throw new ConfigError("backup.schedule needs backup.to, the folder of the backups");
  try {
    if (nextBackup(config, Date.now()) !== undefined) return;
  } catch (cause) {
    throw new ConfigError(`backup.schedule: ${(cause as Error).message}`, { cause });
  }
  throw new ConfigError(`backup.schedule: ${schedule} never comes`);
}
