import { Database as SqliteDatabase } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import { checkpoint, checkpointNow, migrate, openDatabase, transaction } from "./database.ts";
import { MIGRATIONS } from "./migrations/index.ts";
import * as schema from "./schema.ts";

describe("database", () => {
  test("the migrations make exactly the tables and columns of schema.ts", () => {
    const database = openDatabase(":memory:");
    const tables = Object.values(schema).filter((value) => value instanceof SQLiteTable);
    expect(tables.length).toBeGreaterThan(15);
    for (const table of tables) {
      const config = getTableConfig(table);
      const actual = database.sqlite
        .query<{ name: string; type: string; notnull: number }, []>(`PRAGMA table_info(${config.name})`)
        .all();
      expect(actual.map((c) => c.name).sort()).toEqual(config.columns.map((c) => c.name).sort());
      for (const column of config.columns) {
        const found = actual.find((c) => c.name === column.name);
        expect(found?.type.toLowerCase()).toBe(column.getSQLType());
        if (!column.primary) expect(found?.notnull === 1).toBe(column.notNull);
      }
    }
    database.close();
  });

  test("a transaction that throws is rolled back, and a promise is refused", () => {
    const database = openDatabase(":memory:");
    const insert = () =>
      database.store.insert(schema.settings).values({ name: "a", value: 1, updatedAt: 0 }).run();
    expect(() =>
      transaction(database.store, () => {
        insert();
        throw new Error("no");
      }),
    ).toThrow("no");
    expect(() =>
      transaction(database.store, async () => {
        insert();
      }),
    ).toThrow("promise");
    expect(database.store.select().from(schema.settings).all()).toEqual([]);
    database.close();
  });

  test("a file that is in the way for a moment does not keep the database from being opened", async () => {
    const folder = mkdtempSync(join(tmpdir(), "shruti-db-"));
    const path = join(folder, "shruti.db");
    openDatabase(path).close();
    // SQLite cannot open this log, as one that still belongs to root. For root itself, a folder is what it cannot open.
    mkdirSync(`${path}-wal`);
    const removal = Bun.spawn(["sh", "-c", `sleep 0.3; rmdir '${path}-wal'`]);
    openDatabase(path).close();
    expect(await removal.exited).toBe(0);
    rmSync(folder, { recursive: true });
  });

  test("a newer database and an edited migration are refused, and opening twice changes nothing", () => {
    const folder = mkdtempSync(join(tmpdir(), "shruti-db-"));
    const path = join(folder, "shruti.db");
    openDatabase(path).close();
    openDatabase(path).close();
    const sqlite = new SqliteDatabase(path);
    expect(() => migrate(sqlite, [{ name: MIGRATIONS[0]?.name ?? "", sql: "SELECT 1" }])).toThrow("differs");
    sqlite.run("INSERT INTO schema_migrations VALUES ('9999_future', 'x', 0)");
    sqlite.close();
    expect(() => openDatabase(path)).toThrow("newer");
    rmSync(folder, { recursive: true });
  });

  test("a file that cannot be used is named, with SQLite's code and what may help", () => {
    const folder = mkdtempSync(join(tmpdir(), "shruti-db-"));
    const path = join(folder, "shruti.db");
    mkdirSync(path);
    expect(() => openDatabase(path)).toThrow(`${path}: it is a directory, not a regular file`);
    expect(() => openDatabase("/proc/shruti.db")).toThrow(
      "/proc/shruti.db: unable to open database file; the user who runs this must",
    );
    rmSync(path, { recursive: true });
    writeFileSync(path, "no database at all, but long enough to be looked at".repeat(100));
    expect(() => openDatabase(path)).toThrow(
      expect.objectContaining({ message: `${path}: file is not a database`, code: "SQLITE_NOTADB" }),
    );
    rmSync(folder, { recursive: true });
  });

  test("a checkpoint does not hold the thread while another process reads, and a later one empties the log", async () => {
    const folder = mkdtempSync(join(tmpdir(), "shruti-db-"));
    const database = openDatabase(join(folder, "shruti.db"), { busyTimeoutMs: 7_000 });
    const put = (value: number) =>
      database.store
        .insert(schema.settings)
        .values({ name: `n${value}`, value, updatedAt: 0 })
        .run();
    const logBytes = () => statSync(`${database.path}-wal`).size;
    put(1);
    const reader = new SqliteDatabase(database.path, { readonly: true });
    reader.run("BEGIN");
    reader.query("SELECT count(*) FROM settings").get();
    put(2);
    let timersFired = 0;
    const timer = setInterval(() => timersFired++, 1);
    expect(await checkpoint(database)).toBe(false);
    clearInterval(timer);
    expect(timersFired).toBeGreaterThan(1);
    expect(logBytes()).toBeGreaterThan(0);
    reader.run("COMMIT");
    expect(checkpointNow(database)).toBe(true);
    expect(logBytes()).toBe(0);
    expect(database.sqlite.query("PRAGMA busy_timeout").get()).toEqual({ timeout: 7_000 });
    reader.close();
    database.close();
    rmSync(folder, { recursive: true });
  });

  test("the ledger refuses updates and deletions", () => {
    const database = openDatabase(":memory:");
    database.sqlite.run("INSERT INTO organizations (id, name, created_at) VALUES ('org_1', 'a', 0)");
    database.sqlite.run("INSERT INTO ledger VALUES (1, 'org_1', 'grant', 5, NULL, NULL, 0, '', 'x')");
    expect(() => database.sqlite.run("UPDATE ledger SET amount_paise = 9")).toThrow("append-only");
    expect(() => database.sqlite.run("DELETE FROM ledger")).toThrow("append-only");
    database.close();
  });
});
