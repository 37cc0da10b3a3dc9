import { Database as SqliteDatabase } from "bun:sqlite";
import { existsSync } from "node:fs";
import {
  attach,
  type Closing,
  carryClosingsOver,
  closeLater,
  type EndedSessions,
  endSessionsIn,
  isLaterState,
} from "../../store/access-carry-over.ts";
import { recordIn } from "../../store/audit-in-file.ts";
import { takeMoment } from "../../store/copy-moment.ts";
import { type HeldKeys, holdKeysIn, readHeldKeys, validKeysIn } from "../../store/held-keys.ts";
import { hasTable, rowsOnce } from "../../store/once.ts";
import { findSettingTextIn, putSettingIn, SETTING_NAMES } from "../../store/settings.ts";
import { findUnknownClosings, toLaterChange } from "../journal/closings.ts";
import { takeReceipts } from "../receipts.ts";
import { findFingerprint } from "../signed/appliance-key.ts";
import { knownUntilIn } from "./journal-copies.ts";

/** What a restore does with keys, organizations, endpoints and sessions, so that nothing that was closed opens again. */
export type RestoredAccess = {
  /** Moment of the backup, epoch milliseconds; undefined: not known. */
  backupMs: number | undefined;
  /** All that was closed after the backup is known: the previous database is a later state of the restored one. */
  isAllKnown: boolean;
  /** Until then it is known what was closed, epoch milliseconds; undefined: not known. */
  knownUntilMs: number | undefined;
  /** What is closed again. */
  closed: Closing[];
  ended: EndedSessions;
  /** Valid keys. */
  keys: number;
  /** How many of them are refused until an admin confirms them. */
  held: number;
  /** Keys and workers are held: it is not known what was closed after the backup. */
  isHeld: boolean;
  /** Names of the fleet's workers that were removed after the backup. */
  removedWorkers: string[];
  /** Deletions that the copies in the folder of backups have, and that the data directory did not have. */
  deletionsTaken: number;
};

export type AccessOptions = {
  nowMs: number;
  /** What the audit log calls the backup. */
  backup: string;
  /** The database that is replaced. */
  previousPath: string;
  /** Older databases that this data directory keeps. */
  keptPaths: readonly string[];
  /** The admin vouches for all keys of the backup. */
  confirmKeys: boolean;
  /** Absolute path of the data directory, with the files of deletions and closings. */
  dataDir: string;
  /** The folder of backups with copies of these files; undefined: the backup comes from elsewhere. */
  journalFolder: string | undefined;
  /** Fingerprint of the key that the backup is signed with; undefined: it is not signed. */
  signedBy: string | undefined;
};

/** A backup that is not older is taken for a planned move, in which nothing is closed meanwhile. */
const MOVE_WITHIN_MS = 15 * 60_000;
/** Clocks of two machines may differ by that. A backup from further ahead means that one of them is wrong. */
const CLOCKS_DIFFER_MS = 2 * 60_000;
/** Each restore on another machine can add a key. */
const MAX_KEYS = 20;

/**
 * Closes in a copy that is about to become the database what was closed after the backup, as far as this machine knows
 * it. Where it does not know, and the backup is not of the last minutes, all keys are held. Sessions always end.
 *
 * @param copyPath the checked copy, of any version
 */
export function closeAgain(copyPath: string, options: AccessOptions): RestoredAccess {
  const { nowMs, previousPath, dataDir, journalFolder } = options;
  const sqlite = new SqliteDatabase(copyPath, { readwrite: true, create: false });
  try {
    const isLater = [previousPath, ...options.keptPaths].some((path) => isLaterState(sqlite, path));
    const isPreviousReadable = existsSync(previousPath) && attachIfReadable(sqlite, previousPath);
    const trusted = trustedIn(sqlite, options);
    const deletionsTaken =
      journalFolder === undefined ? 0 : takeDeletions(sqlite, journalFolder, dataDir, trusted);
    const folders = [dataDir, ...(journalFolder === undefined ? [] : [journalFolder])];
    const later = findUnknownClosings(sqlite, folders, trusted).map(toLaterChange);
    const access = sqlite
      .transaction(() => {
        putTrusted(sqlite, trusted, nowMs);
        const backupMs = takeMoment(sqlite);
        const carried = isPreviousReadable ? carryClosingsOver(sqlite, nowMs) : [];
        const renewed = new Set(
          carried.filter(({ change }) => change === "secret_rotated").map(({ id }) => id),
        );
        const closed = [
          ...carried,
          ...closeLater(sqlite, later, nowMs).filter(
            ({ id, change }) => change !== "secret_is_old" || !renewed.has(id),
          ),
        ];
        const removedWorkers = later
          .filter(({ action }) => action === "fleet_worker.remove")
          .map(({ target }) => target);
        const ended = endSessionsIn(sqlite, nowMs);
        const isAllKnown = isLater && isPreviousReadable;
        const copiedMs = journalFolder === undefined ? undefined : knownUntilIn(journalFolder, trusted);
        const knownUntilMs = isAllKnown ? nowMs : latest(backupMs, copiedMs);
        const earlier = isPreviousReadable ? readHeldKeys(sqlite, "previous") : undefined;
        const held = heldAfter({ isAllKnown, knownUntilMs, earlier, ...options });
        const heldCount = held === undefined ? 0 : holdKeysIn(sqlite, held, nowMs);
        const after = { closed: closed.length, held: heldCount, confirmed: options.confirmKeys };
        recordIn(sqlite, { action: "database.restore", object: options.backup, after }, nowMs);
        const keys = validKeysIn(sqlite, nowMs).length;
        return {
          backupMs,
          isAllKnown,
          knownUntilMs,
          closed,
          ended,
          keys,
          held: heldCount,
          deletionsTaken,
          removedWorkers,
          isHeld: held !== undefined,
        };
      })
      .immediate();
    if (isPreviousReadable) rowsOnce(sqlite, "DETACH previous");
    return access;
  } finally {
    sqlite.close();
  }
}

