import { describe, expect, test } from "bun:test";
import { systemClock } from "../lib/clock.ts";
import { type Checkpoint, createMemoryCheckpoint } from "../recognition/checkpoint.ts";
import { createGroupCommit } from "../store/group-commit.ts";
import { findWaveform } from "../store/outlines.ts";
import { findTranscription, moveTranscription } from "../store/transcriptions.ts";
import { begin, forever, until } from "../testing/scheduler-kit.ts";
import { testAppOpener } from "../testing/test-app-opener.ts";
import { createRowCheckpoint } from "./row-checkpoint.ts";

/** Tests the contract of a checkpoint, with rows and in memory. */

const open = testAppOpener();

const CHUNKS = [0, 1, 2].map((n) => ({
  channel: 0,
  startMs: n * 5_000,
  endMs: (n + 1) * 5_000,
  speechMs: 5_000,
  regions: [{ startSample: n * 80_000, endSample: (n + 1) * 80_000 }],
}));
const TEXT = {
  segments: [{ startMs: 0, endMs: 5_000, text: "नमस्ते", language: "hi", confidence: 0.9 }],
  warnings: [],
};

/** An empty checkpoint, and another one that continues it. */
async function openRows() {
  const { app, engine, clock, ...testApp } = await open();
  engine.interfere({ decode: (_job, signal) => forever(signal) });
  const id = await begin({ app, engine, clock, ...testApp });
  const { database } = app;
  const row = () => {
    const found = findTranscription(database.store, id);
    if (!found) throw new Error("the transcription is gone");
    return found;
  };
  const commits = createGroupCommit(database.store);
  await until("it is claimed", () => row().state === "preparing");
  return {
    checkpoint: createRowCheckpoint(database, row(), commits, systemClock),
    reopen: () => {
      moveTranscription(database.store, id, "requeue", 1);
      moveTranscription(database.store, id, "claim", 1);
      return createRowCheckpoint(database, row(), commits, systemClock);
    },
  };
}

async function openMemory(): Promise<{ checkpoint: Checkpoint; reopen: () => Checkpoint }> {
  const checkpoint = createMemoryCheckpoint();
  return { checkpoint, reopen: () => checkpoint };
}

