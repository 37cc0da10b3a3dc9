import { describe, expect, test } from "bun:test";
import { systemClock } from "../lib/clock.ts";
import { nextTurn } from "../lib/in-slices.ts";
import { type Checkpoint, createMemoryCheckpoint } from "../recognition/checkpoint.ts";
import { CHUNKS_AT_ONCE, sliceStarts } from "../store/chunks.ts";
import { createGroupCommit } from "../store/group-commit.ts";
import { findWaveform } from "../store/outlines.ts";
import { moveTranscription } from "../store/transcriptions.ts";
import { begin, forever, until } from "../testing/kits/scheduler-kit.ts";
import { testAppOpener } from "../testing/kits/test-app-opener.ts";
import { createRowCheckpoint } from "./row-checkpoint.ts";

/** Tests the contract of a checkpoint, with rows and in memory. */

const open = testAppOpener();
const NEVER = new AbortController().signal;

const CHUNKS = [0, 1, 2].map((n) => ({
  channel: 0,
  startMs: n * 5_000,
  endMs: (n + 1) * 5_000,
  speechMs: 5_000,
  regions: [{ startSample: n * 80_000, endSample: (n + 1) * 80_000 }],
}));
const TEXT = {
  segments: [
    {
      ...{ startMs: 0, endMs: 5_000, text: "नमस्ते", language: "hi", confidence: 0.9 },
      words: [{ text: "नमस्ते", startMs: 10, endMs: 4_990, confidence: 0.9 }],
    },
  ],
  warnings: [],
  doubts: { unrecognized: [{ startMs: 1_000, endMs: 2_000 }], languages: [] },
};

/** An empty checkpoint, and another one that continues it. */
async function openRows() {
  const { id, store, reopen } = await openClaimed();
  return {
    checkpoint: reopen(),
    reopen: () => {
      moveTranscription(store, id, "requeue", 1);
      moveTranscription(store, id, "claim", 1);
      return reopen();
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
    expect(await checkpoint.chunks()).toEqual([]);
    const preparation = { warnings: ["low_volume" as const], totalMs: 15_000, chunks: CHUNKS };
    expect(await checkpoint.savePreparation(preparation, NEVER)).toBe(true);
    expect(await checkpoint.countFailure(0, await attemptAt(checkpoint, 0), false)).toMatchObject({
      ...{ failures: 1, crashes: 0, attempt: await attemptAt(checkpoint, 0) },
    });
    expect(await checkpoint.countFailure(0, await attemptAt(checkpoint, 0), true)).toMatchObject({
      ...{ failures: 2, crashes: 1, attempt: await attemptAt(checkpoint, 0) },
    });
    expect(await checkpoint.renewAttempt(0, await attemptAt(checkpoint, 0))).toBe(
      await attemptAt(checkpoint, 0),
    );
    expect(await checkpoint.completeChunk(0, await attemptAt(checkpoint, 0), TEXT, 5_000)).toBe(true);
    expect(await checkpoint.giveUpChunk(2, await attemptAt(checkpoint, 2), "time_limit", 10_000)).toBe(true);
    const again = reopen();
    expect(again.preparedWarnings()).toEqual(["low_volume"]);
    expect(await again.savePreparation({ warnings: ["low_volume"], totalMs: 15_000 }, NEVER)).toBe(true);
    expect(await again.chunks()).toMatchObject([
      { ...CHUNKS[0], position: 0, state: "done", failures: 2, crashes: 1, ...TEXT, gapReason: null },
      { ...CHUNKS[1], position: 1, state: "waiting", failures: 0, segments: null, gapReason: null },
      { ...CHUNKS[2], position: 2, state: "failed", segments: null, gapReason: "time_limit" },
    ]);
    expect(await again.finishChunks()).toBe(true);
  });

  test("does not change a chunk that has ended, not even for the attempt that ended it", async () => {
    const { checkpoint } = await openOne();
    expect(await checkpoint.savePreparation({ warnings: [], totalMs: 15_000, chunks: CHUNKS }, NEVER)).toBe(
      true,
    );
    const [first, second] = [await attemptAt(checkpoint, 0), await attemptAt(checkpoint, 1)];
    expect(await checkpoint.completeChunk(0, first, TEXT, 5_000)).toBe(true);
    expect(await checkpoint.giveUpChunk(1, second, "engine_error", 10_000)).toBe(true);
    await expectNoChange(checkpoint, 0, first);
    await expectNoChange(checkpoint, 1, second);
  });

  test("does not change a chunk for an attempt that was followed by another, or that never existed", async () => {
    const { checkpoint, reopen } = await openOne();
    expect(await checkpoint.savePreparation({ warnings: [], totalMs: 15_000, chunks: CHUNKS }, NEVER)).toBe(
      true,
    );
    const attempts = [
      await attemptAt(checkpoint, 0),
      await attemptAt(checkpoint, 1),
      await attemptAt(checkpoint, 2),
    ];
    expect(new Set([...attempts, ""]).size).toBe(4);
    const [failed = "", interrupted = "", running = ""] = attempts;
    await checkpoint.countFailure(0, failed, false);
    await expectNoChange(checkpoint, 0, failed);
    await checkpoint.renewAttempt(1, interrupted);
    await expectNoChange(checkpoint, 1, interrupted);
    await expectNoChange(checkpoint, 2, "");
    await expectNoChange(checkpoint, 2, interrupted);
    // A later run begins again with the chunks that were under way.
    const again = reopen();
    await again.savePreparation({ warnings: [], totalMs: 15_000 }, NEVER);
    await expectNoChange(again, 2, running);
    expect(await again.completeChunk(2, await attemptAt(again, 2), TEXT, 5_000)).toBe(true);
  });
});

