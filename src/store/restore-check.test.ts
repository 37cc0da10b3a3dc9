import { Database as SqliteDatabase } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newId } from "../lib/ids.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { createProjectIn } from "../testing/makers/small-database.ts";
import { restoreBackup, writeBackup } from "./backup.ts";
import { migrate, openDatabase } from "./database.ts";
import { identifierColumns } from "./identifier-columns.ts";
import { MIGRATIONS } from "./migrations/index.ts";
import { checkRestored } from "./restore-check.ts";
import { upgradeDatabase, versionOf } from "./upgrade.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-restore-"));
const path = join(folder, "shruti.db");
const good = join(folder, "good.db");
let ids: ReturnType<typeof createProjectIn>;

beforeAll(() => {
  const database = openDatabase(path);
  ids = createProjectIn(database);
  writeBackup(database, good);
  database.close();
});
afterAll(() => rmSync(folder, { recursive: true }));

const restore = (file: string, stamp: string) => {
  // SQLite keeps a closed connection open until its last statement is garbage-collected. A restore needs the database alone.
  Bun.gc(true);
  restoreBackup(file, path, stamp, (copy) => void checkRestored(copy, file));
};

/** Makes a backup and changes something in it. */
function altered(name: string, change: (sqlite: SqliteDatabase) => void): string {
  const file = join(folder, `${name.replaceAll(/\W/g, "-")}.db`);
  copyFileSync(good, file);
  const sqlite = new SqliteDatabase(file);
  sqlite.run("PRAGMA foreign_keys = OFF");
  change(sqlite);
  sqlite.close();
  return file;
}

const uploadWith = (id: string) => (sqlite: SqliteDatabase) =>
  void sqlite
    .query(
      `INSERT INTO uploads (id, organization_id, project_id, state, bytes, token_hash, created_at, expires_at)
       VALUES (?, ?, ?, 'complete', 1, '', 0, 0)`,
    )
    .run(id, ids.organizationId, ids.projectId);

const ULID = newId("upload", 1).slice(3);

const REFUSED: [name: string, change: (sqlite: SqliteDatabase) => unknown, message: string][] = [
  [
    "a hostile trigger",
    (db) => db.run("CREATE TRIGGER evil AFTER INSERT ON uploads BEGIN DELETE FROM api_keys; END"),
    "it has a trigger evil that is not this program's",
  ],
  ["a view", (db) => db.run("CREATE VIEW more AS SELECT 1"), "it has a view more that is not this program's"],
  [
    "a missing trigger of the ledger",
    (db) => db.run("DROP TRIGGER ledger_refuses_update"),
    "its trigger ledger_refuses_update is missing",
  ],
  [
    "a ledger trigger without effect",
    (db) => {
      db.run("DROP TRIGGER ledger_refuses_update");
      db.run("CREATE TRIGGER ledger_refuses_update BEFORE UPDATE ON ledger BEGIN SELECT 1; END");
    },
    "its trigger ledger_refuses_update differs from this program's",
  ],
  ["a missing index", (db) => db.run("DROP INDEX ledger_once"), "its index ledger_once is missing"],
  ["an additional column", (db) => db.run("ALTER TABLE uploads ADD COLUMN x"), "its table uploads differs"],
  [
    "a missing table",
    (db) => db.run("DROP TABLE results"),
    "its table results is missing; its index sqlite_autoindex_results_1 is missing",
  ],
  [
    "a view in place of the list of migrations",
    (db) => {
      db.run("DROP TABLE schema_migrations");
      db.run("CREATE VIEW schema_migrations AS SELECT '0001_initial' AS name, '' AS sha256, 0 AS applied_at");
    },
    "it has no list of migrations as this program keeps it",
  ],
  [
    "a list of migrations without an entry",
    (db) => db.run("DELETE FROM schema_migrations"),
    "it is empty: no migration has been applied",
  ],
  [
    "the schema of a newer program",
    (db) => db.run("INSERT INTO schema_migrations VALUES ('9999_future', 'x', 0)"),
    "it was written by a newer version of this program (it has 9999_future)",
  ],
  [
    "an upload whose id is a path",
    uploadWith("../../evil"),
    'uploads.id holds "../../evil", which is not an identifier up_',
  ],
  ["an upload of another kind", uploadWith(`tr_${ULID}`), "which is not an identifier up_"],
  ["an upload in small letters", uploadWith(`up_${ULID.toLowerCase()}`), "which is not an identifier up_"],
  [
    "an upload id with a path after a NUL",
    uploadWith(`up_${ULID}\0/../..`),
    "which is not an identifier up_",
  ],
  ["an upload that is bytes", (db) => db.run("UPDATE uploads SET id = CAST(id AS BLOB)"), "uploads.id holds"],
  [
    "a transcription whose id is a path",
    (db) =>
      db.run(`INSERT INTO results (transcription_id, result, created_at) VALUES ('../../../etc', '{}', 0)`),
    'results refer to transcriptions that are not there; results.transcription_id holds "../../../etc"',
  ],
  [
    "an upload without a project",
    (db) => {
      uploadWith(`up_${ULID}`)(db);
      db.run("UPDATE uploads SET project_id = 'prj_' || substr(id, 4)");
    },
    "of its uploads refer to projects that are not there",
  ],
  [
    "a balance without a grant",
    (db) => db.run("UPDATE organizations SET balance_paise = 100"),
    "its ledger does not hold: 1 problems, the first",
  ],
];

