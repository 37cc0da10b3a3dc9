import type { Database as SqliteDatabase } from "bun:sqlite";
import { join } from "node:path";
import { type Static, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import type { AuditAction } from "../../domain/audit.ts";
import type { Clock } from "../../lib/clock.ts";
import { appendLinesNow } from "../../lib/durable-files.ts";
import { toTimestamp } from "../../lib/time.ts";
import { closeLater, type LaterChange } from "../../store/access-carry-over.ts";
import { type Database, databasePath, openAnyVersion, transaction } from "../../store/database.ts";
import { rowsOnce } from "../../store/once.ts";
import { findSettingTextIn, putSetting, SETTING_NAMES } from "../../store/settings.ts";
import { openApplianceKey } from "../signed/appliance-key.ts";
import { signDocument } from "../signed/signed-documents.ts";
import { CLOSINGS_FILE, pathsIn, readLines, readTrusted, trustedKeys } from "./journal-file.ts";

/**
 * The file of what was closed: signed copies of those entries of the audit log that close or open something. A database
 * from before learns of them, as it learns of deletions.
 */

/** In pairs: what closes, and what opens the same object again. */
const CLOSINGS: readonly AuditAction[] = [
  ...(["key.revoke", "organization.disable", "organization.enable"] as const),
  ...(["webhook.disable", "webhook.enable", "webhook.remove", "webhook.rotate"] as const),
  ...(["fleet_worker.remove", "fleet_worker.add"] as const),
];
const OPENINGS: ReadonlySet<string> = new Set(["organization.enable", "webhook.enable", "fleet_worker.add"]);
const BATCH = 500;

const Text = Type.String({ maxLength: 400 });
const CHANGE = Type.Object({
  object: Type.Literal("access_change"),
  format: Type.Literal(1),
  created_at: Text,
  action: Type.Union(CLOSINGS.map((action) => Type.Literal(action))),
  target: Text,
  organization_id: Type.Union([Type.Null(), Text]),
  /** The entry of the audit log. */
  entry: Type.Object({ sequence: Type.Integer(), hash: Text }),
});
export type AccessChange = Static<typeof CHANGE>;

type Entry = {
  sequence: number;
  created_at: number;
  action: string;
  object: string;
  organization_id: string | null;
  hash: string;
};

/** Brings new entries into the file. @returns the number of the last entry; undefined: there were none */
function appendNew(sqlite: SqliteDatabase, dataDir: string): number | undefined {
  let last = mirroredUntil(sqlite);
  const before = last;
  for (;;) {
    const entries = rowsOnce<Entry>(
      sqlite,
      `SELECT sequence, created_at, action, object, organization_id, hash FROM audit_log
       WHERE sequence > ? AND object IS NOT NULL AND action IN (${CLOSINGS.map(() => "?").join(", ")})
       ORDER BY sequence LIMIT ?`,
      ...[last, ...CLOSINGS, BATCH],
    );
    last = entries.at(-1)?.sequence ?? last;
    if (entries.length > 0) {
      const key = openApplianceKey(dataDir);
      const lines = entries.map((entry) => JSON.stringify(signDocument(changeOf(entry), key)));
      appendLinesNow(join(dataDir, CLOSINGS_FILE), lines);
    }
    if (entries.length < BATCH) return last === before ? undefined : last;
  }
}

function mirroredUntil(sqlite: SqliteDatabase): number {
  const value = Number(findSettingTextIn(sqlite, SETTING_NAMES.mirroredClosings));
  return Number.isSafeInteger(value) ? value : 0;
}

const changeOf = ({ sequence, created_at, action, object, organization_id, hash }: Entry): AccessChange => ({
  ...{
    object: "access_change",
    format: 1,
    created_at: toTimestamp(created_at),
    action: action as AuditAction,
  },
  ...{ target: object, organization_id, entry: { sequence, hash } },
});

/**
 * Brings the entries that the file does not have yet into the file, and the file to the disk. Each is in the audit log
 * first, so that a crash loses none.
 *
 * @returns whether there were any
 * @throws the system's error
 */
export function mirrorClosings({ database, clock, dataDir }: MirrorDeps): boolean {
  const last = appendNew(database.sqlite, dataDir);
  if (last === undefined) return false;
  const nowMs = clock.now();
  transaction(database.store, (tx) => putSetting(tx, SETTING_NAMES.mirroredClosings, last, nowMs));
  return true;
}
export type MirrorDeps = { database: Database; clock: Clock; dataDir: string };

/**
 * Does the same for the database of a data directory, of any version, before another one takes its place. A database that
 * cannot be read has none to give.
 */
export function saveClosings(dataDir: string): void {
  try {
    const { sqlite } = openAnyVersion(databasePath(dataDir));
    try {
      appendNew(sqlite, dataDir);
    } finally {
      sqlite.close();
    }
  } catch (error) {
    if (isSystemError(error)) throw error;
  }
}

/** A full disk, or missing rights; the absence of a database is not one. */
function isSystemError(error: unknown): boolean {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return syscall !== undefined && code !== "ENOENT";
}

/**
 * Finds what is closed according to the files and that a database does not know: for each object, the newest change
 * counts. What the database has in its audit log needs no signature.
 *
 * @param folders in which the file is looked for
 * @param trusted fingerprints of the keys whose lines count
 */
export function findUnknownClosings(
  sqlite: SqliteDatabase,
  folders: readonly string[],
  trusted: ReadonlySet<string>,
): AccessChange[] {
  const newest = new Map<string, AccessChange & { isKnown: boolean }>();
  for (const path of pathsIn(folders, CLOSINGS_FILE)) {
    for (const line of readLines(path)) {
      const change = read(line);
      if (!change) continue;
      const isKnown = isInLog(sqlite, change);
      if (!isKnown && readTrusted(line, trusted) === undefined) continue;
      const subject = subjectOf(change);
      const other = newest.get(subject);
      if (!other || isNewer(change, other)) newest.set(subject, { ...change, isKnown });
    }
  }
  return [...newest.values()].filter(({ action, isKnown }) => !isKnown && !OPENINGS.has(action));
}

/** A removed endpoint stays removed, and a new secret is another matter than whether the endpoint is enabled. */
function subjectOf({ action, target }: AccessChange): string {
  const isApart = action === "webhook.remove" || action === "webhook.rotate";
  return isApart ? `${target} ${action}` : target;
}

function isNewer(change: AccessChange, other: AccessChange): boolean {
  const order = change.created_at.localeCompare(other.created_at);
  return order === 0 ? change.entry.sequence >= other.entry.sequence : order > 0;
}

function read(line: string): AccessChange | undefined {
  try {
    const document: unknown = JSON.parse(line)?.document;
    return Value.Check(CHANGE, document) ? document : undefined;
  } catch {
    return undefined;
  }
}

function isInLog(sqlite: SqliteDatabase, { entry }: AccessChange): boolean {
  try {
    const sql = "SELECT hash FROM audit_log WHERE sequence = ?";
    return rowsOnce<{ hash: string }>(sqlite, sql, entry.sequence)[0]?.hash === entry.hash;
  } catch {
    // A version without an audit log knows none.
    return false;
  }
}

/**
 * Closes in a database what was closed after it, according to the file beside it: it may be an older one that was put back
 * by hand.
 *
 * @returns how many were closed
 */
export function closeLaterIn({ database, clock, dataDir }: MirrorDeps): number {
  const trusted = trustedKeys(dataDir, database.store);
  const changes = findUnknownClosings(database.sqlite, [dataDir], trusted).map(toLaterChange);
  if (changes.length === 0) return 0;
  const closed = transaction(database.store, () => closeLater(database.sqlite, changes, clock.now()));
  return closed.filter(({ change }) => change !== "secret_is_old").length;
}

export const toLaterChange = ({ action, target, created_at }: AccessChange): LaterChange => ({
  ...{ action, target, atMs: Date.parse(created_at) },
});
