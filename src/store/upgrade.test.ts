import { Database as SqliteDatabase } from "bun:sqlite";
import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sha256Hex } from "../lib/sha256.ts";
import { mayMountDisks, mountSmallDisk, unmountDisk } from "../testing/boxes/small-disk.ts";
import { SLOW_MIGRATIONS } from "../testing/programs/upgrade-worker.ts";
import { migrate, openDatabase } from "./database.ts";
import { DatabaseVersionError, peekVersion, UpgradeError } from "./database-version.ts";
import { MIGRATIONS } from "./migrations/index.ts";
import { rowsOnce } from "./once.ts";
import {
  confirmUpgrade,
  KEPT_UPGRADE_BACKUPS,
  unconfirmedUpgrade,
  undoUpgrade,
  upgradeDatabase,
  versionOf,
} from "./upgrade.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-upgrade-"));
afterAll(() => rmSync(folder, { recursive: true }));
let path: string;
let count = 0;
beforeEach(() => {
  count += 1;
  const own = join(folder, String(count));
  mkdirSync(own);
  path = join(own, "shruti.db");
});

const NOW_MS = Date.parse("2026-11-22T06:40:00.123Z");
const LAST = MIGRATIONS.at(-1)?.name ?? "";
const hashOf = (file: string) => sha256Hex(readFileSync(file));
const names = () => readdirSync(join(path, "..")).sort();

/** Makes a database of an older version with one row. */
function makeOlder(at = path, migrations: number = 3, filling = 0): void {
  const sqlite = new SqliteDatabase(at, { create: true });
  sqlite.run("PRAGMA journal_mode = WAL");
  migrate(sqlite, MIGRATIONS.slice(0, migrations));
  sqlite.run("INSERT INTO settings (name, value, updated_at) VALUES ('mine', '1', 0)");
  if (filling > 0)
    rowsOnce(
      sqlite,
      "INSERT INTO settings (name, value, updated_at) VALUES ('filling', json_quote(hex(randomblob(?))), 0)",
      filling,
    );
  sqlite.close(true);
}

function settingsOf(file: string): string[] {
  const sqlite = new SqliteDatabase(file);
  try {
    return rowsOnce<{ name: string }>(sqlite, "SELECT name FROM settings ORDER BY name").map(
      ({ name }) => name,
    );
  } finally {
    sqlite.close(true);
  }
}

function write(sql: string): void {
  const sqlite = new SqliteDatabase(path);
  sqlite.run(sql);
  sqlite.close(true);
}

test.each(MIGRATIONS.slice(0, -1).map(({ name }, index) => [name, index + 1] as const))(
  "a database of version %s is upgraded after a backup, and back again",
  async (name, migrations) => {
    makeOlder(path, migrations);
    const before = hashOf(path);
    expect(() => openDatabase(path)).toThrow(DatabaseVersionError);
    expect([hashOf(path), names()]).toEqual([before, ["shruti.db"]]);

    const upgrade = await upgradeDatabase(path, { nowMs: NOW_MS });
    const backup = `${path}.version-${name.slice(0, 4)}.2026-11-22T06-40-00-123Z`;
    expect(upgrade).toEqual({ from: name, to: LAST, backup });
    expect(statSync(backup).mode & 0o777).toBe(0o600);
    expect(peekVersion(backup)).toMatchObject({ state: "older", found: name });
    expect(settingsOf(backup)).toEqual(["mine"]);
    openDatabase(path).close();
    expect(unconfirmedUpgrade(path)).toMatchObject({ backup });
    expect(await upgradeDatabase(path, { nowMs: NOW_MS })).toBeUndefined();
    Bun.gc(true);

    await undoUpgrade(path, NOW_MS);
    expect(versionOf(path)).toMatchObject({ state: "older", found: name });
    expect(settingsOf(path)).toEqual(["mine"]);
    expect(names()).toEqual(["shruti.db"]);
    await expect(undoUpgrade(path, NOW_MS)).rejects.toThrow("no upgrade that could be undone");
  },
);

