import { afterEach, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmdirSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Ages } from "../domain/clock-trust.ts";
import { AppError } from "../domain/errors.ts";
import type { TranscriptionState } from "../domain/transcription.ts";
import { openLog, silentLog } from "../lib/log.ts";
import { toTimestamp } from "../lib/time.ts";
import { createSweeper } from "../scheduler/sweep.ts";
import { recordAct } from "../store/audit-log.ts";
import { countChunks, insertChunks, listEndedWithChunks } from "../store/chunks.ts";
import { databasePath, openDatabase, transaction } from "../store/database.ts";
import { idempotencyKeys } from "../store/schema.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { insertTranscription as insertRow, retentionParts } from "../testing/kits/retention-kit.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { CALLER, openUploadBench, type UploadBench } from "../testing/kits/upload-bench.ts";
import { AUDIT_HEADS_FILE } from "./audit-heads.ts";
import { createRetentionService } from "./retention.ts";

const DAY_MS = 86_400_000;
const open: UploadBench[] = [];
afterEach(async () => {
  for (const bench of open.splice(0)) await bench.close();
});

function prepare(retention: { audio_days?: number; transcript_days?: number; rejected_days?: number } = {}) {
  const clock = manualClock();
  const config = testConfig({ storage: { reserve_bytes: 0 }, retention });
  const bench = openUploadBench({ clock, config });
  open.push(bench);
  const { database, uploads, trust } = bench;
  const calls = { conflicts: new Set<string>(), deliveries: 0, forgotten: [] as Ages[] };
  const parts = retentionParts(bench, clock);
  const deps = {
    database,
    clock,
    config,
    log: silentLog,
    trust,
    uploads,
    ...parts,
    transcriptions: {
      async deleteById(id: string) {
        if (calls.conflicts.has(id)) throw new AppError("conflict");
        return parts.transcriptions.deleteById(id);
      },
    },
    forgetFiles: (endedBefore: Ages) => {
      calls.forgotten.push(endedBefore);
      return Promise.resolve(1);
    },
    webhooks: {
      removeOld: () => {
        calls.deliveries += 1;
        return Promise.resolve(0);
      },
    },
  };
  return { bench, clock, calls, deps, retention: createRetentionService(deps) };
}

async function completeUpload({ uploads, dataDir }: UploadBench): Promise<string> {
  const path = join(dataDir, "incoming");
  await uploads.sweepOrphans();
  writeFileSync(path, "sound");
  const verified = { durationMs: 1000, channels: 1, sampleRateHz: 8000, truncated: false, reading: {} };
  return (await uploads.adoptFile(CALLER, { path, bytes: 5, sha256: "0".repeat(64), verified })).id;
}

function insertTranscription(
  bench: UploadBench,
  uploadId: string,
  state: TranscriptionState,
  finishedAt: number | null,
): string {
  return insertRow(bench, { uploadId, state, createdAt: 0, finishedAt });
}

