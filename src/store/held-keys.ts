import type { Database as SqliteDatabase } from "bun:sqlite";
import { Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import type { Database, Store } from "./database.ts";
import { rowsOnce } from "./once.ts";
import { findSetting, findSettingTextIn, putSetting, putSettingIn, SETTING_NAMES } from "./settings.ts";

const Held = Type.Object({
  /** Keys that were made until then wait. Epoch milliseconds. */
  until_ms: Type.Number(),
  /** The moment from which it is not known what was closed, epoch milliseconds; null: not known. */
  known_until_ms: Type.Union([Type.Number(), Type.Null()]),
  /** Identifiers of the keys that an admin has confirmed. */
  confirmed: Type.Array(Type.String()),
});

/**
 * The keys that a restore holds back, because they may have been revoked after the backup: those that were made until a
 * moment, without the confirmed ones.
 */
export type HeldKeys = { untilMs: number; knownUntilMs: number | null; confirmed: ReadonlySet<string> };

/** Returns what is held; undefined: nothing. A value that cannot be read holds all keys. */
export function findHeldKeys(store: Store): HeldKeys | undefined {
  return toHeldKeys(findSetting(store, SETTING_NAMES.heldKeys));
}

function toHeldKeys(value: unknown): HeldKeys | undefined {
  if (value === undefined) return undefined;
  if (!Value.Check(Held, value))
    return { untilMs: Number.MAX_SAFE_INTEGER, knownUntilMs: null, confirmed: new Set() };
  const { until_ms: untilMs, known_until_ms: knownUntilMs, confirmed } = value;
  return { untilMs, knownUntilMs, confirmed: new Set(confirmed) };
}

const toValue = ({ untilMs, knownUntilMs, confirmed }: HeldKeys) => ({
  until_ms: untilMs,
  known_until_ms: knownUntilMs,
  confirmed: [...confirmed],
});

/** @param held undefined: nothing is held any more */
export function putHeldKeys(tx: Store, held: HeldKeys | undefined, nowMs: number): void {
  putSetting(tx, SETTING_NAMES.heldKeys, held && toValue(held), nowMs);
}

/** Reports whether a key waits for its confirmation. */
export function isHeld(held: HeldKeys | undefined, key: { id: string; createdAt: number }): boolean {
  return held !== undefined && key.createdAt <= held.untilMs && !held.confirmed.has(key.id);
}

/** Reads what is held in a database of any version. @param database `main`, or the name of an attached one */
export function readHeldKeys(sqlite: SqliteDatabase, database: "main" | "previous"): HeldKeys | undefined {
  const text = findSettingTextIn(sqlite, SETTING_NAMES.heldKeys, database);
  if (text === undefined) return undefined;
  try {
    return toHeldKeys(JSON.parse(text));
  } catch {
    return toHeldKeys(null);
  }
}

/** Holds keys in a database of any version. @returns how many valid keys are held */
export function holdKeysIn(sqlite: SqliteDatabase, held: HeldKeys, nowMs: number): number {
  const [newest] = rowsOnce<{ at: number | null }>(sqlite, "SELECT max(created_at) AS at FROM api_keys");
  // A clock that was ahead has made keys in the future.
  const untilMs = Math.max(held.untilMs, newest?.at ?? 0);
  putSettingIn(sqlite, SETTING_NAMES.heldKeys, toValue({ ...held, untilMs }), nowMs);
  return validKeysIn(sqlite, nowMs).filter(({ id }) => !held.confirmed.has(id)).length;
}

/** Counts the valid keys that wait for their confirmation. */
export function countHeldKeys({ store, sqlite }: Pick<Database, "store" | "sqlite">, nowMs: number): number {
  const held = findHeldKeys(store);
  return held === undefined ? 0 : validKeysIn(sqlite, nowMs).filter((key) => isHeld(held, key)).length;
}

/** Lists the keys of a database of any version that are neither revoked nor expired. */
export function validKeysIn(sqlite: SqliteDatabase, nowMs: number): { id: string; createdAt: number }[] {
  return rowsOnce(
    sqlite,
    "SELECT id, created_at AS createdAt FROM api_keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)",
    nowMs,
  );
}