test("events keep their transcriptions and deliveries when events without a transcription become possible", async () => {
  makeOlder(
    path,
    MIGRATIONS.findIndex(({ name }) => name === "0015_credit_low_events"),
  );
  const read = () => {
    const sqlite = new SqliteDatabase(path, { readonly: true });
    try {
      return rowsOnce(
        sqlite,
        `SELECT e.id, e.transcription_id, e.endpoint_id, e.type, e.body, d.state, a.error
           FROM events AS e JOIN deliveries AS d ON d.event_id = e.id
           LEFT JOIN delivery_attempts AS a ON a.event_id = e.id ORDER BY e.id`,
      );
    } finally {
      sqlite.close(true);
    }
  };
  write(`INSERT INTO organizations (id, name, created_at) VALUES ('org', 'o', 0);
    INSERT INTO projects (id, organization_id, name, created_at) VALUES ('prj', 'org', 'p', 0);
    INSERT INTO webhook_endpoints (id, project_id, organization_id, url, secret, created_at)
      VALUES ('whe', 'prj', 'org', 'https://a', 's', 0);
    INSERT INTO events (id, transcription_id, endpoint_id, type, body, created_at)
      VALUES ('evt1', 'tr1', 'whe', 'transcription.completed', '{}', 0), ('evt2', 'tr2', 'whe', 'transcription.failed', '{"a":1}', 1);
    INSERT INTO deliveries (event_id, endpoint_id, state) VALUES ('evt1', 'whe', 'delivered'), ('evt2', 'whe', 'pending');
    INSERT INTO delivery_attempts (event_id, started_at, duration_ms, error) VALUES ('evt1', 0, 1, 'no');`);
  const before = read();
  expect(before).toHaveLength(2);
  await upgradeDatabase(path, { nowMs: NOW_MS });
  expect(read()).toEqual(before);
  const sqlite = new SqliteDatabase(path, { readonly: true });
  expect(rowsOnce(sqlite, "SELECT events FROM webhook_endpoints")).toEqual([{ events: "[]" }]);
  expect(rowsOnce(sqlite, "PRAGMA foreign_key_check")).toEqual([]);
  sqlite.close(true);
});

test("what organizations store is summed up when their limits become possible", async () => {
  makeOlder(
    path,
    MIGRATIONS.findIndex(({ name }) => name === "0017_stored_bytes"),
  );
  const upload = (id: string, state: string, bytes: number, deletedAt: number | null = null) =>
    `INSERT INTO uploads (id, organization_id, project_id, state, bytes, token_hash, created_at, expires_at, deleted_at)
     VALUES ('${id}', 'org', 'prj', '${state}', ${bytes}, '', 0, 0, ${deletedAt});`;
  write(`INSERT INTO organizations (id, name, created_at) VALUES ('org', 'o', 0), ('empty', 'e', 0);
    INSERT INTO projects (id, organization_id, name, created_at) VALUES ('prj', 'org', 'p', 0);
    ${upload("a", "complete", 1_000)} ${upload("b", "complete", 10_000, 1)} ${upload("c", "rejected", 20_000, 1)}
    ${upload("d", "verifying", 200_000_000)} ${upload("e", "allocated", 5_000_000_000)} ${upload("f", "allocated", 7)}`);
  await upgradeDatabase(path, { nowMs: NOW_MS });
  const sqlite = new SqliteDatabase(path);
  const stored = () => rowsOnce(sqlite, "SELECT id, stored_bytes FROM organizations ORDER BY id");
  const empty = { id: "empty", stored_bytes: 0 };
  expect(stored()).toEqual([empty, { id: "org", stored_bytes: 1_000 + 200_000_000 + 8 * 1024 ** 2 + 7 }]);
  sqlite.run("UPDATE uploads SET deleted_at = 1 WHERE id = 'd'");
  sqlite.run("DELETE FROM uploads WHERE id = 'f'");
  expect(stored()).toEqual([empty, { id: "org", stored_bytes: 1_000 + 8 * 1024 ** 2 }]);
  sqlite.close(true);
});

test("an upgrade is not undone once something has been written, or it has been confirmed", async () => {
  makeOlder();
  await upgradeDatabase(path, { nowMs: NOW_MS });
  write("UPDATE settings SET value = '2'");
  await expect(undoUpgrade(path, NOW_MS)).rejects.toMatchObject({
    code: "conflict",
    message: expect.stringContaining("written to since its upgrade"),
  });
  expect(versionOf(path).state).toBe("current");
  confirmUpgrade(path);
  await expect(undoUpgrade(path, NOW_MS)).rejects.toMatchObject({ code: "not_found" });
  expect(versionOf(path).state).toBe("current");
});

