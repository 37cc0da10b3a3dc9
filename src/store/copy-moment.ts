import { Database as SqliteDatabase } from "bun:sqlite";
import { hasTable, rowsOnce } from "./once.ts";
import { findSettingTextIn, putSettingIn, SETTING_NAMES } from "./settings.ts";

/** A copy of the database says when it was made, because the times of its rows and of its file do not. */

/** Notes the time in a copy that has no name yet, of any version. */
export function noteMoment(path: string, nowMs: number): void {
  const sqlite = new SqliteDatabase(path, { readwrite: true, create: false });
  try {
    putSettingIn(sqlite, SETTING_NAMES.copyMoment, { at_ms: nowMs }, nowMs);
  } finally {
    sqlite.close();
  }
}

const TIMES = [
  ["audit_log", "created_at"],
  ["ledger", "created_at"],
  ["uploads", "created_at"],
  ["api_keys", "last_used_at"],
] as const;

/**
 * Takes the time out of a copy that becomes a database again.
 *
 * @returns when the copy was made, or, where it does not say so, the newest time in it; undefined: it has none
 */
export function takeMoment(sqlite: SqliteDatabase): number | undefined {
  const name = SETTING_NAMES.copyMoment;
  const atMs: unknown = JSON.parse(findSettingTextIn(sqlite, name) ?? "null")?.at_ms;
  rowsOnce(sqlite, "DELETE FROM settings WHERE name = ?", name);
  if (typeof atMs === "number") return atMs;
  const newest = TIMES.flatMap(([table, column]) =>
    rowsOnce<{ at: number | null }>(
      sqlite,
      hasTable(sqlite, table) ? `SELECT max(${column}) AS at FROM ${table}` : "SELECT NULL AS at",
    ),
  ).map(({ at }) => at ?? 0);
  const latest = Math.max(0, ...newest);
  return latest === 0 ? undefined : latest;
}
