import { constants, Database as SqliteDatabase } from "bun:sqlite";
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { sha256Hex } from "../lib/sha256.ts";
import { isDiskFull } from "./disk-full.ts";
import { MIGRATIONS } from "./migrations/index.ts";
import { rowsOnce } from "./once.ts";

/** The version of a database: the migrations that it lists, compared with those of this program. */
export type DatabaseVersion = {
  /** `empty`: no table at all · `older`: it lacks migrations · `newer`: it has one that this program does not have. */
  state: "empty" | "older" | "current" | "newer" | "foreign";
  /** The last migration of the database, such as `0003_transcriptions_by_state`; undefined where it lists none. */
  found: string | undefined;
  /** The last migration of this program. */
  needed: string;
};

/** A database that this program must not use as it is. Nothing has been changed. */
export class DatabaseVersionError extends Error {
  readonly version: DatabaseVersion;

  constructor(path: string, version: DatabaseVersion) {
    super(`${path} ${explain(version)}`);
    this.name = "DatabaseVersionError";
    this.version = version;
  }
}

/** A migration or its backup that failed. The database is as it was. */
export class UpgradeError extends Error {
  /** The disk was full; the next try may succeed. */
  readonly isPassing: boolean;

  constructor(message: string, cause: unknown) {
    super(message, { cause });
    this.name = "UpgradeError";
    this.isPassing = isDiskFull(cause);
  }
}

const ADVICE_OLDER =
  "`shruti migrate` upgrades it, and so does a start of the server with this program; both make a backup beside it first";
const ADVICE_NEWER =
  "use the program that has upgraded it, or put a backup from before the upgrade back with `shruti restore`";

function explain({ state, found, needed }: DatabaseVersion): string {
  const has = found === undefined ? "has no version" : `has version ${describeVersion(found)}`;
  const needs = `this program needs version ${describeVersion(needed)}`;
  if (state === "older") return `${has}, and ${needs}: ${ADVICE_OLDER}`;
  if (state === "newer") return `was written by a newer version: it ${has}, and ${needs}: ${ADVICE_NEWER}`;
  return `is not a database of this program: a migration that it lists differs, or it lists none; ${needs}`;
}

/** Renders `0003_transcriptions_by_state` as `3 (transcriptions by state)`. */
export function describeVersion(migration: string): string {
  const [, number, name] = /^0*(\d+)_(.*)$/.exec(migration) ?? [];
  return number === undefined ? migration : `${number} (${name?.replaceAll("_", " ")})`;
}

/** Reads the version through an open connection. @throws SQLite's error when the file cannot be read */
export function readVersion(sqlite: SqliteDatabase, migrations = MIGRATIONS): DatabaseVersion {
  const needed = migrations.at(-1)?.name ?? "";
  const tables = rowsOnce<{ name: string }>(
    sqlite,
    "SELECT name FROM sqlite_schema WHERE type = 'table'",
  ).map(({ name }) => name);
  if (tables.length === 0) return { state: "empty", found: undefined, needed };
  if (!tables.includes("schema_migrations")) return { state: "foreign", found: undefined, needed };
  const applied = rowsOnce<{ name: string; sha256: string }>(
    sqlite,
    "SELECT name, sha256 FROM schema_migrations ORDER BY name",
  );
  return { state: compare(applied, migrations), found: applied.at(-1)?.name, needed };
}

function compare(
  applied: readonly { name: string; sha256: string }[],
  migrations: typeof MIGRATIONS,
): DatabaseVersion["state"] {
  const known = new Map(migrations.map(({ name, sql }) => [name, sql]));
  const isNewer = applied.some(({ name }) => !known.has(name));
  if (isNewer) return "newer";
  if (applied.some(({ name, sha256 }) => sha256Hex(known.get(name) ?? "") !== sha256)) return "foreign";
  return applied.length < migrations.length ? "older" : "current";
}

/**
 * Reads the version of a file that may be in use, and leaves nothing behind: an ordinary connection would create the
 * files of the write-ahead log, and the last one to close would write that log into the database.
 *
 * @returns undefined when the version cannot be read this way; an ordinary connection then reports the reason
 */
export function peekVersion(path: string, migrations = MIGRATIONS): DatabaseVersion | undefined {
  let sqlite: SqliteDatabase | undefined;
  try {
    sqlite = hasLog(path) ? new SqliteDatabase(path, { readonly: true }) : openImmutable(path);
    return readVersion(sqlite, migrations);
  } catch {
    return undefined;
  } finally {
    sqlite?.close();
  }
}

/** Reports whether a log has something that the database file lacks. Its files are there then already. */
function hasLog(path: string): boolean {
  return ["-wal", "-journal"].some(
    (suffix) => (statSync(path + suffix, { throwIfNoEntry: false })?.size ?? 0) > 0,
  );
}

/** SQLite neither locks nor creates anything for a file that it takes for immutable. */
function openImmutable(path: string): SqliteDatabase {
  const escaped = resolve(path).replaceAll("%", "%25").replaceAll("?", "%3f").replaceAll("#", "%23");
  return new SqliteDatabase(
    `file:${escaped}?immutable=1`,
    constants.SQLITE_OPEN_READONLY | constants.SQLITE_OPEN_URI,
  );
}