const latest = (one: number | undefined, other: number | undefined) =>
  one === undefined || other === undefined ? (one ?? other) : Math.max(one, other);

/** The lines of these keys count: this machine's, and that of the machine of which the backup is. */
function trustedIn(sqlite: SqliteDatabase, { dataDir, signedBy }: AccessOptions): Set<string> {
  const own = findFingerprint(dataDir);
  return new Set([
    ...[own, signedBy, keyOfReceipts(sqlite)].filter((each) => each !== undefined),
    ...fingerprintsIn(findSettingTextIn(sqlite, SETTING_NAMES.journalKeys)),
  ]);
}

/** The key that has signed the newest receipt; a version without receipts has none. */
function keyOfReceipts(sqlite: SqliteDatabase): string | undefined {
  const sql = `SELECT json_extract(signed, '$.signature.fingerprint') AS fingerprint
    FROM receipts ORDER BY rowid DESC LIMIT 1`;
  try {
    const [row] = rowsOnce<{ fingerprint: unknown }>(sqlite, sql);
    return typeof row?.fingerprint === "string" ? row.fingerprint : undefined;
  } catch {
    return undefined;
  }
}

function fingerprintsIn(value: string | undefined): string[] {
  const parsed: unknown = value === undefined ? [] : JSON.parse(value);
  return Array.isArray(parsed) ? parsed.map(String) : [];
}

/** A start of the server reads lines that only they have signed. */
function putTrusted(sqlite: SqliteDatabase, trusted: ReadonlySet<string>, nowMs: number): void {
  putSettingIn(sqlite, SETTING_NAMES.journalKeys, [...trusted].slice(0, MAX_KEYS), nowMs);
}

function takeDeletions(
  sqlite: SqliteDatabase,
  folder: string,
  dataDir: string,
  trusted: ReadonlySet<string>,
): number {
  const hasReceipts = hasTable(sqlite, "receipts");
  const hasReceipt = (id: string) =>
    hasReceipts && rowsOnce(sqlite, "SELECT 1 FROM receipts WHERE id = ?", id).length > 0;
  return takeReceipts(dataDir, folder, trusted, hasReceipt);
}

/** A database that is damaged has nothing to tell. */
function attachIfReadable(sqlite: SqliteDatabase, path: string): boolean {
  try {
    attach(sqlite, path);
  } catch {
    return false;
  }
  try {
    rowsOnce(sqlite, "SELECT id, hash, revoked_at FROM previous.api_keys ORDER BY id");
    rowsOnce(sqlite, "SELECT id, disabled_at FROM previous.organizations ORDER BY id");
    return true;
  } catch {
    rowsOnce(sqlite, "DETACH previous");
    return false;
  }
}

type Knowledge = Pick<RestoredAccess, "isAllKnown" | "knownUntilMs"> &
  AccessOptions & { earlier: HeldKeys | undefined };

function heldAfter({
  isAllKnown,
  knownUntilMs,
  earlier,
  confirmKeys,
  nowMs,
}: Knowledge): HeldKeys | undefined {
  if (confirmKeys) return undefined;
  // What an earlier restore did not know, this one does not know either.
  if (isAllKnown) return earlier;
  if (knownUntilMs !== undefined && isRecent(knownUntilMs, nowMs)) return earlier;
  return { untilMs: nowMs, knownUntilMs: knownUntilMs ?? null, confirmed: new Set() };
}

const isRecent = (atMs: number, nowMs: number) =>
  atMs <= nowMs + CLOCKS_DIFFER_MS && nowMs - atMs <= MOVE_WITHIN_MS;
