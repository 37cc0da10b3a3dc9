import { Database as SqliteDatabase } from "bun:sqlite";
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { drizzle } from "drizzle-orm/bun-sqlite";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { giveToOwner } from "../lib/give-to-owner.ts";
import { statRegularFile } from "../lib/regular-file.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { type DatabaseVersion, DatabaseVersionError, peekVersion, readVersion } from "./database-version.ts";
import { MIGRATIONS } from "./migrations/index.ts";
import { rowsOnce } from "./once.ts";
import { forgetStatements, noteTransaction } from "./prepared.ts";
import { makePrivateFile } from "./private-file.ts";
import * as schema from "./schema.ts";
import { withPath, withSettledPath } from "./with-path.ts";
import { createWriteGate, noteLocked, rememberGate, type Wait, type WriteGate } from "./write-gate.ts";

/** What store functions work on: the database, or the transaction that their caller has opened. */
export type Store = BaseSQLiteDatabase<"sync", void, typeof schema>;

/** An open database file. */
export type Database = {
  store: Store;
  /** Through it the server waits for a write lock of another program. */
  gate: WriteGate;
  /** The connection under drizzle, for pragmas and raw statements. */
  sqlite: SqliteDatabase;
  path: string;
  close(): void;
};

/** Returns the path of the database in a data directory. */
export function databasePath(dataDir: string): string {
  return join(dataDir, "shruti.db");
}

export type OpenDatabaseOptions = {
  /** How long a statement waits for another process's write, milliseconds. */
  busyTimeoutMs?: number;
};

/**
 * Opens the database file. Creates it when there is none. It does not upgrade a file of an older version:
 * `upgradeDatabase` does.
 *
 * WAL with `synchronous=FULL` lets a committed transaction survive a power cut. `secure_delete` overwrites deleted
 * content.
 *
 * @throws DatabaseVersionError when the file is of another version; nothing has been written then
 */
export function openDatabase(path: string, options: OpenDatabaseOptions = {}): Database {
  if (path !== ":memory:") mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  if (path !== ":memory:") {
    if (existsSync(path)) statRegularFile(path);
    else createPrivately(path);
    const version = peekVersion(path);
    if (version !== undefined) requireUsable(path, version);
  }
  const sqlite = withPath(
    path,
    () => new SqliteDatabase(path, { create: true, readwrite: true, strict: true }),
  );
  try {
    withSettledPath(path, () => {
      sqlite.run(`PRAGMA busy_timeout = ${Math.floor(options.busyTimeoutMs ?? 5_000)}`);
      const version = readVersion(sqlite);
      requireUsable(path, version);
      setUp(sqlite);
      if (version.state === "empty") migrate(sqlite);
    });
  } catch (error) {
    sqlite.close();
    throw error;
  }
  const store = drizzle(sqlite, { schema });
  const gate = createWriteGate(sqlite);
  rememberGate(store, gate);
  const close = () => {
    gate.giveUp();
    forgetStatements(store);
    sqlite.close();
  };
  return { store, gate, sqlite, path, close };
}

/**
 * Opens an existing database for a copy of it, whatever its version. The files beside it are open, too: what copies with the
 * rights of another user must not be the first to open them.
 */
export function openAnyVersion(path: string): Pick<Database, "sqlite"> {
  statRegularFile(path);
  return withPath(path, () => {
    const sqlite = new SqliteDatabase(path, { readwrite: true, create: false, strict: true });
    try {
      sqlite.run("PRAGMA busy_timeout = 5000");
      rowsOnce(sqlite, "SELECT count(*) FROM sqlite_schema");
      return { sqlite };
    } catch (error) {
      sqlite.close();
      throw error;
    }
  });
}

function requireUsable(path: string, version: DatabaseVersion): void {
  if (version.state !== "current" && version.state !== "empty") throw new DatabaseVersionError(path, version);
}

/** Sets what every connection that writes has in common. */
export function setUp(sqlite: SqliteDatabase): void {
  sqlite.run("PRAGMA journal_mode = WAL");
  sqlite.run("PRAGMA synchronous = FULL");
  sqlite.run("PRAGMA foreign_keys = ON");
  sqlite.run("PRAGMA secure_delete = ON");
  sqlite.run("PRAGMA temp_store = MEMORY");
}

/** Creates the file for its owner alone. When that fails, SQLite fails right afterwards with a code of its own. */
function createPrivately(path: string): void {
  try {
    makePrivateFile(path);
    giveToOwner(path);
  } catch {}
}

/**
 * Runs a function inside one immediate transaction. An error rolls everything back. The function must be synchronous:
 * the transaction would end before a promise does its work, so a promise is refused.
 */