/** Opens a checkpoint of a transcription whose decoding never ends. */
async function openClaimed() {
  const testApp = await open();
  const { app, engine } = testApp;
  engine.interfere({ decode: (_job, signal) => forever(signal) });
  const id = await begin(testApp);
  const { database, services } = app;
  const rowOf = () => services.transcriptions.find(id);
  await until("it is claimed", () => rowOf()?.state === "preparing");
  const commits = createGroupCommit(database);
  const reopen = () => {
    const row = rowOf();
    if (!row) throw new Error("the transcription is gone");
    return createRowCheckpoint(database, row, commits, systemClock);
  };
  const deleteAll = async () => {
    services.transcriptions.cancelById(id);
    await services.transcriptions.deleteById(id);
  };
  return { id, store: database.store, reopen, rowOf, deleteAll };
}

const OUTLINE = { peakSamples: 160, lanes: [new Uint8Array([1, 2, 3])], points: new Uint8Array([1]) };

test("a preparation that ends after its transcription was deleted leaves nothing of the recording", async () => {
  const { id, store, reopen, deleteAll } = await openClaimed();
  const checkpoint = reopen();
  await deleteAll();
  const preparation = { warnings: [], totalMs: 15_000, chunks: CHUNKS, outline: OUTLINE };
  expect(await checkpoint.savePreparation(preparation, NEVER)).toBe(false);
  expect(await checkpoint.chunks()).toEqual([]);
  expect(findWaveform(store, id)).toBeUndefined();
});

