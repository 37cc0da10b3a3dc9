import { Database as SqliteDatabase } from "bun:sqlite";
import { existsSync } from "node:fs";
import {
  attach,
  type Closing,
  carryClosingsOver,
  type EndedSessions,
  endSessionsIn,
  isLaterState,
} from "../../store/access-carry-over.ts";
import { recordIn } from "../../store/audit-in-file.ts";
import { takeMoment } from "../../store/copy-moment.ts";
import { type HeldKeys, holdKeysIn, readHeldKeys, validKeysIn } from "../../store/held-keys.ts";
import { rowsOnce } from "../../store/once.ts";

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
  /** Those of them that are refused until an admin confirms them. */
  held: number;
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
};

/** A backup that is not older is taken for a planned move, in which nothing is closed meanwhile. */
const MOVE_WITHIN_MS = 15 * 60_000;
/** Clocks of two machines may differ by that. A backup from further ahead means that one of them is wrong. */
const CLOCKS_DIFFER_MS = 2 * 60_000;

/**
 * Closes in a copy that is about to become the database what was closed after the backup, as far as this machine knows
 * it. Where it does not know, and the backup is not of the last minutes, all keys are held. Sessions always end.
 *
 * @param copyPath the checked copy, of any version
 */
export function closeAgain(copyPath: string, options: AccessOptions): RestoredAccess {
  const { nowMs, previousPath } = options;
  const sqlite = new SqliteDatabase(copyPath, { readwrite: true, create: false });
  try {
    const isLater = [previousPath, ...options.keptPaths].some((path) => isLaterState(sqlite, path));
    const isPreviousReadable = existsSync(previousPath) && attachIfReadable(sqlite, previousPath);
    const access = sqlite
      .transaction(() => {
        const backupMs = takeMoment(sqlite);
        const closed = isPreviousReadable ? carryClosingsOver(sqlite, nowMs) : [];
        const ended = endSessionsIn(sqlite, nowMs);
        const isAllKnown = isLater && isPreviousReadable;
        const knownUntilMs = isAllKnown ? nowMs : backupMs;
        const earlier = isPreviousReadable ? readHeldKeys(sqlite, "previous") : undefined;
        const held = heldAfter({ isAllKnown, knownUntilMs, earlier, ...options });
        const heldCount = held === undefined ? 0 : holdKeysIn(sqlite, held, nowMs);
        const after = { closed: closed.length, held: heldCount, confirmed: options.confirmKeys };
        recordIn(sqlite, { action: "database.restore", object: options.backup, after }, nowMs);
        const keys = validKeysIn(sqlite, nowMs).length;
        return { backupMs, isAllKnown, knownUntilMs, closed, ended, keys, held: heldCount };
      })
      .immediate();
    if (isPreviousReadable) rowsOnce(sqlite, "DETACH previous");
    return access;
  } finally {
    sqlite.close();
  }
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