test("an upgrade is not undone while another process has the database open", async () => {
  makeOlder();
  await upgradeDatabase(path, { nowMs: NOW_MS });
  const other = new SqliteDatabase(path);
  rowsOnce(other, "SELECT * FROM settings");
  await expect(undoUpgrade(path, NOW_MS)).rejects.toMatchObject({ code: "conflict" });
  other.close(true);
  await undoUpgrade(path, NOW_MS);
  expect(versionOf(path).state).toBe("older");
});

test("only the newest backups are kept, and other files are left alone", async () => {
  writeFileSync(`${path}.version-mine`, "mine");
  writeFileSync(`${path}.before-2026`, "mine");
  const made: string[] = [];
  for (let round = 0; round < KEPT_UPGRADE_BACKUPS + 2; round++) {
    rmSync(path, { force: true });
    makeOlder(path, 1 + (round % 3));
    made.push((await upgradeDatabase(path, { nowMs: NOW_MS + round }))?.backup ?? "");
  }
  const kept = made.slice(-KEPT_UPGRADE_BACKUPS);
  const expected = [...kept, `${path}.version-mine`, `${path}.before-2026`, path, `${path}.upgraded`];
  expect(names().map((name) => join(path, "..", name))).toEqual(expected.sort());
});

test("a copy that was made under a clock that was ahead is not newer than the others", async () => {
  const YEAR_MS = 365 * 86_400_000;
  const made: string[] = [];
  for (const offsetMs of [YEAR_MS, 0, 1, 2]) {
    rmSync(path, { force: true });
    makeOlder();
    made.push((await upgradeDatabase(path, { nowMs: NOW_MS + offsetMs }))?.backup ?? "");
  }
  const left = names().filter((name) => name.includes(".version-"));
  expect(left.map((name) => join(path, "..", name))).toEqual(made.slice(1).sort());
});

test("a migration that fails changes nothing and leaves no backup behind", async () => {
  makeOlder();
  const migrations = [
    ...MIGRATIONS,
    { name: "9000_broken", sql: "CREATE TABLE a (b); SELECT * FROM nothing" },
  ];
  const failure = await upgradeDatabase(path, { nowMs: NOW_MS, migrations }).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(UpgradeError);
  expect(failure).toMatchObject({
    isPassing: false,
    message: expect.stringContaining("nothing was changed"),
  });
  expect(names()).toEqual(["shruti.db"]);
  expect(versionOf(path)).toMatchObject({ state: "older", found: MIGRATIONS[2]?.name });
  expect(settingsOf(path)).toEqual(["mine"]);
  expect(unconfirmedUpgrade(path)).toBeUndefined();
});

test.skipIf(!mayMountDisks())(
  "a disk without space for the backup, or for the migration, is reported, and nothing changes (needs root on Linux)",
  async () => {
    const disk = join(path, "..");
    const filler = join(disk, "filler");
    expect(mountSmallDisk(disk, 8)).toBe(true);
    const upgrade = (migrations = MIGRATIONS) =>
      upgradeDatabase(path, { nowMs: NOW_MS, migrations }).catch((error: unknown) => error);
    try {
      makeOlder(path, 3, 1_000_000);
      const before = hashOf(path);
      writeFileSync(filler, Buffer.alloc(4_500_000));
      expect(await upgrade()).toMatchObject({
        isPassing: true,
        message: expect.stringMatching(
          /its backup beside it cannot be written, so nothing was changed: .*free/,
        ),
      });
      expect([hashOf(path), names()]).toEqual([before, ["filler", "shruti.db"]]);
      // Enough for the copy, not for the rows of the migration.
      writeFileSync(filler, Buffer.alloc(2_500_000));
      expect(await upgrade(SLOW_MIGRATIONS)).toMatchObject({
        isPassing: true,
        message: expect.stringContaining("nothing was changed"),
      });
      expect(versionOf(path)).toMatchObject({ state: "older", found: MIGRATIONS[2]?.name });
      expect(settingsOf(path)).toEqual(["filling", "mine"]);
      expect(names()).toEqual(["filler", "shruti.db"]);
    } finally {
      unmountDisk(disk);
    }
  },
);

