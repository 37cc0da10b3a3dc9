import { afterAll, beforeEach, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLog } from "../../lib/log.ts";
import { openDatabase } from "../../store/database.ts";
import { SETTING_NAMES } from "../../store/settings.ts";
import { manualClock } from "../../testing/kits/manual-clock.ts";
import { testConfig } from "../../testing/kits/test-config.ts";
import { backupsIn } from "./backup-reader.ts";
import { restoreAll } from "./backup-restore.ts";
import { readBackupState } from "./backup-state.ts";
import { backUpEverything } from "./backups.ts";

/** A disk that is not mounted must not become a new store, and two appliances must not share one. */

const root = mkdtempSync(join(tmpdir(), "shruti-stores-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const clock = manualClock();
let folder: string;
let dataDir: string;
let store: string;
beforeEach(() => {
  folder = mkdtempSync(join(root, "t-"));
  dataDir = join(folder, "data");
  store = join(folder, "mount");
  openDatabase(join(dataDir, "shruti.db")).close();
});

const configOf = (data: string) => testConfig({ storage: { data_dir: data, reserve_bytes: 0 } });

/** @returns why no backup was made; empty: one was */
async function backUp(to = store, { isNew = false, data = dataDir } = {}): Promise<string> {
  clock.advance(1_000);
  const options = { config: configOf(data), configPath: undefined, environment: {}, clock };
  const target = { store: to, keep: undefined, isNew };
  return backUpEverything({ ...options, weights: false, secrets: false }, target).then(
    () => "",
    (error: Error) => error.message,
  );
}

function forget(name: string, data = dataDir): void {
  const database = openDatabase(join(data, "shruti.db"));
  database.sqlite.run("DELETE FROM settings WHERE name = ?", [name]);
  database.close();
}

const LOST = /mount does not hold the store that earlier backups went to: is its disk mounted\?/;

test("a store that is gone is an error, until its disk is back or an admin wants a new one", async () => {
  expect(await backUp()).toBe("");
  renameSync(store, `${store}.away`);
  expect(await backUp()).toMatch(LOST);
  expect(existsSync(store)).toBe(false);
  // The empty folder of a mount point.
  mkdirSync(store);
  expect(await backUp()).toMatch(LOST);
  expect(existsSync(join(store, "backups"))).toBe(false);
  rmSync(store, { recursive: true });
  renameSync(`${store}.away`, store);
  expect(await backUp()).toBe("");
  expect(backupsIn(store)).toHaveLength(2);
  renameSync(store, `${store}.away`);
  expect(await backUp(store, { isNew: true })).toBe("");
  expect(backupsIn(store)).toHaveLength(1);
  // Two disks in turn at the same place.
  renameSync(store, `${store}.second`);
  renameSync(`${store}.away`, store);
  expect(await backUp()).toBe("");
  expect(backupsIn(store)).toHaveLength(3);
});

test("a store that moved is found by its own file", async () => {
  await backUp();
  renameSync(store, join(folder, "moved"));
  expect(await backUp(join(folder, "moved"))).toBe("");
});

test("a new folder is made where its parent is there, and further ones where an admin asks for it", async () => {
  const deep = join(folder, "not/mounted");
  expect(await backUp(deep)).toContain(`There is no folder ${join(folder, "not")}: is its disk mounted?`);
  expect(existsSync(join(folder, "not"))).toBe(false);
  expect(await backUp(deep, { isNew: true })).toBe("");
});

test("a store of an older version is taken over, and is missed when it is gone", async () => {
  await backUp();
  rmSync(join(store, "store.json"));
  forget(SETTING_NAMES.backupStores);
  renameSync(store, `${store}.away`);
  expect(await backUp()).toMatch(LOST);
  renameSync(`${store}.away`, store);
  expect(await backUp()).toBe("");
  expect(JSON.parse(readFileSync(join(store, "store.json"), "utf8"))).toMatchObject({ format: 1 });
});

test("another appliance is refused; a restored one is the same", async () => {
  await backUp();
  const other = join(folder, "other");
  openDatabase(join(other, "shruti.db")).close();
  expect(await backUp(store, { data: other })).toMatch(
    /holds the backups of another appliance \(machine ".*", since/,
  );
  const restored = join(folder, "restored");
  await restoreAll(store, { config: configOf(restored), dataDir: restored, clock, log: silentLog });
  expect(await backUp(store, { data: restored })).toBe("");
  expect(backupsIn(store)).toHaveLength(2);
  for (const text of ["{}", "not JSON", '{"format": 2}']) {
    writeFileSync(join(store, "store.json"), text);
    expect(await backUp()).toContain("mount is not used: its store.json");
  }
});

test("a folder in the data directory is refused, also through a link", async () => {
  expect(await backUp(join(dataDir, "backups"))).toContain("is in the data directory");
  symlinkSync(dataDir, join(folder, "link"));
  expect(await backUp(join(folder, "link/below/it"), { isNew: true })).toContain("is in the data directory");
});

test("an admin sees what is wrong with the folder of the schedule before a backup fails", async () => {
  const problemWith = (to: string) => {
    const config = testConfig({ storage: { data_dir: dataDir }, backup: { schedule: "0 3 * * *", to } });
    const database = openDatabase(join(dataDir, "shruti.db"));
    try {
      return readBackupState(database, config, dataDir).problem;
    } finally {
      database.close();
    }
  };
  expect(problemWith(store)).toBeUndefined();
  expect(problemWith(join(folder, "not/mounted"))).toContain("is its disk mounted?");
  await backUp();
  expect(problemWith(store)).toBeUndefined();
  rmSync(store, { recursive: true });
  expect(problemWith(store)).toMatch(LOST);
  writeFileSync(store, "");
  expect(problemWith(store)).toMatch(LOST);
});