describe.each([
  { name: "of rows", openOne: openRows },
  { name: "in memory", openOne: openMemory },
])("a checkpoint $name", ({ openOne }) => {
  test("keeps the preparation, and the outcomes of chunks", async () => {
    const { checkpoint, reopen } = await openOne();
    expect(checkpoint.preparedWarnings()).toBeUndefined();
    expect(checkpoint.chunks()).toEqual([]);
    const preparation = { warnings: ["low_volume" as const], totalMs: 15_000, chunks: CHUNKS };
    expect(checkpoint.savePreparation(preparation)).toBe(true);
    expect(checkpoint.countFailure(0, attemptAt(checkpoint, 0), false)).toMatchObject({
      ...{ failures: 1, crashes: 0, attempt: attemptAt(checkpoint, 0) },
    });
    expect(checkpoint.countFailure(0, attemptAt(checkpoint, 0), true)).toMatchObject({
      ...{ failures: 2, crashes: 1, attempt: attemptAt(checkpoint, 0) },
    });
    expect(checkpoint.renewAttempt(0, attemptAt(checkpoint, 0))).toBe(attemptAt(checkpoint, 0));
    expect(await checkpoint.completeChunk(0, attemptAt(checkpoint, 0), TEXT, 5_000)).toBe(true);
    expect(await checkpoint.giveUpChunk(2, attemptAt(checkpoint, 2), "time_limit", 10_000)).toBe(true);
    const again = reopen();
    expect(again.preparedWarnings()).toEqual(["low_volume"]);
    expect(again.savePreparation({ warnings: ["low_volume"], totalMs: 15_000 })).toBe(true);
    expect(again.chunks()).toMatchObject([
      { ...CHUNKS[0], position: 0, state: "done", failures: 2, crashes: 1, ...TEXT, gapReason: null },
      { ...CHUNKS[1], position: 1, state: "waiting", failures: 0, segments: null, gapReason: null },
      { ...CHUNKS[2], position: 2, state: "failed", segments: null, gapReason: "time_limit" },
    ]);
    expect(again.finishChunks()).toBe(true);
  });

  test("does not change a chunk that has ended, not even for the attempt that ended it", async () => {
    const { checkpoint } = await openOne();
    expect(checkpoint.savePreparation({ warnings: [], totalMs: 15_000, chunks: CHUNKS })).toBe(true);
    const [first, second] = [attemptAt(checkpoint, 0), attemptAt(checkpoint, 1)];
    expect(await checkpoint.completeChunk(0, first, TEXT, 5_000)).toBe(true);
    expect(await checkpoint.giveUpChunk(1, second, "engine_error", 10_000)).toBe(true);
    await expectNoChange(checkpoint, 0, first);
    await expectNoChange(checkpoint, 1, second);
  });

  test("does not change a chunk for an attempt that was followed by another, or that never existed", async () => {
    const { checkpoint, reopen } = await openOne();
    expect(checkpoint.savePreparation({ warnings: [], totalMs: 15_000, chunks: CHUNKS })).toBe(true);
    const attempts = [attemptAt(checkpoint, 0), attemptAt(checkpoint, 1), attemptAt(checkpoint, 2)];
    expect(new Set([...attempts, ""]).size).toBe(4);
    const [failed = "", interrupted = "", running = ""] = attempts;
    checkpoint.countFailure(0, failed, false);
    await expectNoChange(checkpoint, 0, failed);
    checkpoint.renewAttempt(1, interrupted);
    await expectNoChange(checkpoint, 1, interrupted);
    await expectNoChange(checkpoint, 2, "");
    await expectNoChange(checkpoint, 2, interrupted);
    // A later run begins again with the chunks that were under way.
    const again = reopen();
    again.savePreparation({ warnings: [], totalMs: 15_000 });
    await expectNoChange(again, 2, running);
    expect(await again.completeChunk(2, attemptAt(again, 2), TEXT, 5_000)).toBe(true);
  });
});

test("a preparation that ends after its transcription was deleted leaves nothing of the recording", async () => {
  const testApp = await open();
  const { app, engine } = testApp;
  engine.interfere({ decode: (_job, signal) => forever(signal) });
  const id = await begin(testApp);
  const { database, services } = app;
  const rowOf = () => services.transcriptions.find(id);
  await until("it is claimed", () => rowOf()?.state === "preparing");
  const row = rowOf();
  if (!row) throw new Error("the transcription is gone");
  const checkpoint = createRowCheckpoint(database, row, createGroupCommit(database.store), systemClock);
  services.transcriptions.cancelById(id);
  await services.transcriptions.deleteById(id);
  const lanes = [new Uint8Array([1, 2, 3])];
  const outline = { peakSamples: 160, lanes, points: new Uint8Array([1]) };
  const preparation = { warnings: [], totalMs: 15_000, chunks: CHUNKS, outline };
  expect(checkpoint.savePreparation(preparation)).toBe(false);
  expect(checkpoint.chunks()).toEqual([]);
  expect(findWaveform(database.store, id)).toBeUndefined();
});

function attemptAt(checkpoint: Checkpoint, position: number): string {
  return checkpoint.chunks()[position]?.attempt ?? "";
}

async function expectNoChange(checkpoint: Checkpoint, position: number, attempt: string): Promise<void> {
  const before = checkpoint.chunks();
  const other = { segments: [], warnings: ["script_mismatch" as const] };
  expect(await checkpoint.completeChunk(position, attempt, other, 15_000)).toBe(false);
  expect(await checkpoint.giveUpChunk(position, attempt, "engine_error", 15_000)).toBe(false);
  expect(checkpoint.countFailure(position, attempt, true)).toBeUndefined();
  expect(checkpoint.renewAttempt(position, attempt)).toBeUndefined();
  expect(checkpoint.chunks()).toEqual(before);
}