export function transaction<T>(store: Store, work: (tx: Store) => T): T {
  try {
    return store.transaction(
      (tx) => {
        noteTransaction(tx, store);
        const outcome = work(tx as unknown as Store);
        if (outcome instanceof Promise) throw new Error("a transaction cannot wait for a promise");
        return outcome;
      },
      { behavior: "immediate" },
    );
  } catch (error) {
    noteLocked(store, error);
    throw error;
  }
}

/** Does what `transaction` does, and waits as `WriteGate.run` while another program holds the write lock. */
export function gatedTransaction<T>(
  { store, gate }: Pick<Database, "store" | "gate">,
  work: (tx: Store) => T,
  wait?: Wait,
): Promise<T> {
  return gate.run(() => transaction(store, work), wait);
}

/**
 * Applies the embedded migrations that the file lacks, all in one transaction. The table `schema_migrations` has the
 * names and hashes of those that were applied.
 *
 * @throws Error when the file has a migration that this program does not have, or one with another hash
 */
export function migrate(sqlite: SqliteDatabase, migrations = MIGRATIONS): void {
  sqlite.transaction(() => applyMigrations(sqlite, migrations)).immediate();
}

/** Does the work of `migrate` in the transaction that the caller has opened. */
export function applyMigrations(sqlite: SqliteDatabase, migrations = MIGRATIONS): void {
  sqlite.run(
    "CREATE TABLE IF NOT EXISTS schema_migrations (name TEXT PRIMARY KEY NOT NULL, sha256 TEXT NOT NULL, applied_at INTEGER NOT NULL)",
  );
  const known = new Map(migrations.map(({ name, sql }) => [name, sha256Hex(sql)]));
  const applied = rowsOnce<{ name: string; sha256: string }>(
    sqlite,
    "SELECT name, sha256 FROM schema_migrations",
  );
  for (const { name, sha256 } of applied) {
    const expected = known.get(name);
    if (expected === undefined)
      throw new Error(`the database was written by a newer version (it has ${name})`);
    if (expected !== sha256) throw new Error(`the database's migration ${name} differs from this program's`);
  }
  const done = new Set(applied.map(({ name }) => name));
  for (const { name, sql } of migrations) {
    if (done.has(name)) continue;
    sqlite.run(sql);
    const row = [name, sha256Hex(sql), Date.now()];
    rowsOnce(sqlite, "INSERT INTO schema_migrations (name, sha256, applied_at) VALUES (?, ?, ?)", ...row);
  }
}

/**
 * Returns a counter that changes when another process has written to the file. It is cheap to read.
 */
export function dataVersion(database: Database): number {
  return database.sqlite.query<{ data_version: number }, []>("PRAGMA data_version").get()?.data_version ?? 0;
}

/** How long `checkpoint` tries again while other processes read, and its pauses, milliseconds. */
const CHECKPOINT_WITHIN_MS = 1_000;
const CHECKPOINT_PAUSE_MS = 50;

/**
 * Brings the write-ahead log into the file and empties it, so that what was deleted is overwritten on the disk. Another
 * process that reads, such as a backup, is in the way of that. The thread does not wait for it: this function tries
 * again for a second.
 *
 * @returns false when the log could not be emptied; a later call can
 */
export async function checkpoint(database: Database): Promise<boolean> {
  const startedMs = performance.now();
  while (!checkpointNow(database)) {
    if (performance.now() - startedMs > CHECKPOINT_WITHIN_MS) return false;
    await Bun.sleep(CHECKPOINT_PAUSE_MS);
  }
  return true;
}

/** Tries once what `checkpoint` does. */
export function checkpointNow({ sqlite }: Database): boolean {
  const [before] = rowsOnce<{ timeout: number }>(sqlite, "PRAGMA busy_timeout");
  try {
    // Otherwise SQLite would make the thread sleep until the others have read.
    sqlite.run("PRAGMA busy_timeout = 0");
    return rowsOnce<{ busy: number }>(sqlite, "PRAGMA wal_checkpoint(TRUNCATE)")[0]?.busy === 0;
  } finally {
    sqlite.run(`PRAGMA busy_timeout = ${before?.timeout ?? 0}`);
  }
}

/**
 * Writes a consistent copy of the whole database to a new file. Without `secure_delete`, unused parts of the copy's pages
 * would hold texts that a later deletion does not reach.
 */
export function backupDatabase(database: Pick<Database, "sqlite">, path: string): void {
  database.sqlite.run("PRAGMA secure_delete = ON");
  rowsOnce(database.sqlite, "VACUUM INTO ?", path);
}
