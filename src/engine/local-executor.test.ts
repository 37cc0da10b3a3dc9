import { describe, expect, test } from "bun:test";
import { createChunkTimes, type TimedChunk } from "./chunk-times.ts";
import { createLocalExecutor, localCapacity } from "./local-executor.ts";
import type { ChunkJob, PoolJob } from "./protocol.ts";
import type { SizingInfo } from "./sizing.ts";

/** Which threads chunks get, and what their work counts as, with a pool made of closures. */

const GIB = 1024 ** 3;
const AUTO = { workers: "auto", threads_per_worker: "auto" } as const;
const MACHINE = { cores: 2, availableMemoryBytes: 20 * GIB };
const JOB: ChunkJob = {
  model: { id: "m", version: "1", family: "whisper", files: {} },
  windowMs: 30_000,
  audio: { pcmPath: "x", slices: [], totalSamples: 16_000 },
  settings: { language: "en" },
  sharers: 8,
  isAlone: false,
};
const TOOK_MS = 200;

const SHARING = { onProcessor: true, onGpu: true };

type Opened = {
  backgroundNiceness?: number;
  machine?: SizingInfo;
  device?: string | undefined;
  isOneThread?: boolean;
};

/** @param device where the model was loaded; left out: it was not */
function open(
  sharesSteps: boolean,
  { backgroundNiceness = 10, machine = MACHINE, device, isOneThread }: Opened = {},
) {
  const jobs: PoolJob[] = [];
  const timed: TimedChunk[] = [];
  let nowMs = 0;
  const pool = {
    warm: async () => {},
    deviceOf: () => device,
    async recognize(job: PoolJob) {
      jobs.push(job);
      // All chunks that begin together end together.
      const endsMs = nowMs + TOOK_MS;
      await Bun.sleep(1);
      nowMs = Math.max(nowMs, endsMs);
      return { segments: [], elapsedMs: TOOK_MS };
    },
  };
  const executor = createLocalExecutor(pool, {
    engine: { ...AUTO, background_niceness: backgroundNiceness },
    machine,
    now: () => nowMs,
    needsOf: () => ({ bytes: 0, isOneThread, ...(sharesSteps ? { sharing: SHARING } : {}) }),
    times: { ...createChunkTimes(), observe: (chunk) => timed.push(chunk) },
  });
  const run = (changes: Partial<ChunkJob> = {}) =>
    executor.recognize({ ...JOB, ...changes }, new AbortController().signal);
  return { jobs, timed, run, capacity: () => executor.capacity({ bytes: 0, ...JOB.model }) };
}

test("a chunk alone has all cores, unless its family runs each chunk on one thread", async () => {
  for (const [isOneThread, threads] of [
    [false, 2],
    [true, 1],
  ] as const) {
    const { jobs, run } = open(false, { isOneThread });
    await run({ sharers: 1 });
    expect(jobs[0]).toMatchObject({ threads, threadGroups: 0 });
  }
});

describe("chunks that make their steps together", () => {
  test("share as many threads as there are cores", async () => {
    const { jobs, run } = open(true);
    await run();
    expect(jobs[0]).toMatchObject({ threads: 1, threadGroups: 2 });
  });

  test("are not joined by a chunk that has ended a process", async () => {
    const { jobs, run } = open(true);
    await run({ isAlone: true });
    expect(jobs[0]).toMatchObject({ threads: 1, threadGroups: 0 });
  });

  test("have the threads of all groups while they are few, unless chunks of another model run, or more of the recording are about to come", async () => {
    const { jobs, run } = open(true);
    const other = { ...JOB.model, id: "other" };
    await Promise.all([run(), run(), run({ model: other })]);
    await run({ model: other });
    await run({ hasSuccessors: true });
    // There is memory for no other chunk.
    await run({ hasSuccessors: true, sharers: 1 });
    expect(jobs.map(({ threadGroups, groupThreads }) => [threadGroups, groupThreads])).toEqual([
      [2, 2],
      [2, 2],
      [2, 1],
      [2, 2],
      [2, 1],
      [2, 2],
    ]);
  });

  test("count as chunks of one thread for their time limit, or of as many as they had", async () => {
    const { timed, run } = open(true);
    await run();
    await Promise.all(Array.from({ length: 4 }, () => run()));
    expect(timed.map(({ threads }) => threads)).toEqual([2, 1, 1, 1, 1]);
  });

  test("are those that clients wait for or those of the background, not both", async () => {
    const apart = open(true);
    for (const isUrgent of [true, false]) await apart.run({ isUrgent });
    expect(apart.jobs).toMatchObject([
      { threadGroups: 2, niceness: 0 },
      { threadGroups: 2, niceness: 10 },
    ]);
    const equal = open(true, { backgroundNiceness: 0 });
    for (const isUrgent of [true, false]) await equal.run({ isUrgent });
    expect(equal.jobs).toMatchObject([
      { threadGroups: 0, niceness: 0 },
      { threadGroups: 2, niceness: 0 },
    ]);
  });

  test("of the background are less urgent for the system than a chunk that a client waits for, as is every other", async () => {
    const { jobs, run } = open(true);
    for (const changes of [{}, { isAlone: true }, { sharers: 1 }, { isUrgent: true }]) await run(changes);
    expect(jobs.map(({ niceness }) => niceness)).toEqual([10, 10, 10, 0]);
  });

  test("count for their part of a thread each, so that the work of a recording does not grow with their number", async () => {
    const together = await Promise.all(Array.from({ length: 8 }, () => open(false).run()));
    expect(together.map(({ workMs }) => workMs)).toEqual(Array.from({ length: 8 }, () => TOOK_MS));
    const { run } = open(true);
    const shared = await Promise.all(Array.from({ length: 8 }, () => run()));
    // Eight chunks on two threads for as long.
    expect(shared.map(({ workMs }) => workMs)).toEqual(shared.map(() => TOOK_MS / 4));
    const [alone] = await Promise.all([run()]);
    expect(alone?.workMs).toBe(2 * TOOK_MS);
    // Beside a chunk that a client waits for, eight others have the same threads as before.
    const beside = await Promise.all([run({ isUrgent: true }), ...Array.from({ length: 8 }, () => run())]);
    expect(beside.map(({ workMs }) => workMs)).toEqual([TOOK_MS, ...shared.map(() => TOOK_MS / 4)]);
  });
});