describe("retention", () => {
  test("audio is deleted after its days and the record says so, but never while work needs it", async () => {
    const { bench, clock, retention } = prepare({ audio_days: 30 });
    const free = await completeUpload(bench);
    const needed = await completeUpload(bench);
    const work = insertTranscription(bench, needed, "transcribing", null);
    clock.advance(30 * DAY_MS);
    expect((await retention.run()).audioRemoved).toBe(0);
    clock.advance(1);
    expect((await retention.run()).audioRemoved).toBe(1);
    expect(existsSync(bench.uploads.audioPath(free))).toBe(false);
    expect(bench.uploads.get(CALLER, free)).toMatchObject({ state: "complete", deletedAt: clock.now() });
    expect(existsSync(bench.uploads.audioPath(needed))).toBe(true);
    bench.database.sqlite.run("UPDATE transcriptions SET state = 'completed' WHERE id = ?", [work]);
    expect((await retention.run()).audioRemoved).toBe(1);
    expect(existsSync(bench.uploads.audioPath(needed))).toBe(false);
  });

  test("records of rejected uploads and removed endpoints are removed after their days, unless something refers to them", async () => {
    const { bench, clock, retention } = prepare({ audio_days: 0, rejected_days: 7 });
    const { sqlite } = bench.database;
    const endpoint = (id: string, removedAt: number | null) =>
      sqlite.run(
        `INSERT INTO webhook_endpoints (id, project_id, organization_id, url, secret, created_at, removed_at)
         VALUES (?, ?, ?, 'https://a', '', 0, ?)`,
        [id, CALLER.projectId, CALLER.organizationId, removedAt],
      );
    const event = (endpointId: string) =>
      sqlite.run(
        "INSERT INTO events (id, endpoint_id, type, body, created_at) VALUES (?, ?, 'credit.low', '{}', 0)",
        [`evt of ${endpointId}`, endpointId],
      );
    endpoint("kept", null);
    endpoint("removed", clock.now());
    endpoint("with event", clock.now());
    event("with event");
    const whole = await completeUpload(bench);
    const rejected = (await bench.uploads.create(CALLER, { bytes: 1 })).upload.id;
    const referred = (await bench.uploads.create(CALLER, { bytes: 1 })).upload.id;
    sqlite.run(
      "UPDATE uploads SET state = 'rejected', finished_at = ?, deleted_at = ? WHERE state = 'allocated'",
      [clock.now(), clock.now()],
    );
    insertTranscription(bench, referred, "completed", 0);
    const left = (table: string) =>
      sqlite
        .query<{ id: string }, []>(`SELECT id FROM ${table} ORDER BY rowid`)
        .all()
        .map(({ id }) => id);
    clock.advance(7 * DAY_MS);
    expect((await retention.run()).recordsRemoved).toBe(0);
    clock.advance(1);
    expect((await retention.run()).recordsRemoved).toBe(2);
    expect(left("webhook_endpoints")).toEqual(["kept", "with event"]);
    expect(left("uploads")).toEqual([whole, referred]);
    expect(left("uploads")).not.toContain(rejected);
    sqlite.run("DELETE FROM events");
    expect((await retention.run()).recordsRemoved).toBe(1);
    expect(left("webhook_endpoints")).toEqual(["kept"]);
  });

  test("chunks of what has ended are removed, slice by slice, and those of unfinished work stay", async () => {
    const { bench, retention } = prepare();
    const { store } = bench.database;
    const upload = await completeUpload(bench);
    const chunk = { channel: 0, startMs: 0, endMs: 1, speechMs: 1, regions: [] };
    const left = (state: TranscriptionState, count: number) => {
      const id = insertTranscription(bench, upload, state, null);
      for (let from = 0; from < count; from += 500)
        insertChunks(store, id, Array<typeof chunk>(500).fill(chunk), from);
      return id;
    };
    const ids = [left("transcribing", 2_500), left("completed", 2_500), left("queued", 500)];
    ids.push(left("cancelled", 1_000), left("finalizing", 500), left("failed", 0));
    expect(listEndedWithChunks(store)).toEqual([ids[1], ids[3]] as string[]);
    await retention.run();
    expect(ids.map((id) => countChunks(store, id).chunks)).toEqual([2_500, 0, 500, 0, 500, 0]);
    expect(listEndedWithChunks(store)).toEqual([]);
  });

  test("a step that fails does not keep the others from their work, and is tried again", async () => {
    const { bench, clock, calls, deps } = prepare({ transcript_days: 30 });
    const lines: string[] = [];
    let purges = 0;
    const retention = createRetentionService({
      ...deps,
      log: openLog("info", "json", (line) => lines.push(line)),
      purge: {
        resume() {
          purges += 1;
          return Promise.reject(new Error("EIO: a file cannot be removed"));
        },
      },
    });
    insertTranscription(bench, await completeUpload(bench), "completed", clock.now());
    clock.advance(31 * DAY_MS);
    expect(await retention.run()).toMatchObject({ transcriptsRemoved: 1, organizationsPurged: 0 });
    expect(calls.deliveries).toBe(1);
    expect(lines.join("")).toContain("retention: the purge of an organization failed");
    await retention.run();
    expect([purges, calls.deliveries]).toEqual([2, 2]);
  });

  test("0 days keep everything", async () => {
    const { bench, clock, retention } = prepare({ audio_days: 0, transcript_days: 0 });
    const id = await completeUpload(bench);
    insertTranscription(bench, id, "completed", clock.now());
    clock.advance(10_000 * DAY_MS);
    expect(await retention.run()).toMatchObject({ audioRemoved: 0, transcriptsRemoved: 0 });
    expect(existsSync(bench.uploads.audioPath(id))).toBe(true);
  });

  test("transcripts are deleted after their days, and one whose audio is in use waits", async () => {
    const { bench, clock, calls, retention } = prepare({ transcript_days: 7, audio_days: 0 });
    const upload = await completeUpload(bench);
    insertTranscription(bench, upload, "completed", clock.now());
    const waiting = insertTranscription(bench, upload, "partial", clock.now());
    insertTranscription(bench, upload, "queued", null);
    calls.conflicts.add(waiting);
    clock.advance(7 * DAY_MS + 1);
    expect((await retention.run()).transcriptsRemoved).toBe(1);
    calls.conflicts.clear();
    expect((await retention.run()).transcriptsRemoved).toBe(1);
    expect((await retention.run()).transcriptsRemoved).toBe(0);
  });

  test("many transcripts whose audio is in use do not delay a younger one", async () => {
    const { bench, clock, calls, retention } = prepare({ transcript_days: 7, audio_days: 0 });
    const upload = await completeUpload(bench);
    transaction(bench.database.store, () => {
      for (let index = 0; index < 450; index += 1) {
        calls.conflicts.add(insertTranscription(bench, upload, "completed", clock.now()));
      }
    });
    insertTranscription(bench, upload, "completed", clock.now() + 1);
    clock.advance(7 * DAY_MS + 2);
    expect((await retention.run()).transcriptsRemoved).toBe(1);
    calls.conflicts.clear();
    expect((await retention.run()).transcriptsRemoved).toBe(450);
  });

  test("unfinished uploads, idempotency keys and old deliveries are deleted as well", async () => {
    const { bench, clock, calls, retention } = prepare();
    await bench.uploads.create(CALLER, { bytes: 1 });
    const key = {
      submission: "asynchronous",
      requestHash: "h",
      createdAt: 0,
      projectId: CALLER.projectId,
    } as const;
    for (let index = 0; index < 450; index += 1) {
      bench.database.store
        .insert(idempotencyKeys)
        .values({
          ...key,
          key: `k${index}`,
          transcriptionId: `tr_${index}`,
          expiresAt: clock.now() + 5 + (index > 400 ? DAY_MS * 9 : 0),
        })
        .run();
    }
    clock.advance(DAY_MS);
    expect(await retention.run()).toMatchObject({ uploadsExpired: 1, idempotencyKeysRemoved: 401 });
    expect(calls.deliveries).toBe(1);
  });
});

