import { randomBytes } from "node:crypto";
import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import { type ChunkJob, type ChunkOutcome, EngineError } from "../../engine/protocol.ts";
import type { Urgency } from "../subjects.ts";

/** A chunk that callers wait for. Callers that ask for the same job share its one outcome. */
export type WantedJob = {
  id: string;
  job: ChunkJob;
  modelSha256: string;
  urgency: Urgency;
  subject: string;
  /** Names the present try. */
  attempt: string;
  audioMs: number;
  /** No other chunk may run on the machine meanwhile. */
  isAlone: boolean;
  /** A beat that names the job begins this time. */
  timeoutMs: number;
  waiting: Set<Waiter>;
  /** Number of the ticket in the stream; undefined: not published, or not known to be. */
  sequence: number | undefined;
  /** Times on the clock of `performance.now()`. */
  publishedAt: number | undefined;
  /** When it was noticed that the server has given the ticket to a worker. */
  deliveredAt: number | undefined;
  /** The worker whose beat named the job last. */
  worker: string | undefined;
  firstSeenAt: number | undefined;
  lastSeenAt: number | undefined;
};

type Waiter = { resolve: (outcome: ChunkOutcome) => void; reject: (error: EngineError) => void };

/** The jobs that callers wait for, by name. */
export type WantedJobs = {
  /** Waits for a job. Returns whether it is new, and its outcome. */
  want(wanted: Omit<WantedJob, "attempt" | "audioMs" | keyof typeof FRESH>, signal: AbortSignal): Wanted;
  get(id: string): WantedJob | undefined;
  list(): WantedJob[];
  count(): number;
  /** Ends a job for all its callers. Does nothing when it has ended. */
  resolve(wanted: WantedJob, outcome: ChunkOutcome): void;
  reject(wanted: WantedJob, error: EngineError): void;
};
export type Wanted = { wanted: WantedJob; isNew: boolean; outcome: Promise<ChunkOutcome> };

const FRESH = {
  waiting: undefined,
  sequence: undefined,
  publishedAt: undefined,
  deliveredAt: undefined,
  worker: undefined,
  firstSeenAt: undefined,
  lastSeenAt: undefined,
};

/** @param onUnwanted called when the last caller of a job has gone */
export function createWantedJobs(onUnwanted: (wanted: WantedJob) => void): WantedJobs {
  const jobs = new Map<string, WantedJob>();

  function end(wanted: WantedJob): Waiter[] {
    if (jobs.get(wanted.id) !== wanted) return [];
    jobs.delete(wanted.id);
    return [...wanted.waiting];
  }

  function join(wanted: WantedJob, signal: AbortSignal): Promise<ChunkOutcome> {
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        wanted.waiting.delete(waiter);
        if (wanted.waiting.size === 0 && jobs.get(wanted.id) === wanted) {
          jobs.delete(wanted.id);
          onUnwanted(wanted);
        }
        reject(new EngineError("aborted", "aborted"));
      };
      const waiter: Waiter = {
        resolve(outcome) {
          signal.removeEventListener("abort", onAbort);
          resolve(outcome);
        },
        reject(error) {
          signal.removeEventListener("abort", onAbort);
          reject(error);
        },
      };
      wanted.waiting.add(waiter);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  return {
    want(asked, signal) {
      const known = jobs.get(asked.id);
      const audioMs = (asked.job.audio.totalSamples * 1000) / SAMPLE_RATE_HZ;
      const wanted: WantedJob = known ?? {
        ...FRESH,
        ...asked,
        audioMs,
        attempt: newAttempt(),
        waiting: new Set(),
      };
      jobs.set(wanted.id, wanted);
      return { wanted, isNew: known === undefined, outcome: join(wanted, signal) };
    },
    get: (id) => jobs.get(id),
    list: () => [...jobs.values()],
    count: () => jobs.size,
    resolve(wanted, outcome) {
      for (const waiter of end(wanted)) waiter.resolve(outcome);
    },
    reject(wanted, error) {
      for (const waiter of end(wanted)) waiter.reject(error);
    },
  };
}

export function newAttempt(): string {
  return randomBytes(8).toString("hex");
}