describe("a restore", () => {
  for (const [name, change, message] of REFUSED) {
    test(`refuses ${name} with its reason, and leaves everything as it was`, () => {
      const file = altered(name, change);
      const before = readFileSync(path);
      const names = readdirSync(folder);
      expect(() => restore(file, name)).toThrow(message);
      expect(readFileSync(path).equals(before)).toBe(true);
      expect(readdirSync(folder)).toEqual(names);
    });
  }

  test("refuses a database that has only a list of migrations", () => {
    const file = join(folder, "list.db");
    const sqlite = new SqliteDatabase(file);
    migrate(sqlite, []);
    const [first] = MIGRATIONS;
    const add = sqlite.query("INSERT INTO schema_migrations VALUES (?, ?, 0)");
    expect(() => restore(file, "list")).toThrow("it is empty");
    add.run(first?.name ?? "", sha256Hex(first?.sql ?? ""));
    sqlite.close();
    expect(() => restore(file, "list")).toThrow(/its table \w+ is missing; .*; and \d+ more/);
  });

  test("accepts a good backup, with or without statistics of ANALYZE", () => {
    restore(good, "good");
    expect(existsSync(`${path}.before-good`)).toBe(true);
    restore(
      altered("statistics", (db) => db.run("ANALYZE")),
      "statistics",
    );
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test("accepts a backup of every older schema and leaves it to the upgrade", async () => {
    for (const [index, { name }] of MIGRATIONS.entries()) {
      const file = join(folder, `older-${name}.db`);
      const sqlite = new SqliteDatabase(file);
      migrate(sqlite, MIGRATIONS.slice(0, index + 1));
      const id = newId("organization", index);
      sqlite.run("INSERT INTO organizations (id, name, created_at) VALUES (?, 'old', 0)", [id]);
      sqlite.close();
      restore(file, `older-${name}`);
      expect(versionOf(path).found).toBe(name);
      await upgradeDatabase(path, { nowMs: index });
      const restored = openDatabase(path);
      expect(restored.sqlite.query("SELECT id FROM organizations").all()).toEqual([{ id }]);
      expect(restored.sqlite.query("SELECT count(*) AS n FROM schema_migrations").get()).toEqual({
        n: MIGRATIONS.length,
      });
      restored.close();
    }
  }, 60_000);
});

test("the form of every identifier column is known", () => {
  const database = openDatabase(":memory:");
  const { columns, unknown } = identifierColumns(database.sqlite);
  expect(unknown).toEqual([]);
  expect(columns.length).toBeGreaterThan(30);
  database.close();
});
