import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { existsSync, rmSync } from "node:fs";
import { EngineError, type EngineErrorKind } from "../engine/protocol.ts";
import { openRecognitionKit } from "../testing/kits/recognition-kit.ts";
import {
  CHUNK_MS,
  FOUR_CHUNKS,
  FOUR_STARTS,
  forever,
  speechOfThree,
  until,
  watchChunks,
} from "../testing/kits/scheduler-kit.ts";
import { createMemoryCheckpoint } from "./checkpoint.ts";

const kit = openRecognitionKit();
afterEach(() => {
  kit.engine.interfere({});
  expect(kit.slots.status()).toMatchObject({ running: 0, waiting: 0 });
});
afterAll(kit.close);

/** Fails the first attempts at the chunk that begins at `startMs`. */
function failing(kind: EngineErrorKind, startMs: number, times: number) {
  let left = times;
  return watchChunks(kit.engine, async (chunk) => {
    if (chunk.startMs === startMs && left-- > 0) throw new EngineError(kind, "as scripted");
    return undefined;
  });
}

describe("a recording without a server", () => {
  test("ends with its transcript, and reports its progress", async () => {
    const shares: number[] = [];
    const checkpoint = createMemoryCheckpoint((share) => shares.push(share));
    const ending = await kit.recognize(kit.recordingOf(FOUR_CHUNKS), { checkpoint });
    if (ending?.kind !== "result") throw new Error("no result");
    expect(ending.result).toMatchObject({ status: "completed", durationMs: 20_000, gaps: [], warnings: [] });
    expect(ending.result.segments.map(({ startMs }) => startMs)).toEqual(FOUR_STARTS);
    expect(ending.billedMs).toBe(20_000);
    expect(shares).toEqual([0.25, 0.5, 0.75, 1]);
  });

  test("has chunks of which the engine knows that more of the recording follows", async () => {
    const followed: (boolean | undefined)[] = [];
    const recognize: typeof kit.engine.recognize = (job, signal) => {
      followed.push(job.hasSuccessors);
      return kit.engine.recognize(job, signal);
    };
    kit.engine.interfere({
      // The first two chunks begin now: the third one may still grow.
      async speech(_job, _signal, onFound) {
        onFound?.(speechOfThree());
      },
    });
    await kit.recognize(kit.recordingOf(FOUR_CHUNKS), { tools: { engine: { ...kit.engine, recognize } } });
    expect(followed).toEqual([true, true, false, false]);
  });

  test.each([
    { kind: "failed", attempts: 3, reason: "engine_error" },
    { kind: "crashed", attempts: 2, reason: "engine_error" },
    { kind: "hung", attempts: 3, reason: "time_limit" },
  ] as const)("whose chunk always ends as $kind has a gap there after $attempts attempts", async (row) => {
    const chunks = failing(row.kind, CHUNK_MS, 99);
    const ending = await kit.recognize(kit.recordingOf(FOUR_CHUNKS));
    if (ending?.kind !== "result") throw new Error("no result");
    expect(ending.result.gaps).toEqual([{ startMs: 5_000, endMs: 10_000, reason: row.reason }]);
    expect(ending.result.segments.length).toBe(3);
    expect(ending.billedMs).toBe(15_000);
    expect(chunks.of(CHUNK_MS).length).toBe(row.attempts);
  });

  test.each(["failed", "crashed", "hung", "interrupted"] as const)(
    "has no gap when a chunk ends as %s once",
    async (kind) => {
      const chunks = failing(kind, CHUNK_MS, 1);
      const ending = await kit.recognize(kit.recordingOf(FOUR_CHUNKS));
      expect(ending).toMatchObject({ kind: "result", result: { status: "completed", gaps: [] } });
      expect(chunks.of(CHUNK_MS).map(({ isAlone }) => isAlone)).toEqual([false, kind === "crashed"]);
    },
  );

  test("fails when nothing of it could be transcribed", async () => {
    watchChunks(kit.engine, async () => {
      throw new EngineError("failed", "as scripted");
    });
    const ending = await kit.recognize(kit.recordingOf(FOUR_CHUNKS));
    expect(ending).toMatchObject({ kind: "failed", code: "transcription_failed" });
  });

  test("fails with the cause where the weights cannot be loaded or the audio cannot be decoded", async () => {
    failing("unusable_model", 0, 1);
    expect(await kit.recognize(kit.recordingOf(FOUR_CHUNKS))).toMatchObject({
      kind: "failed",
      code: "capacity_unavailable",
      cause: { message: "as scripted" },
    });
    expect(await kit.recognize(kit.recordingOf({ seconds: 5, trouble: "refuse" }))).toMatchObject({
      kind: "failed",
      code: "audio_decode_failed",
    });
  });

  test("fails when its decoded length differs from the verified one, rounding excepted", async () => {
    const recording = kit.recordingOf(FOUR_CHUNKS);
    const withLength = (durationMs: number) => ({ ...recording, verified: { durationMs, channels: 1 } });
    for (const durationMs of [20_101, 19_899, 3_600_000]) {
      const ending = await kit.recognize(withLength(durationMs));
      expect(ending).toMatchObject({ kind: "failed", code: "transcription_failed" });
      expect(existsSync(recording.directory)).toBe(false);
    }
    const rounded = await kit.recognize(withLength(20_040));
    expect(rounded).toMatchObject({ kind: "result", result: { durationMs: 20_040 } });
  });

  test("drops the outcome of a chunk that another run has taken over, and does not end without that chunk", async () => {
    const checkpoint = createMemoryCheckpoint();
    watchChunks(kit.engine, async ({ startMs }) => {
      if (startMs === CHUNK_MS)
        await checkpoint.renewAttempt(1, (await checkpoint.chunks())[1]?.attempt ?? "");
      return "late";
    });
    const run = kit.recognize(kit.recordingOf(FOUR_CHUNKS), { checkpoint });
    await expect(run).rejects.toThrow("another run has taken over a chunk");
    expect((await checkpoint.chunks()).map(({ state }) => state)).toEqual([
      "done",
      "waiting",
      "done",
      "done",
    ]);
  });

  test("continues from its checkpoint after an abort: no finished chunk runs again", async () => {
    const recording = kit.recordingOf(FOUR_CHUNKS);
    const checkpoint = createMemoryCheckpoint();
    const stop = new AbortController();
    const before = watchChunks(kit.engine, ({ startMs }, signal) =>
      startMs >= 2 * CHUNK_MS ? forever(signal) : undefined,
    );
    const first = kit.recognize(recording, { checkpoint, signal: stop.signal }).catch((error) => error);
    await until(
      "two are done",
      async () => (await checkpoint.chunks()).filter(({ state }) => state === "done").length === 2,
    );
    const reason = new Error("the program is stopping");
    stop.abort(reason);
    expect(await first).toMatchObject({ kind: "aborted" });
    expect(before.of(0).length).toBe(1);
    const after = watchChunks(kit.engine);
    const ending = await kit.recognize(recording, { checkpoint });
    expect(ending).toMatchObject({ kind: "result", result: { status: "completed" } });
    expect(after.runs.map(({ startMs }) => startMs).sort()).toEqual([2 * CHUNK_MS, 3 * CHUNK_MS]);
    // Without its decoded files the recording is decoded again. Its recognized text is kept.
    rmSync(recording.directory, { recursive: true });
    const again = watchChunks(kit.engine);
    expect(await kit.recognize(recording, { checkpoint })).toEqual(ending);
    expect(again.runs).toEqual([]);
    expect(existsSync(recording.directory)).toBe(true);
  });
});
