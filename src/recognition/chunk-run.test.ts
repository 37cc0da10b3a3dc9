import { describe, expect, test } from "bun:test";
import { EngineError, type EngineErrorKind } from "../engine/protocol.ts";
import {
  begin,
  CHUNK_MS,
  clientOf,
  FOUR_STARTS,
  usageOf,
  watchChunks,
  workFiles,
} from "../testing/kits/scheduler-kit.ts";
import { testAppOpener } from "../testing/kits/test-app-opener.ts";

const open = testAppOpener();

/** Fails the first `times` runs of the chunk at `startMs`. */
function failing(kind: EngineErrorKind, startMs: number, times: number) {
  let left = times;
  return async (chunk: { startMs: number }): Promise<undefined> => {
    if (chunk.startMs === startMs && left-- > 0) throw new EngineError(kind, "as scripted");
    return undefined;
  };
}

describe("a chunk", () => {
  test("that fails and then works leaves no trace in the result", async () => {
    const testApp = await open();
    const chunks = watchChunks(testApp.engine, failing("failed", CHUNK_MS, 2));
    const id = await begin(testApp);
    expect((await clientOf(testApp).finished(id)).state).toBe("completed");
    const result = await clientOf(testApp).result(id);
    expect(result.segments.map(({ start }) => (start ?? -1) * 1000)).toEqual(FOUR_STARTS);
    expect(result.gaps).toBeUndefined();
    expect(chunks.of(CHUNK_MS).length).toBe(3);
    expect((await usageOf(testApp)).data[0]?.amount_paise).toBe(17);
    expect(workFiles(testApp)).toEqual([]);
  });

  test("that fails in all its attempts becomes a gap that is not charged", async () => {
    const testApp = await open();
    const chunks = watchChunks(testApp.engine, failing("failed", CHUNK_MS, 99));
    const id = await begin(testApp);
    expect((await clientOf(testApp).finished(id)).state).toBe("partial");
    const result = await clientOf(testApp).result(id);
    expect(result.gaps).toEqual([{ start: 5, end: 10, reason: "engine_error" }]);
    expect(result.segments.length).toBe(3);
    expect(chunks.of(CHUNK_MS).length).toBe(testApp.config.engine.chunk_attempts);
    // 15 of 20 seconds at 3000 paise an hour, rounded up.
    const usage = await usageOf(testApp);
    expect(usage.data[0]).toMatchObject({ billed_seconds: 15, audio_seconds: 20, amount_paise: 13 });
    expect(usage.credit.reserved_paise).toBe(0);
  });

  test("that fails like all others leaves nothing transcribed, and nothing is charged", async () => {
    const testApp = await open();
    watchChunks(testApp.engine, async () => {
      throw new EngineError("failed", "as scripted");
    });
    const id = await begin(testApp);
    const ended = await clientOf(testApp).finished(id);
    expect(ended).toMatchObject({ state: "failed", error: { code: "transcription_failed" } });
    const usage = await usageOf(testApp);
    expect(usage.data[0]).toMatchObject({ amount_paise: 0, billed_seconds: 0 });
    expect(usage.credit).toMatchObject({ balance_paise: 1_000_000, reserved_paise: 0 });
    expect(workFiles(testApp)).toEqual([]);
  });

  test("that crashes its worker process twice becomes a gap; its second run is alone, and there is no third", async () => {
    const testApp = await open({ config: { engine: { chunk_attempts: 10 } } });
    const chunks = watchChunks(testApp.engine, failing("crashed", CHUNK_MS, 99));
    const id = await begin(testApp);
    expect((await clientOf(testApp).finished(id)).state).toBe("partial");
    expect(chunks.of(CHUNK_MS).map(({ isAlone }) => isAlone)).toEqual([false, true]);
    const others = chunks.runs.filter(({ startMs }) => startMs !== CHUNK_MS);
    expect(others.every(({ isAlone }) => !isAlone)).toBe(true);
  });

  test("that crashes once with a neighbour's worker process is recognized alone", async () => {
    const testApp = await open();
    const chunks = watchChunks(testApp.engine, failing("crashed", CHUNK_MS, 1));
    const id = await begin(testApp);
    expect((await clientOf(testApp).finished(id)).state).toBe("completed");
    expect(chunks.of(CHUNK_MS).map(({ isAlone }) => isAlone)).toEqual([false, true]);
  });

  test("that hangs counts as failed once, has more time in its next run, and becomes a gap with its own reason", async () => {
    const testApp = await open();
    const chunks = watchChunks(testApp.engine, failing("hung", CHUNK_MS, 99));
    const id = await begin(testApp);
    expect((await clientOf(testApp).finished(id)).state).toBe("partial");
    const { gaps } = await clientOf(testApp).result(id);
    expect(gaps).toEqual([{ start: 5, end: 10, reason: "time_limit" }]);
    expect(chunks.of(CHUNK_MS).length).toBe(3);
  });

  test("that was interrupted is repeated, and the interruptions are not counted as failures", async () => {
    const testApp = await open();
    const chunks = watchChunks(testApp.engine, failing("interrupted", CHUNK_MS, 15));
    const id = await begin(testApp);
    expect((await clientOf(testApp).finished(id)).state).toBe("completed");
    expect(chunks.of(CHUNK_MS).length).toBe(16);
    expect(chunks.of(CHUNK_MS).some(({ isAlone }) => isAlone)).toBe(false);
  });

  test("whose process ended with several chunks that made their steps together is repeated alone, and has not failed", async () => {
    const testApp = await open({ config: { engine: { chunk_attempts: 1 } } });
    let left = 1;
    const chunks = watchChunks(testApp.engine, async ({ startMs }) => {
      if (startMs !== CHUNK_MS || left-- <= 0) return undefined;
      const error = new EngineError("interrupted", "as scripted");
      error.isSuspect = true;
      throw error;
    });
    const id = await begin(testApp);
    expect((await clientOf(testApp).finished(id)).state).toBe("completed");
    expect(chunks.of(CHUNK_MS).map(({ isAlone }) => isAlone)).toEqual([false, true]);
  });

  test("of a recording with separate channels fails for its channel only", async () => {
    const testApp = await open();
    let left = 99;
    watchChunks(testApp.engine, async ({ audio }) => {
      if (audio.pcmPath.endsWith("channel_1.pcm") && left-- > 0)
        throw new EngineError("failed", "as scripted");
      return undefined;
    });
    const script = { seconds: 4, channels: 2, text: "नमस्ते" };
    const id = await begin(testApp, script, { channel_mode: "separate" });
    expect((await clientOf(testApp).finished(id)).state).toBe("partial");
    expect((await clientOf(testApp).result(id)).gaps).toEqual([
      { start: 0, end: 4, reason: "engine_error", channel: 1 },
    ]);
    expect((await usageOf(testApp)).data[0]).toMatchObject({ billed_seconds: 4, channels: 2 });
  });
});