describe("more chunks than are written at once", () => {
  const SLICES = 3;
  /** Chunks of five seconds each, with a number that says which preparation found them. */
  const many = (count: number, speechMs: number) =>
    Array.from({ length: count }, (_, n) => ({
      ...{ channel: 0, startMs: n * 5_000, endMs: (n + 1) * 5_000, speechMs },
      regions: [{ startSample: n * 80_000, endSample: n * 80_000 + 16 * speechMs }],
    }));
  const preparationOf = (chunks: ReturnType<typeof many>) => ({
    ...{ warnings: [], totalMs: chunks.length * 5_000, chunks, outline: OUTLINE },
  });
  const COUNT = SLICES * CHUNKS_AT_ONCE - 1;

  test("are stored, read and given new attempts while other work runs", async () => {
    const { id, store, reopen } = await openClaimed();
    const chunks = many(COUNT, 4_000);
    const turnsDuring = async (work: Promise<unknown>) => {
      let turns = 0;
      const count = () => {
        turns++;
        timer = setImmediate(count);
      };
      let timer = setImmediate(count);
      await work;
      clearImmediate(timer);
      return turns;
    };
    const checkpoint = reopen();
    expect(await turnsDuring(checkpoint.savePreparation(preparationOf(chunks), NEVER))).toBeGreaterThan(0);
    const stored = await checkpoint.chunks();
    expect(await turnsDuring(checkpoint.chunks())).toBeGreaterThan(0);
    expect(stored).toMatchObject(chunks.map((chunk, position) => ({ ...chunk, position, state: "waiting" })));
    expect(findWaveform(store, id)?.speech).toEqual([
      chunks.map(({ startMs }) => [startMs, startMs + 4_000] as [number, number]),
    ]);
    moveTranscription(store, id, "requeue", 1);
    moveTranscription(store, id, "claim", 1);
    const again = reopen();
    expect(await turnsDuring(again.savePreparation({ warnings: [], totalMs: 1 }, NEVER))).toBeGreaterThan(0);
    const attempts = [...stored, ...(await again.chunks())].map(({ attempt }) => attempt);
    expect(new Set(attempts).size).toBe(2 * COUNT);
  });

  test.each([1, 2, 3, 4])(
    "are replaced after a stop behind %i slices: what it left means nothing",
    async (written) => {
      const { store, id, reopen, rowOf } = await openClaimed();
      const checkpoint = reopen();
      const stop = new AbortController();
      const first = preparationOf(many(5 * CHUNKS_AT_ONCE, 4_000));
      const saved = checkpoint.savePreparation({ ...first, outline: undefined }, stop.signal);
      while (sliceStarts(store, id).length < written) await nextTurn();
      stop.abort(new Error("the program is stopping"));
      // Bun's matcher for rejections runs a loop of its own, in which no immediate runs.
      expect(await saved.catch((error: Error) => error.message)).toBe("the program is stopping");
      expect(rowOf()).toMatchObject({ state: "preparing", audioWarnings: null });
      expect((await checkpoint.chunks()).length).toBe(written * CHUNKS_AT_ONCE);
      moveTranscription(store, id, "requeue", 1);
      moveTranscription(store, id, "claim", 1);
      const again = reopen();
      expect(again.preparedWarnings()).toBeUndefined();
      const chunks = many(COUNT, 3_000);
      expect(await again.savePreparation(preparationOf(chunks), NEVER)).toBe(true);
      expect(await again.chunks()).toMatchObject(chunks);
      expect((await again.chunks()).length).toBe(COUNT);
    },
  );

  test("leave nothing when the transcription is deleted between two slices", async () => {
    const { id, store, reopen, deleteAll } = await openClaimed();
    const checkpoint = reopen();
    const preparation = { ...preparationOf(many(COUNT, 4_000)), outline: undefined };
    const saved = checkpoint.savePreparation(preparation, NEVER);
    expect((await checkpoint.chunks()).length).toBe(CHUNKS_AT_ONCE);
    await deleteAll();
    expect(await saved).toBe(false);
    expect(await checkpoint.chunks()).toEqual([]);
    expect(findWaveform(store, id)).toBeUndefined();
  });
});

async function attemptAt(checkpoint: Checkpoint, position: number): Promise<string> {
  return (await checkpoint.chunks())[position]?.attempt ?? "";
}

async function expectNoChange(checkpoint: Checkpoint, position: number, attempt: string): Promise<void> {
  const before = await checkpoint.chunks();
  const doubts = { unrecognized: [], languages: [] };
  const other = { segments: [], warnings: ["script_mismatch" as const], doubts };
  expect(await checkpoint.completeChunk(position, attempt, other, 15_000)).toBe(false);
  expect(await checkpoint.giveUpChunk(position, attempt, "engine_error", 15_000)).toBe(false);
  expect(await checkpoint.countFailure(position, attempt, true)).toBeUndefined();
  expect(await checkpoint.renewAttempt(position, attempt)).toBeUndefined();
  expect(await checkpoint.chunks()).toEqual(before);
}
