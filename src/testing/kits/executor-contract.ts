import { afterEach, describe, expect, test } from "bun:test";
import type { ChunkExecutor } from "../../engine/executor.ts";
import {
  type ChunkJob,
  type ChunkOutcome,
  EngineError,
  type EngineErrorKind,
} from "../../engine/protocol.ts";

/** Disturbances of a chunk. */
export const DISTURBANCES = ["crash", "hang", "fail", "twice", "unusable"] as const;
export type Disturbance = (typeof DISTURBANCES)[number];

/** An executor under test. */
export type ExecutorHarness = {
  executor: ChunkExecutor;
  /** A chunk with text. */
  job: ChunkJob;
  /** The same chunk with its audio in the message. Absent where the executor reads only files. */
  bytesJob?: ChunkJob;
  /** Sets the disturbance of all chunks from now on. With undefined there is none. */
  disturb(how: Disturbance | undefined): void;
  close(): Promise<void>;
};

export type ExecutorCase = {
  name: string;
  open: () => Promise<ExecutorHarness>;
  /** Tests that do not apply to this executor: `bytes` where it reads only files. */
  without?: readonly (Disturbance | "bytes")[];
};

const MAX_ABORT_MS = 2_000;

/** Tests the contract of `ChunkExecutor`, which is the same for local processes, scripts and other machines. */
export function describeExecutor({ name, open, without = [] }: ExecutorCase): void {
  const opened: ExecutorHarness[] = [];
  const openOne = async () => {
    const harness = await open();
    opened.push(harness);
    return harness;
  };
  afterEach(async () => {
    for (const harness of opened.splice(0)) await harness.close();
  });
  const unless = (how: Disturbance | "bytes"): ((what: string, work: () => Promise<void>) => void) =>
    without.includes(how) ? () => {} : test;

  describe(name, () => {
    test("reports its capacity", async () => {
      const { executor } = await openOne();
      for (const bytes of [0, 1e6, 1e15]) {
        const { chunks, power } = executor.capacity({ bytes });
        expect(chunks).toBeGreaterThanOrEqual(1);
        expect(power).toBeGreaterThan(0);
      }
      expect(executor.capacity({ bytes: 1e15 }).chunks).toBeLessThanOrEqual(
        executor.capacity({ bytes: 0 }).chunks,
      );
    });

    test("recognizes a chunk, the same again, alone or beside others, and reports its work", async () => {
      const { executor, job } = await openOne();
      const [first, ...others] = await Promise.all([
        attempt(executor, job),
        attempt(executor, { ...job, sharers: 2 }),
        attempt(executor, { ...job, isAlone: true }),
      ]);
      expect(textOf(first).length).toBeGreaterThan(0);
      for (const other of others) expect(textOf(other)).toBe(textOf(first));
      expect((first as ChunkOutcome).workMs).toBeGreaterThanOrEqual(0);
    });

    unless("bytes")("takes the audio from a file or from the message", async () => {
      const { executor, job, bytesJob } = await openOne();
      if (!bytesJob || !("pcm" in bytesJob.audio)) throw new Error("no audio in the message");
      expect(textOf(await attempt(executor, bytesJob))).toBe(textOf(await attempt(executor, job)));
    });

    test("ends within two seconds of an abort, before and while it runs, and continues with other chunks", async () => {
      const { executor, job, disturb } = await openOne();
      expect(await attempt(executor, job, AbortSignal.abort())).toBe("aborted");
      disturb("hang");
      const stop = new AbortController();
      const aborted = attempt(executor, job, stop.signal);
      await Bun.sleep(50);
      const startedAt = performance.now();
      stop.abort();
      expect(await aborted).toBe("aborted");
      expect(performance.now() - startedAt).toBeLessThan(MAX_ABORT_MS);
      disturb(undefined);
      expect(textOf(await untilDone(executor, job))).not.toBe("");
    });

    unless("crash")("reports a crash, and recognizes the next chunk", async () => {
      const { executor, job, disturb } = await openOne();
      disturb("crash");
      expect(await attempt(executor, job)).toBe("crashed");
      disturb(undefined);
      expect(textOf(await untilDone(executor, job))).not.toBe("");
    });

    unless("hang")("ends a chunk that takes too long, without a failure of its neighbour", async () => {
      const { executor, job, disturb } = await openOne();
      disturb("hang");
      expect(await attempt(executor, job)).toBe("hung");
      disturb(undefined);
      expect(textOf(await untilDone(executor, job))).not.toBe("");
    });

    unless("fail")("reports a failure of the chunk alone", async () => {
      const { executor, job, disturb } = await openOne();
      disturb("fail");
      expect(await attempt(executor, job)).toBe("failed");
      disturb(undefined);
      expect(textOf(await attempt(executor, job))).not.toBe("");
    });

    unless("twice")("settles once although the outcome comes twice", async () => {
      const { executor, job, disturb } = await openOne();
      disturb("twice");
      const outcomes = await Promise.all([attempt(executor, job), attempt(executor, job)]);
      disturb(undefined);
      const next = await attempt(executor, job);
      for (const outcome of [...outcomes, next]) expect(textOf(outcome)).toBe(textOf(next));
      expect(textOf(next)).not.toBe("");
    });

    unless("unusable")("reports that no chunk of the model can be recognized", async () => {
      const { executor, job, disturb } = await openOne();
      disturb("unusable");
      expect(await attempt(executor, job)).toBe("unusable_model");
    });

    test("interrupts running chunks when it is closed", async () => {
      const { executor, job, disturb, close } = await openOne();
      disturb("hang");
      const interrupted = attempt(executor, job);
      await Bun.sleep(50);
      await close();
      expect(await interrupted).toBe("interrupted");
    });
  });
}

/** Makes one attempt, and returns its outcome or the kind of its failure. */
async function attempt(
  executor: ChunkExecutor,
  job: ChunkJob,
  signal = new AbortController().signal,
): Promise<ChunkOutcome | EngineErrorKind> {
  try {
    return await executor.recognize(job, signal);
  } catch (error) {
    if (error instanceof EngineError) return error.kind;
    throw error;
  }
}

const MAX_ATTEMPTS = 10;

/** Makes attempts until one is not interrupted, because an executor may need time to start again. */
async function untilDone(executor: ChunkExecutor, job: ChunkJob): Promise<ChunkOutcome | EngineErrorKind> {
  for (let n = 1; ; n++) {
    const outcome = await attempt(executor, job);
    if (outcome !== "interrupted" || n === MAX_ATTEMPTS) return outcome;
  }
}

function textOf(outcome: ChunkOutcome | EngineErrorKind | undefined): string {
  if (typeof outcome !== "object") throw new Error(`the chunk ended as ${outcome}`);
  return outcome.segments.map(({ text }) => text.trim()).join(" ");
}
