import { eq, sql } from "drizzle-orm";
import type { Store } from "./database.ts";
import { prepared } from "./prepared.ts";
import { settings } from "./schema.ts";

/**
 * Names of the choices that an admin makes at run time, of what the last backup of everything was and which others are
 * known, of the last scheduled one that failed, of the stores of backups, of how much of the files of deletions and closings
 * the database knows, whose lines in them count, and what of them was copied to folders of backups, of when a copy of the
 * database was made (only in that copy), of the keys that wait for an admin's confirmation after a restore, of how far
 * deletions were followed in older databases, of what is known of the clock, and of the signed heads of
 * the audit log: the newest, and the one with which a restored log begins.
 */
export const SETTING_NAMES = {
  defaultModel: "models.default",
  languageModels: "models.languages",
  lastBackup: "backup.last",
  backupFailure: "backup.failure",
  backupStores: "backup.stores",
  mirroredReceipts: "receipts.mirrored",
  mirroredClosings: "closings.mirrored",
  journalKeys: "journal.keys",
  journalCopies: "journal.copies",
  knownBackups: "backup.known",
  copyMoment: "copy.moment",
  heldKeys: "keys.held",
  followedCopies: "copies.followed",
  clock: "clock.state",
  auditHead: "audit.head",
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
