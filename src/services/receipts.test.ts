import { Database as SqliteDatabase } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../lib/clock.ts";
import { silentLog } from "../lib/log.ts";
import { writeBackup } from "../store/backup.ts";
import { type Database, openDatabase, transaction } from "../store/database.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { peakMemoryOf } from "../testing/programs/peak-memory.ts";
import { restoreDatabase } from "./backups/database-restore.ts";
import { DELETIONS_FILE } from "./journal/journal-file.ts";
import { createReceiptService } from "./receipts.ts";

/** The file of deletions, from which a restored database learns of later ones. */

let dataDir: string;
const opened: Database[] = [];
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "shruti-receipts-"));
});
afterEach(() => {
  for (const { close } of opened.splice(0)) close();
  rmSync(dataDir, { recursive: true });
});

function open(name: string) {
  const database = openDatabase(join(dataDir, name));
  opened.push(database);
  const receipts = createReceiptService({ database, clock: systemClock, dataDir });
  return {
    database,
    /** Deletes as a command does that is killed right afterwards. */
    deleteAndDie(...objects: string[]) {
      transaction(database.store, (tx) => {
        for (const id of objects) {
          const deleted = { kind: "transcription", id, organization_id: "org_1" } as const;
          receipts.write(tx, { deleted, recording: null, transcript: null, removed: null });
        }
      });
    },
    async deleteSome(...objects: string[]) {
      this.deleteAndDie(...objects);
      await receipts.mirror();
    },
    async unknown() {
      const found: string[] = [];
      for await (const { document } of receipts.readUnknown()) found.push(document.deleted.id);
      return found;
    },
  };
}

const file = () => join(dataDir, DELETIONS_FILE);

test("a database from before a deletion finds it, and reads nothing that it knows already", async () => {
  const now = open("now.db");
  await now.deleteSome("tr_1", "tr_2");
  writeBackup(now.database, join(dataDir, "restored.db"));
  expect(await now.unknown()).toEqual([]);
  await now.deleteSome("tr_3");
  await now.deleteSome("tr_4");
  expect(await now.unknown()).toEqual([]);
  const restored = open("restored.db");
  expect(await restored.unknown()).toEqual(["tr_3", "tr_4"]);
  // What comes before is not even looked at: here it is not the same any more, and the bytes right before are.
  const text = readFileSync(file(), "utf8");
  restored.database.sqlite.run("DELETE FROM receipts WHERE object = 'tr_1'");
  expect(await restored.unknown()).toEqual(["tr_3", "tr_4"]);
  writeFileSync(file(), text.replace("\n", "\n\n"));
  expect(await restored.unknown()).toEqual(["tr_1", "tr_3", "tr_4"]);
});

test("a database that does not know the file reads all of it", async () => {
  await open("now.db").deleteSome("tr_1", "tr_2");
  expect(await open("empty.db").unknown()).toEqual(["tr_1", "tr_2"]);
  const other = open("other.db");
  await other.deleteSome("tr_5");
  rmSync(file());
  await open("late.db").deleteSome("tr_6", "tr_7", "tr_8");
  expect(await other.unknown()).toEqual(["tr_6", "tr_7", "tr_8"]);
});

test("lines that were cut, changed or made up delete nothing", async () => {
  await open("now.db").deleteSome("tr_1", "tr_2");
  const [first = "", second = ""] = readFileSync(file(), "utf8").split("\n").filter(Boolean);
  writeFileSync(file(), `${first.slice(0, 100)}\n{}\nnull\n${first.replace("tr_1", "tr_9")}\n\n`);
  appendFileSync(file(), second);
  expect(await open("empty.db").unknown()).toEqual(["tr_2"]);
});

test("a restore keeps the deletions of commands that were killed before they had written the file", async () => {
  const now = open("now.db");
  writeBackup(now.database, join(dataDir, "backup.db"));
  // More than are read at once.
  const objects = Array.from({ length: 501 }, (_, n) => `tr_${n}`);
  now.deleteAndDie(...objects);
  // A copy, which no connection of this process has open.
  writeBackup(now.database, join(dataDir, "shruti.db"));
  const config = testConfig({ storage: { data_dir: dataDir } });
  restoreDatabase({ config, clock: systemClock, log: silentLog }, join(dataDir, "backup.db"));
  expect((await open("shruti.db").unknown()).toSorted()).toEqual(objects.toSorted());
});

test("a restore replaces a database that cannot be read", async () => {
  writeBackup(open("good.db").database, join(dataDir, "backup.db"));
  const config = testConfig({ storage: { data_dir: dataDir } });
  restoreDatabase({ config, clock: systemClock, log: silentLog }, join(dataDir, "backup.db"));
  // No receipts at all, as in an old version.
  const sqlite = new SqliteDatabase(join(dataDir, "shruti.db"));
  sqlite.run("DROP TABLE receipts");
  sqlite.close();
  restoreDatabase(
    { config, clock: { now: () => Date.now() + 60_000 }, log: silentLog },
    join(dataDir, "backup.db"),
  );
  expect(await open("shruti.db").unknown()).toEqual([]);
});

test("memory does not grow with a line of the file", async () => {
  await open("now.db").deleteSome("tr_1");
  writeFileSync(file(), `${"x".repeat(300_000_000)}\n${readFileSync(file(), "utf8")}`);
  const { bytes, outcome } = await peakMemoryOf(`
    const { readLines } = await import(source("services/journal/journal-file.ts"));
    outcome = [...readLines(${JSON.stringify(file())})].length;
  `);
  expect(outcome).toBe(1);
  // The process itself has some 100 MB.
  expect(bytes).toBeLessThan(280_000_000);
  expect(await open("empty.db").unknown()).toEqual(["tr_1"]);
});
