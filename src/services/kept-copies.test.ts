import { Database as SqliteDatabase } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { newId } from "../lib/ids.ts";
import { silentLog } from "../lib/log.ts";
import { removeAbandonedCopies, restoreBackup, writeBackup } from "../store/backup.ts";
import { type Database, openDatabase } from "../store/database.ts";
import { followDeletions, removeCopiesWith } from "./kept-copies.ts";

/** Deletions reach each copy of the database that this program makes: its files are searched for the words. */

const SECRET = "eighty three thousand rupees";
const COPY = "shruti.db.version-0015.2026-11-01T00-00-00-000Z";
const DAMAGED = "shruti.db.before-2026-11-03T00-00-00-000Z";
const REPLACED = "shruti.db.before-2026-11-02T00-00-00-000Z";

let folder: string;
let database: Database;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-copies-"));
  mkdirSync(join(folder, "uploads"));
  database = openDatabase(join(folder, "shruti.db"));
  // Rows of other tables are not needed here.
  database.sqlite.run("PRAGMA foreign_keys = OFF");
  for (const id of ["org_1", "org_2"])
    database.sqlite.run("INSERT INTO organizations (id, name, created_at) VALUES (?, ?, 1)", [id, id]);
});
afterEach(() => {
  database.close();
  rmSync(folder, { recursive: true });
});

const at = (name: string) => join(folder, name);
/** Counts the secret words in a file and in what SQLite keeps beside it. */
const wordsIn = (path: string) =>
  ["", "-wal", "-journal"]
    .filter((ending) => existsSync(path + ending))
    .map((ending) => readFileSync(path + ending, "latin1").split(SECRET).length - 1)
    .reduce((sum, count) => sum + count, 0);

/** Adds transcripts whose rows fill many pages, and returns their identifiers. */
function addResults(count: number): string[] {
  const insert = database.sqlite.prepare("INSERT INTO results VALUES (?, ?, 1)");
  const ids = Array.from({ length: count }, (_, n) => newId("transcription", n + 1));
  database.sqlite.transaction(() => {
    for (const id of ids) insert.run(id, JSON.stringify({ text: `${SECRET} ${"x".repeat(600)}` }));
  })();
  insert.finalize();
  return ids;
}

/** Copies the database as older versions did: with texts in unused parts of the pages. */
function copyAsOlderVersions(path: string): void {
  const sqlite = new SqliteDatabase(at("shruti.db"));
  sqlite.run("PRAGMA secure_delete = OFF");
  sqlite.run("VACUUM INTO ?", [path]);
  sqlite.close();
}

function deleteResults(one: Database["sqlite"], ids: readonly string[]): void {
  one.transaction(() => {
    for (const id of ids) one.run("DELETE FROM results WHERE transcription_id = ?", [id]);
  })();
}

/** Writes what a deletion leaves: its receipt. */
function addReceipts(ids: readonly string[]): void {
  for (const id of ids)
    database.sqlite.run("INSERT INTO receipts VALUES (?, ?, 'org_1', 1, '{}', 1)", [newId("receipt", 5), id]);
}

test("a copy of the database, and a database that was restored, hold nothing of deleted transcripts", () => {
  const ids = addResults(200);
  copyAsOlderVersions(at("older.db"));
  const older = new SqliteDatabase(at("older.db"));
  older.run("PRAGMA secure_delete = ON");
  deleteResults(older, ids);
  older.close();
  expect(wordsIn(at("older.db"))).toBeGreaterThan(0);

  writeBackup(database, at("copy.db"));
  const copy = new SqliteDatabase(at("copy.db"));
  copy.run("PRAGMA secure_delete = ON");
  deleteResults(copy, ids);
  copy.close();
  expect(wordsIn(at("copy.db"))).toBe(0);

  // The same file with its rows, restored.
  rmSync(at("older.db"));
  copyAsOlderVersions(at("older.db"));
  mkdirSync(at("there"));
  restoreBackup(at("older.db"), at("there/shruti.db"), "now", () => {});
  const restored = openDatabase(at("there/shruti.db"));
  deleteResults(restored.sqlite, ids);
  restored.sqlite.run("PRAGMA wal_checkpoint(TRUNCATE)");
  restored.close();
  expect(wordsIn(at("there/shruti.db"))).toBe(0);
  expect(readdirSync(at("there")).filter((name) => name.includes("restoring"))).toEqual([]);
});

test("deletions are repeated in the copies of upgrades and restores, each once", async () => {
  const ids = addResults(20);
  writeBackup(database, at(COPY));
  writeBackup(database, at(REPLACED));
  writeFileSync(at(DAMAGED), "no database");
  const deps = { database, clock: { now: () => 7 }, log: silentLog };
  await followDeletions(deps);
  expect([wordsIn(at(COPY)), wordsIn(at(REPLACED))]).toEqual([20, 20]);
  addReceipts(ids.slice(0, 15));
  await followDeletions(deps);
  expect([wordsIn(at(COPY)), wordsIn(at(REPLACED))]).toEqual([5, 5]);
  addReceipts(ids.slice(15));
  await followDeletions(deps);
  expect([wordsIn(at(COPY)), wordsIn(at(REPLACED))]).toEqual([0, 0]);
  const followed = database.sqlite.query("SELECT value FROM settings WHERE name = 'copies.followed'").get();
  expect(JSON.parse((followed as { value: string }).value)).toEqual({
    [REPLACED]: 20,
    [COPY]: 20,
    [DAMAGED]: -1,
  });
  // A copy that is gone is forgotten.
  rmSync(at(DAMAGED));
  rmSync(at(COPY));
  addReceipts(ids.slice(0, 1));
  await followDeletions(deps);
  expect(database.sqlite.query("SELECT value FROM settings WHERE name = 'copies.followed'").get()).toEqual({
    value: JSON.stringify({ [REPLACED]: 21 }),
  });
});

