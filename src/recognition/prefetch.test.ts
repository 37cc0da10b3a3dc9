import { describe, expect, test } from "bun:test";
import { EngineError, type OnSpeechFound } from "../engine/protocol.ts";
import {
  begin,
  clientOf,
  FOUR_STARTS,
  forever,
  speechOfThree,
  until,
  usageOf,
  watchChunks,
  workFiles,
} from "../testing/kits/scheduler-kit.ts";
import { testAppOpener } from "../testing/kits/test-app-opener.ts";
import { createPrefetch } from "./prefetch.ts";

const open = testAppOpener();

const never = new AbortController().signal;
const chunkAt = (position: number, length = 80) => ({
  channel: 0,
  startMs: position * 5,
  endMs: position * 5 + 5,
  speechMs: 5,
  regions: [{ startSample: position * 80, endSample: position * 80 + length }],
});
const rowAt = (position: number) => ({ ...chunkAt(position), position });

describe("prefetched chunks", () => {
  test("begin in order up to the limit, and each is taken once", async () => {
    const begun: number[] = [];
    const gates = [0, 1, 2, 3].map(() => Promise.withResolvers<string>());
    const prefetch = createPrefetch(
      2,
      ({ position }) => {
        begun.push(position);
        return gates[position]?.promise ?? Promise.reject(new Error("not expected"));
      },
      never,
    );
    prefetch.offer([chunkAt(0)]);
    expect(begun).toEqual([0]);
    prefetch.offer([0, 1, 2, 3].map((n) => chunkAt(n)));
    expect(begun).toEqual([0, 1]);
    gates[1]?.resolve("second");
    await until("the third begins", () => begun.length === 3);
    expect(await prefetch.take(rowAt(1))).toBe("second");
    expect(prefetch.take(rowAt(1))).toBeUndefined();
    expect(prefetch.take(rowAt(3))).toBeUndefined();
    for (const gate of gates) gate.resolve("late");
    await prefetch.stop();
  });

  test("are not used when another chunk is requested than the prefetched one", async () => {
    const prefetch = createPrefetch(1, async () => "text", never);
    prefetch.offer([chunkAt(0, 80)]);
    expect(prefetch.take({ ...chunkAt(0, 79), position: 0 })).toBeUndefined();
    expect(await prefetch.take(rowAt(0))).toBe("text");
  });

  test("end with stop, and after a failure no other begins", async () => {
    const begun: number[] = [];
    const prefetch = createPrefetch(
      1,
      async ({ position }, signal) => {
        begun.push(position);
        if (position === 0) throw new Error("broken");
        return forever(signal);
      },
      never,
    );
    prefetch.offer([chunkAt(0), chunkAt(1)]);
    const first = prefetch.take(rowAt(0));
    await expect(Promise.resolve(first)).rejects.toThrow("broken");
    await prefetch.stop();
    prefetch.offer([chunkAt(0), chunkAt(1), chunkAt(2)]);
    expect(begun).toEqual([0]);
  });
});

/** Reports the speech of the first three chunks, and then waits as if the detector were still reading. */
function detectorHeldBy(gate: Promise<void>) {
  return async (_job: unknown, signal: AbortSignal, onFound?: OnSpeechFound): Promise<void> => {
    onFound?.(speechOfThree());
    await Promise.race([gate, forever(signal)]);
  };
}

describe("a recording whose speech is still being detected", () => {
  test("is recognized already, each chunk once", async () => {
    const testApp = await open();
    const gate = Promise.withResolvers<void>();
    const chunks = watchChunks(testApp.engine);
    testApp.engine.interfere({
      speech: detectorHeldBy(gate.promise),
      async chunk({ startMs, isAlone }) {
        chunks.runs.push({ startMs, isAlone });
        return undefined;
      },
    });
    const id = await begin(testApp);
    // The last of the three chunks may still grow.
    await until("two chunks are decoded", () => chunks.runs.length === 2);
    expect((await clientOf(testApp).get(id)).state).toBe("preparing");
    gate.resolve();
    expect((await clientOf(testApp).finished(id)).state).toBe("completed");
    expect(chunks.runs.map(({ startMs }) => startMs).toSorted((a, b) => a - b)).toEqual(FOUR_STARTS);
    const result = await clientOf(testApp).result(id);
    expect(result.segments.map(({ start }) => (start ?? -1) * 1000)).toEqual(FOUR_STARTS);
    expect((await usageOf(testApp)).data[0]?.amount_paise).toBe(17);
    expect(workFiles(testApp)).toEqual([]);
  });

  test("a chunk that crashes its worker process then has one run left, alone, and no third", async () => {
    const testApp = await open();
    const gate = Promise.withResolvers<void>();
    const runs: { startMs: number; isAlone: boolean }[] = [];
    testApp.engine.interfere({
      speech: detectorHeldBy(gate.promise),
      async chunk({ startMs, isAlone }) {
        runs.push({ startMs, isAlone });
        if (startMs === 0) throw new EngineError("crashed", "as scripted");
        return undefined;
      },
    });
    const id = await begin(testApp);
    await until("the first chunk has run", () => runs.some(({ startMs }) => startMs === 0));
    gate.resolve();
    expect((await clientOf(testApp).finished(id)).state).toBe("partial");
    expect(runs.filter(({ startMs }) => startMs === 0).map(({ isAlone }) => isAlone)).toEqual([false, true]);
  });

  test("is no longer recognized when it is cancelled", async () => {
    const testApp = await open();
    let running = 0;
    testApp.engine.interfere({
      speech: detectorHeldBy(new Promise(() => undefined)),
      async chunk(_chunk, signal) {
        running++;
        return forever(signal).finally(() => running--);
      },
    });
    const id = await begin(testApp);
    await until("a chunk is being decoded", () => running > 0);
    await clientOf(testApp).cancel(id);
    await until("nothing is decoded", () => running === 0);
    expect((await clientOf(testApp).finished(id)).state).toBe("cancelled");
    await until("its files are gone", () => workFiles(testApp).length === 0);
    expect((await usageOf(testApp)).credit.reserved_paise).toBe(0);
  });
});