describe("the version is read without leaving anything behind", () => {
  test("from a file alone", () => {
    makeOlder();
    expect(peekVersion(path)).toMatchObject({ state: "older", found: MIGRATIONS[2]?.name, needed: LAST });
    expect(names()).toEqual(["shruti.db"]);
  });

  test("from a log that is not in the file yet", () => {
    makeOlder();
    const server = new SqliteDatabase(path);
    server.run("INSERT INTO schema_migrations VALUES ('9999_future', 'x', 0)");
    const before = names();
    expect(before).toContain("shruti.db-wal");
    expect(peekVersion(path)).toMatchObject({ state: "newer", found: "9999_future" });
    expect(names()).toEqual(before);
    server.close(true);
    expect(() => openDatabase(path)).toThrow(
      "was written by a newer version: it has version 9999 (future), and this program needs version",
    );
  });

  test("of a folder, and of a file without a database", () => {
    writeFileSync(path, "no database");
    expect(peekVersion(path)).toBeUndefined();
    expect(peekVersion(folder)).toBeUndefined();
    rmSync(path);
    const foreign = new SqliteDatabase(path, { create: true });
    foreign.run("CREATE TABLE something (a)");
    foreign.close(true);
    expect(() => openDatabase(path)).toThrow("is not a database of this program");
  });
});

/** Begins an upgrade in a process of its own. Its next line of output says that it has ended. */
async function beginUpgrade() {
  const worker = join(import.meta.dir, "../testing/programs/upgrade-worker.ts");
  const child = Bun.spawn([process.execPath, worker, path], { stdout: "pipe" });
  const output = child.stdout.getReader();
  await output.read();
  return { child, ended: async () => void (await output.read()) };
}

function makeLarge(): void {
  rmSync(path, { force: true });
  for (const suffix of ["-wal", "-shm"]) rmSync(path + suffix, { force: true });
  makeOlder(path, 3, 3_000_000);
}

/** How long an upgrade takes here at the moment, milliseconds: other programs may need the processors, too. */
async function upgradeMs(): Promise<number> {
  makeLarge();
  const { child, ended } = await beginUpgrade();
  const beganAt = performance.now();
  await ended();
  await child.exited;
  return performance.now() - beganAt;
}

test("kill -9 at any moment leaves the old or the new version, whole; the next upgrade completes it", async () => {
  const seen = new Set<string>();
  const wholeMs = await upgradeMs();
  const rounds = 12;
  for (let round = 0; round < rounds; round++) {
    makeLarge();
    const { child, ended } = await beginUpgrade();
    // The first kill comes before the upgrade has ended, and the last one behind it, however fast this machine is.
    if (round === rounds - 1) await ended();
    else await Bun.sleep((round / (rounds - 2)) * wholeMs);
    child.kill("SIGKILL");
    await child.exited;
    const { state } = (peekVersion(path, SLOW_MIGRATIONS) ?? { state: "unreadable" }) as { state: string };
    seen.add(state);
    expect(["older", "current"]).toContain(state);
    const sqlite = new SqliteDatabase(path);
    expect(rowsOnce<object>(sqlite, "PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
    sqlite.close(true);
    await upgradeDatabase(path, { nowMs: Date.now(), migrations: SLOW_MIGRATIONS });
    expect(peekVersion(path, SLOW_MIGRATIONS)?.state).toBe("current");
    expect(settingsOf(path)).toEqual(["filling", "mine"]);
    const left = names().filter((name) => name.includes(".version-"));
    expect(left.length).toBeLessThanOrEqual(KEPT_UPGRADE_BACKUPS);
    expect(left.filter((name) => name.includes("partial"))).toEqual([]);
    // An undo either brings the old version back or refuses; it never loses the row.
    await undoUpgrade(path, NOW_MS).catch(() => {});
    expect(settingsOf(path)).toEqual(["filling", "mine"]);
  }
  expect([...seen].sort()).toEqual(["current", "older"]);
}, 60_000);