test("the sweeper reconciles once, continues with rounds, survives a failure and stops", async () => {
  const { bench, calls, deps } = prepare();
  const stray = join(bench.dataDir, "uploads", "stray");
  await completeUpload(bench);
  writeFileSync(stray, "x");
  let sweeps = 0;
  const uploads = {
    ...bench.uploads,
    sweepOrphans: () => {
      sweeps += 1;
      return Promise.reject(new Error("the disk is away"));
    },
  };
  const sweeper = createSweeper({ ...deps, uploads, dataDir: bench.dataDir }, 1);
  sweeper.start();
  while (calls.deliveries < 3) await Bun.sleep(1);
  await sweeper.stop();
  const { deliveries } = calls;
  await Bun.sleep(10);
  expect(calls.deliveries).toBe(deliveries);
  expect(sweeps).toBe(1);
});

test("the sweeper forgets files of watched folders after the start, and then once a day", async () => {
  const { bench, calls, deps, clock } = prepare();
  const sweeper = createSweeper({ ...deps, uploads: bench.uploads, dataDir: bench.dataDir }, 1);
  sweeper.start();
  while (calls.deliveries < 3) await Bun.sleep(1);
  await sweeper.stop();
  expect(calls.forgotten.map(({ nowMs }) => nowMs)).toEqual([clock.now() - 90 * DAY_MS]);
});

test("the sweeper signs the audit log soon where it could not at the start", async () => {
  const { bench, deps } = prepare();
  const { database, dataDir, uploads } = bench;
  recordAct(database.store, { action: "clock.confirm" }, Date.now());
  const heads = join(dataDir, AUDIT_HEADS_FILE);
  // No file can be read or written there.
  mkdirSync(heads);
  const sweeper = createSweeper({ ...deps, uploads, dataDir }, 1);
  sweeper.start();
  rmdirSync(heads);
  while (!existsSync(heads)) await Bun.sleep(1);
  await sweeper.stop();
});

test("the sweeper looks for files without a record again and again", async () => {
  const { bench, deps } = prepare();
  let looks = 0;
  const removeOrphans = () => {
    looks += 1;
    return looks === 1 ? Promise.reject(new Error("the disk is away")) : Promise.resolve(1);
  };
  const sweeper = createSweeper(
    { ...deps, uploads: { ...bench.uploads, removeOrphans }, dataDir: bench.dataDir },
    1,
    1,
  );
  sweeper.start();
  while (looks < 3) await Bun.sleep(1);
  await sweeper.stop();
});

