import type { Database as SqliteDatabase } from "bun:sqlite";
import { eq, sql } from "drizzle-orm";
import type { Store } from "./database.ts";
import { rowsOnce } from "./once.ts";
import { prepared } from "./prepared.ts";
import { settings } from "./schema.ts";

/** Choices that an admin makes at run time, and small facts that the program remembers. */
export const SETTING_NAMES = {
  defaultModel: "models.default",
  languageModels: "models.languages",
  /** The last backup of everything. */
  lastBackup: "backup.last",
  /** The last scheduled backup, where it failed. */
  backupFailure: "backup.failure",
  /** The identifier of this appliance, and the stores that its backups went to. */
  backupStores: "backup.stores",
  /** All backups that are known, also of the database alone. */
  knownBackups: "backup.known",
  /** How much of the file of deletions the database knows. */
  mirroredReceipts: "receipts.mirrored",
  /** The last entry of the audit log that the file of closings has. */
  mirroredClosings: "closings.mirrored",
  /** The keys whose lines in both files count. */
  journalKeys: "journal.keys",
  /** How much of both files was copied to each folder of backups. */
  journalCopies: "journal.copies",
  /** When a copy of the database was made. Only that copy has it. */
  copyMoment: "copy.moment",
  /** The keys that wait for an admin's confirmation after a restore. */
  heldKeys: "keys.held",
  /** How far deletions were followed in each older database. */
  followedCopies: "copies.followed",
  /** What is known of the clock. */
  clock: "clock.state",
  /** The newest signed head of the audit log. */
  auditHead: "audit.head",
  /** The signed head with which a restored audit log begins. */
  auditBase: "audit.base",
} as const;
export type SettingName = (typeof SETTING_NAMES)[keyof typeof SETTING_NAMES];

const selectValue = prepared((store: Store) =>
  store
    .select({ value: settings.value })
    .from(settings)
    .where(eq(settings.name, sql.placeholder("name")))
    .prepare(),
);

/** Returns a stored choice; undefined when there is none. */
export function findSetting(store: Store, name: SettingName): unknown {
  return selectValue(store).get({ name })?.value;
}

/**
 * Returns a stored choice of a database of any version, as JSON text.
 *
 * @param database `main`, or the name of an attached one
 * @returns undefined when there is none
 * @throws SQLite's error for a version without settings
 */
export function findSettingTextIn(
  sqlite: SqliteDatabase,
  name: SettingName,
  database: "main" | "previous" = "main",
): string | undefined {
  const query = `SELECT value FROM ${database}.settings WHERE name = ?`;
  return rowsOnce<{ value: string }>(sqlite, query, name)[0]?.value;
}

/** Stores a choice in a database of any version from the one on that has settings. @throws SQLite's error */
export function putSettingIn(sqlite: SqliteDatabase, name: SettingName, value: unknown, nowMs: number): void {
  const statement = "INSERT OR REPLACE INTO settings (name, value, updated_at) VALUES (?, ?, ?)";
  rowsOnce(sqlite, statement, name, JSON.stringify(value), nowMs);
}

/** Stores a choice; undefined removes the stored one. */
export function putSetting(store: Store, name: SettingName, value: unknown, nowMs: number): void {
  if (value === undefined) {
    store.delete(settings).where(eq(settings.name, name)).run();
    return;
  }
  store
    .insert(settings)
    .values({ name, value, updatedAt: nowMs })
    .onConflictDoUpdate({ target: settings.name, set: { value, updatedAt: nowMs } })
    .run();
}
