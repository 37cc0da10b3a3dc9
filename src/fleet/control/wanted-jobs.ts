import { randomBytes } from "node:crypto";
import type { ElsewhereJob, PreparedAudio } from "../../engine/engine.ts";
import { type ChunkJob, type ChunkOutcome, EngineError } from "../../engine/protocol.ts";
import { onAbort } from "../../lib/abort.ts";
import type { Urgency } from "../subjects.ts";

/** Work that callers wait for. Callers that ask for the same job share its one outcome. */
export type WantedJob = WantedChunk | WantedPreparation;

/** The recognition of one chunk. */
export type WantedChunk = WantedBase & { kind: "chunk"; job: ChunkJob; audioMs: number };

/** The preparation of one recording. */
export type WantedPreparation = WantedBase & {
  kind: "prepare";
  job: ElsewhereJob;
  /** Size of the recording. */
  bytes: number;
  /** Where workers bring files, in a folder for each try. */
  folder: string;
};

type OutcomeOf<T extends WantedJob> = T extends WantedChunk ? ChunkOutcome : PreparedAudio;

type WantedBase = {
  id: string;
  /** SHA-256 of the model, or of the code that prepares recordings. */
  modelSha256: string;
  /** By which workers find the job: that hash, or the queue of chunks that need a skill. */
  queue: string;
  urgency: Urgency;
  subject: string;
  /** Names the present try. */
  attempt: string;
  /** No other chunk may run on the machine meanwhile. */
  isAlone: boolean;
  /** A beat that names the job begins this time. */
  timeoutMs: number;
  waiting: Set<Waiter>;
  /** Number of the ticket in the stream; undefined: not published, or not known to be. */
  sequence: number | undefined;
  /** Times on the clock of `performance.now()`. */
  wantedAt: number;
  publishedAt: number | undefined;
  /** When it was noticed that the server has given the ticket to a worker. */
  deliveredAt: number | undefined;
  /** The worker whose beat named the job last. */
  worker: string | undefined;
  firstSeenAt: number | undefined;
  lastSeenAt: number | undefined;
};

type Waiter = { resolve: (outcome: never) => void; reject: (error: EngineError) => void };

type Asked<T extends WantedJob> = Omit<T, "attempt" | "wantedAt" | keyof typeof FRESH>;

/** The jobs that callers wait for, by name. */
export type WantedJobs = {
  /** Waits for a job. Returns whether it is new, and its outcome. */
  want<T extends WantedJob>(wanted: Asked<T>, signal: AbortSignal): Wanted<T>;
  get(id: string): WantedJob | undefined;
  list(): WantedJob[];
  count(): number;
  /** Ends a job for all its callers. Does nothing when it has ended. */
  resolve<T extends WantedJob>(wanted: T, outcome: OutcomeOf<T>): void;
  reject(wanted: WantedJob, error: EngineError): void;
};
export type Wanted<T extends WantedJob> = { wanted: T; isNew: boolean; outcome: Promise<OutcomeOf<T>> };

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

  function join<T extends WantedJob>(wanted: T, signal: AbortSignal): Promise<OutcomeOf<T>> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        wanted.waiting.delete(waiter);
        if (wanted.waiting.size === 0 && jobs.get(wanted.id) === wanted) {
          jobs.delete(wanted.id);
          onUnwanted(wanted);
        }
        reject(new EngineError("aborted", "aborted"));
      };
      const waiter: Waiter = {
        resolve(outcome) {
          stop();
          resolve(outcome);
        },
        reject(error) {
          stop();
          reject(error);
        },
      };
      wanted.waiting.add(waiter);
      const stop = onAbort(signal, leave);
    });
  }

  return {
    want<T extends WantedJob>(asked: Asked<T>, signal: AbortSignal) {
      const known = jobs.get(asked.id);
      // A job's name says what it is, so a job of that name has the kind that was asked for.
      const fresh = { ...FRESH, attempt: newAttempt(), wantedAt: performance.now(), waiting: new Set() };
      const wanted = (known ?? { ...fresh, ...asked }) as T;
      jobs.set(wanted.id, wanted);
      return { wanted, isNew: known === undefined, outcome: join(wanted, signal) };
    },
    get: (id) => jobs.get(id),
    list: () => [...jobs.values()],
    count: () => jobs.size,
    resolve(wanted, outcome) {
      for (const waiter of end(wanted)) waiter.resolve(outcome as never);
    },
    reject(wanted, error) {
      for (const waiter of end(wanted)) waiter.reject(error);
    },
  };
}

export function newAttempt(): string {
  return randomBytes(8).toString("hex");
}
