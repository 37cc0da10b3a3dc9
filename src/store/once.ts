import type { SQLQueryBindings, Database as SqliteDatabase } from "bun:sqlite";

/**
 * Runs one statement and frees it at once. SQLite keeps a closed connection, and with it the write-ahead log, until the
 * garbage collector has freed its last statement. Code that closes a connection and then moves the file cannot wait for
 * that.
 */
export function rowsOnce<T>(sqlite: SqliteDatabase, sql: string, ...bindings: SQLQueryBindings[]): T[] {
  const statement = sqlite.prepare<T, SQLQueryBindings[]>(sql);
  try {
    return statement.all(...bindings);
  } finally {
    statement.finalize();
  }
}

/** Reports whether a database of any version has a table. */
export function hasTable(sqlite: SqliteDatabase, name: string): boolean {
  return rowsOnce(sqlite, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", name).length > 0;
}
