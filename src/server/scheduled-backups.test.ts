import { describe, expect, test } from "bun:test";
import { openLog, silentLog } from "../lib/log.ts";
import { readBackupState } from "../services/backups/backup-state.ts";
import { openDatabase } from "../store/database.ts";
import { putSetting, SETTING_NAMES } from "../store/settings.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { checkBackupSettings, createScheduledBackups, type MakeBackup } from "./scheduled-backups.ts";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
/** 02:30 in India is 21:00 UTC. */
const NIGHT = Date.parse("2026-11-21T21:00:00Z");
const config = testConfig({ backup: { schedule: "30 2 * * *", to: "/backups" } });

function bench(nowMs: number, make: (fail: (message: string) => never) => void, lastMs?: number) {
  const clock = manualClock(nowMs);
  const database = openDatabase(":memory:");
  const note = (at_ms: number) =>
    putSetting(
      database.store,
      SETTING_NAMES.lastBackup,
      { at_ms, path: "/backups/x", files: 1, bytes: 1 },
      at_ms,
    );
  if (lastMs !== undefined) note(lastMs);
  const times: number[] = [];
  const work: MakeBackup = async () => {
    times.push(clock.now());
    make((message) => {
      throw new Error(message);
    });
    note(clock.now());
  };
  const backups = createScheduledBackups({ config, clock, log: silentLog, database, make: work }, 1);
  const after = async (ms: number) => {
    clock.advance(ms);
    await Bun.sleep(30);
  };
  return { backups, times, after, database };
}

describe("scheduled backups", () => {
  test("are made at their times", async () => {
    const { backups, times, after } = bench(NIGHT - HOUR_MS, () => {});
    backups.start();
    await after(0);
    expect(times).toEqual([]);
    await after(HOUR_MS + MINUTE_MS);
    expect(times).toEqual([NIGHT + MINUTE_MS]);
    await after(HOUR_MS);
    expect(times).toHaveLength(1);
    expect(backups.status()).toEqual({
      isScheduled: true,
      ageSeconds: 3600,
      failures: 0,
      hasFailed: false,
      lacking: 0,
      faulty: 0,
    });
    await after(24 * HOUR_MS);
    expect(times).toHaveLength(2);
    await backups.stop();
  });

  test("that were missed are made at the start", async () => {
    const { backups, times } = bench(NIGHT + 5 * HOUR_MS, () => {}, NIGHT - 19 * HOUR_MS);
    backups.start();
    await Bun.sleep(30);
    expect(times).toEqual([NIGHT + 5 * HOUR_MS]);
    await backups.stop();
  });

  test("are made although the last one was made while the clock was years ahead", async () => {
    const { backups, times, after } = bench(NIGHT - HOUR_MS, () => {}, NIGHT + 10_000 * 24 * HOUR_MS);
    backups.start();
    await after(0);
    expect(times).toEqual([]);
    await after(HOUR_MS + MINUTE_MS);
    expect(times).toEqual([NIGHT + MINUTE_MS]);
    await backups.stop();
  });

  test("that fail are counted, and tried again at the next time", async () => {
    const { backups, times, after } = bench(
      NIGHT - MINUTE_MS,
      (fail) => fail("the disk is full"),
      NIGHT - 24 * HOUR_MS,
    );
    backups.start();
    await after(MINUTE_MS);
    await after(HOUR_MS);
    expect(times).toHaveLength(1);
    expect(backups.status()).toMatchObject({ failures: 1, ageSeconds: 25 * 3600 });
    await after(23 * HOUR_MS);
    expect(backups.status().failures).toBe(2);
    await backups.stop();
  });

  test("that fail are remembered over a start, until one is made", async () => {
    let isBroken = true;
    const { backups, database, after } = bench(NIGHT - MINUTE_MS, (fail) => {
      if (isBroken) fail("/backups does not hold the store");
    });
    backups.start();
    expect(backups.status().hasFailed).toBe(false);
    await after(2 * MINUTE_MS);
    const afterStart = createScheduledBackups({
      ...{ config, log: silentLog, database, make: async () => {} },
      clock: manualClock(NIGHT + HOUR_MS),
    });
    expect(afterStart.status()).toMatchObject({ failures: 0, hasFailed: true });
    const state = readBackupState(database, config);
    expect(state).toMatchObject({
      failedAt: "2026-11-21T21:01:00.000Z",
      problem:
        "the last scheduled backup failed at 2026-11-21T21:01:00.000Z: /backups does not hold the store",
    });
    const elsewhere = testConfig({ backup: { schedule: "30 2 * * *", to: "/other" } });
    expect(readBackupState(database, elsewhere).problem).toBeUndefined();
    isBroken = false;
    await after(24 * HOUR_MS);
    expect(backups.status()).toMatchObject({ failures: 1, hasFailed: false });
    expect(readBackupState(database, config).problem).toBeUndefined();
    await backups.stop();
  });
});

const none = { count: 0, first: [] };
const one = { count: 1, first: ["up_1"] };
test.each([
  [{ lacking: none, faulty: none }, "info", "a backup was made"],
  [{ lacking: none, faulty: one }, "error", "a backup was made, with earlier copies of faulty files"],
  [{ lacking: one, faulty: one }, "error", "a backup was made, and it is incomplete"],
])("a backup with %j is logged as it is", async (found, level, message) => {
  const lines: string[] = [];
  const log = openLog("info", "json", (line) => void lines.push(line));
  const database = openDatabase(":memory:");
  const clock = manualClock(NIGHT + HOUR_MS);
  const made = Promise.withResolvers<void>();
  putSetting(database.store, SETTING_NAMES.lastBackup, { at_ms: 0, path: "", files: 1, bytes: 1 }, 0);
  const backups = createScheduledBackups({
    ...{ config, clock, log, database },
    async make() {
      const last = { at_ms: clock.now(), path: "/backups/x", files: 1, bytes: 1, ...found };
      putSetting(database.store, SETTING_NAMES.lastBackup, last, clock.now());
      made.resolve();
    },
  });
  backups.start();
  await made.promise;
  await backups.stop();
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ level, msg: message }]);
  expect(backups.status()).toMatchObject({ lacking: found.lacking.count, faulty: found.faulty.count });
});

test.each([
  [{ schedule: "30 2 * * *" }, "backup.schedule needs backup.to"],
  [{ schedule: "at night", to: "/b" }, "backup.schedule: "],
  [{ schedule: "0 0 31 2 *", to: "/b" }, "never comes"],
  [{ to: "./shruti-data/backups" }, "is in the data directory"],
])("settings %p are refused", (backup, message) => {
  expect(() => checkBackupSettings(testConfig({ backup }))).toThrow(message);
});