test("metadata goes from the transcriptions, the index and the events of a copy", async () => {
  const nowMs = Date.now();
  const [own, other] = [newId("transcription", nowMs), newId("transcription", nowMs)];
  const required = (table: string) =>
    (
      database.sqlite
        .query(`SELECT name FROM pragma_table_info('${table}') WHERE "notnull" = 1 AND dflt_value IS NULL`)
        .all() as { name: string }[]
    ).map(({ name }) => name);
  const add = (table: string, values: Record<string, string | number>) => {
    const row = { ...Object.fromEntries(required(table).map((name) => [name, 1])), ...values };
    const places = Object.keys(row).map(() => "?");
    const sql = `INSERT INTO ${table} (${Object.keys(row)}) VALUES (${places})`;
    database.sqlite.run(sql, Object.values(row));
  };
  for (const id of [own, other]) {
    const metadata = JSON.stringify({ caller: SECRET });
    add("transcriptions", { id, project_id: "p", metadata, webhook_endpoint_id: "we_1", finished_at: nowMs });
    const body = JSON.stringify({
      type: "transcription.completed",
      data: { id, metadata: { caller: SECRET } },
    });
    add("events", { id: newId("event", nowMs), transcription_id: id, endpoint_id: "we_1", body });
  }
  writeBackup(database, at(COPY));
  // Both have it in the row, in the index and in an event.
  expect(wordsIn(at(COPY))).toBe(6);
  addReceipts([own]);
  await followDeletions({ database, clock: { now: () => 7 }, log: silentLog });
  expect(wordsIn(at(COPY))).toBe(3);
  const copy = new SqliteDatabase(at(COPY), { readonly: true });
  expect(copy.query("SELECT transcription_id AS id FROM transcription_metadata").all()).toEqual([
    { id: other },
  ]);
  expect(copy.query("SELECT body FROM events WHERE transcription_id = ?").get(own)).toEqual({
    body: JSON.stringify({ type: "transcription.completed", data: { id: own } }),
  });
  copy.close();
});

test("a purge removes the copies that hold the customer, with recordings that only they know, and no others", async () => {
  const [own, other] = [newId("upload", 1), newId("upload", 2)];
  const insert = `INSERT INTO uploads (id, organization_id, project_id, state, bytes, token_hash, created_at, expires_at)
    VALUES (?, ?, 'p', 'complete', 1, '', 1, 1)`;
  database.sqlite.run(insert, [own, "org_1"]);
  database.sqlite.run(insert, [other, "org_2"]);
  for (const id of [own, other]) writeFileSync(at(`uploads/${id}`), "sound");
  writeBackup(database, at(COPY));
  database.sqlite.run("UPDATE organizations SET purged_at = 9 WHERE id = 'org_1'");
  writeBackup(database, at(REPLACED));
  writeFileSync(at(DAMAGED), "no database, but perhaps once one");
  const unfinished = ".0123456789ab.unfinished";
  writeFileSync(at(unfinished), readFileSync(at(REPLACED)));
  writeFileSync(at(".ba9876543210.unfinished"), "something else that is written now");
  const { removed, kept } = await removeCopiesWith(at("shruti.db"), folder, "org_1");
  expect(removed.sort()).toEqual([at(COPY), at(DAMAGED)].sort());
  expect(kept).toEqual([]);
  const left = readdirSync(folder).filter((name) => /version|before|unfinished/.test(name));
  expect(left.sort()).toEqual([".ba9876543210.unfinished", REPLACED]);
  expect(readdirSync(at("uploads"))).toEqual([other]);
});

test("the copies of killed restores are removed: by another command when their process is gone, by a server always", () => {
  const dead = "shruti.db.4194305.restoring.source";
  const own = `shruti.db.${process.pid}.restoring.clean`;
  for (const name of [dead, `${dead}-journal`, own]) writeFileSync(at(name), "x");
  expect(removeAbandonedCopies(at("shruti.db"))).toBe(2);
  expect(existsSync(at(own))).toBe(true);
  expect(removeAbandonedCopies(at("shruti.db"), true)).toBe(1);
  expect(existsSync(at(own))).toBe(false);
});

test("the next backup to the same file removes what a killed one has left", () => {
  writeFileSync(at("backup.db.4194305.partial"), "x");
  writeFileSync(at("backup.db.4194305.partial-journal"), "x");
  writeFileSync(at("other.db.4194305.partial"), "x");
  writeBackup(database, at("backup.db"));
  expect(readdirSync(folder).filter((name) => name.includes("partial"))).toEqual([
    "other.db.4194305.partial",
  ]);
});
