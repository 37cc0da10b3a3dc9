import type { Database as SqliteDatabase } from "bun:sqlite";
import { randomUUID } from "node:crypto";
import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import type { Store } from "../../store/database.ts";
import {
  findSetting,
  findSettingTextIn,
  putSetting,
  SETTING_NAMES,
  type SettingName,
} from "../../store/settings.ts";

/** What the database remembers of stores, and of the last scheduled backup that failed. */

const Stores = Type.Object({
  /** Identifier of this appliance, a random text. A restored database is the same appliance. */
  appliance: Type.String(),
  /** Stores that backups went to: the path, and the identifier of the store there. */
  stores: Type.Array(Type.Object({ path: Type.String(), id: Type.String() })),
});
export type KnownStores = Static<typeof Stores>;

const Failure = Type.Object({ at_ms: Type.Number(), to: Type.String(), reason: Type.String() });
/** A scheduled backup that failed. `to` is `backup.to`. */
export type BackupFailure = Static<typeof Failure>;

const MAX_STORES = 20;
const MAX_REASON = 500;

/** Reads what a database of any version remembers of stores. */
export function readKnownStores(sqlite: SqliteDatabase): KnownStores | undefined {
  return checked(Stores, readSetting(sqlite, SETTING_NAMES.backupStores));
}

/** Reads where the last backup of everything is, from a database of any version. */
export function readLastPath(sqlite: SqliteDatabase): string | undefined {
  return checked(Type.Object({ path: Type.String() }), readSetting(sqlite, SETTING_NAMES.lastBackup))?.path;
}

function readSetting(sqlite: SqliteDatabase, name: SettingName): unknown {
  try {
    const text = findSettingTextIn(sqlite, name);
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    // A version without settings remembers nothing.
    return undefined;
  }
}

const checked = <T extends TSchema>(schema: T, value: unknown): Static<T> | undefined =>
  Value.Check(schema, value) ? (value as Static<T>) : undefined;

/** Returns the identifier of this appliance, which the first call makes. */
export function applianceId(tx: Store, nowMs: number): string {
  const known = checked(Stores, findSetting(tx, SETTING_NAMES.backupStores));
  if (known) return known.appliance;
  const appliance = randomUUID();
  putSetting(tx, SETTING_NAMES.backupStores, { appliance, stores: [] } satisfies KnownStores, nowMs);
  return appliance;
}

/** Remembers that backups go to a store, and forgets a failure of backups to the same folder. */
export function rememberStore(tx: Store, store: { path: string; id: string }, nowMs: number): void {
  const appliance = applianceId(tx, nowMs);
  const known = checked(Stores, findSetting(tx, SETTING_NAMES.backupStores));
  const others = (known?.stores ?? []).filter(({ path }) => path !== store.path);
  const stores = [...others, store].slice(-MAX_STORES);
  putSetting(tx, SETTING_NAMES.backupStores, { appliance, stores } satisfies KnownStores, nowMs);
  if (backupFailure(tx)?.to === store.path) putSetting(tx, SETTING_NAMES.backupFailure, undefined, nowMs);
}

/** Remembers that a scheduled backup failed. */
export function rememberFailure(tx: Store, { at_ms, to, reason }: BackupFailure): void {
  const failure = { at_ms, to, reason: reason.slice(0, MAX_REASON) };
  putSetting(tx, SETTING_NAMES.backupFailure, failure, at_ms);
}

/** Forgets the failure, because a scheduled backup was made. */
export function forgetFailure(tx: Store, nowMs: number): void {
  if (backupFailure(tx)) putSetting(tx, SETTING_NAMES.backupFailure, undefined, nowMs);
}

/** Returns the last scheduled backup, where it failed and none was made to the same folder since. */
export function backupFailure(store: Store): BackupFailure | undefined {
  return checked(Failure, findSetting(store, SETTING_NAMES.backupFailure));
}