describe("on a GPU", () => {
  const withGpu = { cores: 16, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 24 * GIB };

  test.each([
    ["before the model is loaded", undefined],
    ["once it is", "Vulkan0"],
  ])("chunks share four queues of work, a thread of the processor each: %s", async (_, device) => {
    const { jobs, run, capacity } = open(true, { machine: withGpu, device });
    await run({ sharers: 2 });
    await run({ sharers: 1 });
    const shared = { threads: 1, threadGroups: 4, groupThreads: 1, groupsAreOnGpu: true };
    expect(jobs).toMatchObject([shared, shared]);
    expect(capacity()).toEqual({ chunks: 32, power: 4, isElastic: true, threadGroups: 4 });
  });

  test("chunks that clients wait for share a queue of their own", async () => {
    const { jobs, run } = open(true, { machine: withGpu, device: "Vulkan0" });
    await run({ isUrgent: true });
    expect(jobs[0]).toMatchObject({ threads: 1, threadGroups: 4, groupsAreOnGpu: true, niceness: 0 });
  });

  test("a chunk that has ended a process makes its own steps", async () => {
    const { jobs, run } = open(true, { machine: withGpu, device: "Vulkan0" });
    await run({ isAlone: true });
    expect(jobs[0]).toMatchObject({ threads: 1, threadGroups: 0, groupsAreOnGpu: false });
  });

  test("a model that the GPU refused has the chunks, threads and thread groups of a machine without a GPU", async () => {
    const { jobs, run, capacity } = open(true, { machine: withGpu, device: "cpu" });
    await run({ sharers: 64 });
    await run({ sharers: 1 });
    expect(jobs).toMatchObject([
      { threads: 1, threadGroups: 16, groupsAreOnGpu: false },
      { threads: 16, threadGroups: 16, groupThreads: 16, groupsAreOnGpu: false },
    ]);
    expect(capacity()).toEqual({ chunks: 96, power: 16, isElastic: true, threadGroups: 16 });
  });

  test("chunks share the cores as before where steps are not shared", async () => {
    const { jobs, run, capacity } = open(false, { machine: withGpu, device: "Vulkan0" });
    await run({ sharers: 4 });
    expect(jobs[0]).toMatchObject({ threads: 4, threadGroups: 0 });
    expect(capacity()).toEqual({ chunks: 4, power: 16, isElastic: true });
  });
});

describe("capacity", () => {
  test("more chunks that share threads do not promise more work", () => {
    const apart = { chunks: 2, power: 2, isElastic: true };
    expect(localCapacity(AUTO, MACHINE, { bytes: 7e6 })).toEqual(apart);
    expect(localCapacity(AUTO, MACHINE, { bytes: 7e6, sharing: SHARING })).toEqual({
      ...apart,
      chunks: 12,
      threadGroups: 2,
    });
    expect(
      localCapacity(AUTO, { cores: 2, availableMemoryBytes: GIB }, { bytes: GIB / 2, sharing: SHARING }),
    ).toEqual({
      ...{ chunks: 1, power: 2, isElastic: true },
    });
  });
});
