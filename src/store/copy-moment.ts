import { Database as SqliteDatabase } from "bun:sqlite";
import { rowsOnce } from "./once.ts";
import { SETTING_NAMES } from "./settings.ts";

/** A copy of the database says when it was made, because the times of its rows and of its file do not. */

/** Notes the time in a copy that has no name yet, of any version. */
export function noteMoment(path: string, nowMs: number): void {
  const sqlite = new SqliteDatabase(path, { readwrite: true, create: false });
  try {
    const sql = "INSERT OR REPLACE INTO settings (name, value, updated_at) VALUES (?, ?, ?)";
    rowsOnce(sqlite, sql, SETTING_NAMES.copyMoment, JSON.stringify({ at_ms: nowMs }), nowMs);
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
  const [noted] = rowsOnce<{ at: unknown }>(
    sqlite,
    "SELECT json_extract(value, '$.at_ms') AS at FROM settings WHERE name = ?",
    name,
  );
  rowsOnce(sqlite, "DELETE FROM settings WHERE name = ?", name);
  if (typeof noted?.at === "number") return noted.at;
  const newest = TIMES.flatMap(([table, column]) =>
    rowsOnce<{ at: number | null }>(
      sqlite,
      hasTable(sqlite, table) ? `SELECT max(${column}) AS at FROM ${table}` : "SELECT NULL AS at",
    ),
  ).map(({ at }) => at ?? 0);
  const latest = Math.max(0, ...newest);
  return latest === 0 ? undefined : latest;
}

function hasTable(sqlite: SqliteDatabase, table: string): boolean {
  return rowsOnce(sqlite, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", table).length > 0;
}