test("a recording whose deletion was killed before its file was removed does not stay", async () => {
  const { bench } = prepare();
  const [gone, young, kept] = [
    await completeUpload(bench),
    await completeUpload(bench),
    await completeUpload(bench),
  ];
  bench.database.sqlite.run("UPDATE uploads SET deleted_at = 1 WHERE id <> ?", [kept]);
  const old = Date.now() / 1000 - 2 * (DAY_MS / 1000);
  for (const id of [gone, kept]) utimesSync(bench.uploads.audioPath(id), old, old);
  expect(await bench.uploads.removeOrphans()).toBe(1);
  expect([gone, young, kept].map((id) => existsSync(bench.uploads.audioPath(id)))).toEqual([
    false,
    true,
    true,
  ]);
});

test("recordings that only a replaced database knows stay as long as that database does", async () => {
  const { bench, retention, clock, deps } = prepare();
  const [unknown, deleted] = [await completeUpload(bench), await completeUpload(bench)];
  const { database, dataDir, uploads } = bench;
  database.sqlite.run("DELETE FROM uploads WHERE id = ?", [unknown]);
  database.sqlite.run("UPDATE uploads SET deleted_at = 1 WHERE id = ?", [deleted]);
  const copy = `${database.path}.before-${toTimestamp(clock.now()).replaceAll(/[:.]/g, "-")}`;
  writeFileSync(copy, "x");
  const old = Date.now() / 1000 - 2 * (DAY_MS / 1000);
  for (const id of [unknown, deleted]) utimesSync(uploads.audioPath(id), old, old);
  writeFileSync(join(dataDir, "uploads", "no recording"), "x");
  utimesSync(join(dataDir, "uploads", "no recording"), old, old);
  await uploads.sweepOrphans();
  expect(readdirSync(join(dataDir, "uploads"))).toEqual([unknown]);
  clock.advance((deps.config.retention.restore_copies_days + 1) * DAY_MS);
  expect(await retention.run()).toMatchObject({ restoreCopiesRemoved: 1 });
  expect(await uploads.removeOrphans()).toBe(1);
  expect(readdirSync(join(dataDir, "uploads"))).toEqual([]);
});

describe("a project with periods of its own", () => {
  const change = ({ database }: UploadBench, audioDays: number | null) =>
    void database.sqlite.run("UPDATE projects SET audio_days = ?", [audioDays]);
  const CASES: [name: string, config: number, own: number | null, days: number, removed: number][] = [
    ["a shorter one", 30, 7, 8, 1],
    ["a longer one", 30, 60, 31, 0],
    ["a longer one that is over", 30, 60, 61, 1],
    ["no limit", 30, 0, 400, 0],
    ["its own, where the config has none", 0, 7, 8, 1],
    ["that of the config", 30, null, 31, 1],
  ];
  test.each(CASES)("%s", async (_name, audio_days, own, days, removed) => {
    const { bench, clock, retention } = prepare({ audio_days });
    const id = await completeUpload(bench);
    change(bench, own);
    clock.advance(days * DAY_MS);
    expect((await retention.run()).audioRemoved).toBe(removed);
    expect(existsSync(bench.uploads.audioPath(id))).toBe(removed === 0);
  });
});

test("databases that a restore has replaced are removed when their time is over", async () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-copies-"));
  const database = openDatabase(databasePath(folder));
  try {
    const { deps, clock } = prepare();
    const name = (daysAgo: number) =>
      `shruti.db.before-${toTimestamp(clock.now() - daysAgo * DAY_MS).replaceAll(/[:.]/g, "-")}`;
    const others = ["shruti.db.before", "shruti.db.version-0006", "before.db"];
    const upgrade = "shruti.db.version-0006.2020-01-01T00-00-00-000Z";
    const dead = Bun.spawnSync(["true"]).pid;
    const unfinished = ".0123456789ab.unfinished";
    const abandoned = [
      ...[`shruti.db.${dead}.restoring`, `shruti.db.${dead}.restoring.checked-journal`, unfinished],
      // In a container, each program may have the number of the one that was killed.
      `shruti.db.${process.pid}.restoring`,
    ];
    for (const each of [name(29), name(31), name(400), upgrade, ...abandoned, ...others])
      writeFileSync(join(folder, each), "x");
    utimesSync(join(folder, unfinished), 0, 0);
    const retention = createRetentionService({ ...deps, database });
    expect(await retention.run()).toMatchObject({ restoreCopiesRemoved: 2, upgradeCopiesRemoved: 1 });
    const left = readdirSync(folder).filter((each) => /before|version|restoring|unfinished/.test(each));
    expect(left.sort()).toEqual([name(29), ...others].sort());
    expect((await retention.run()).restoreCopiesRemoved).toBe(0);
  } finally {
    database.close();
    rmSync(folder, { recursive: true });
  }
});