describe("weights that cannot be loaded", () => {
  test("end the transcription with the documented code, without a charge, after one attempt", async () => {
    const testApp = await open();
    const chunks = watchChunks(testApp.engine, async () => {
      throw new EngineError("unusable_model", "no tensors");
    });
    const id = await begin(testApp);
    const ended = await clientOf(testApp).finished(id);
    expect(ended).toMatchObject({ state: "failed", error: { code: "capacity_unavailable" } });
    expect(chunks.runs.length).toBeLessThanOrEqual(3);
    expect((await usageOf(testApp)).data[0]?.amount_paise).toBe(0);
    expect(testApp.app.scheduler.status().slots).toMatchObject({ running: 0, waiting: 0 });
    expect(workFiles(testApp)).toEqual([]);
  });
});

test("progress rises with each chunk and never falls", async () => {
  const testApp = await open({ config: { engine: { workers: 1 } } });
  const seen: number[] = [];
  let id = "";
  watchChunks(testApp.engine, async () => {
    // The outcome of the last chunk waits some milliseconds for others to be committed with.
    await Bun.sleep(50);
    seen.push((await clientOf(testApp).get(id)).progress ?? -1);
    return undefined;
  });
  const release = testApp.engine.hold();
  id = await begin(testApp);
  release();
  await clientOf(testApp).finished(id);
  expect(seen).toEqual([0, 0.25, 0.5, 0.75]);
  expect((await clientOf(testApp).get(id)).progress).toBe(1);
});
