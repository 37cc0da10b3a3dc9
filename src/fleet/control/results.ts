import { type ChunkTimes, SHORTEST_TIMEOUT_MS } from "../../engine/chunk-times.ts";
import { type ChunkOutcome, EngineError, type EngineErrorKind } from "../../engine/protocol.ts";
import type { LinkMessage } from "../link.ts";
import {
  briefly,
  type Done,
  type DoneReply,
  faultOf,
  MessageError,
  type ResultBounds,
  readDone,
  write,
} from "../messages.ts";
import type { JobTokens } from "../tokens.ts";
import { createEarlyResults, type Result } from "./early-results.ts";
import { createPreparedResults, type Reply } from "./prepared.ts";
import { hasModel, type Registry } from "./registry.ts";
import type { Suspects } from "./suspects.ts";
import type { WantedChunk, WantedJob, WantedJobs } from "./wanted-jobs.ts";

export type ResultsDeps = {
  jobs: WantedJobs;
  registry: Registry;
  suspects: Suspects;
  tokens: JobTokens;
  times: ChunkTimes;
  /** Reports whether results of this worker count. */
  isMember: (worker: string) => boolean;
  /** Takes a ticket out of the stream, and stops other workers that have it. */
  withdraw: (wanted: WantedJob) => Promise<void>;
  /** Called when a message of a worker is refused. */
  onRefused: (worker: string, reason: string) => void;
};

/** Takes results from workers. A worker keeps its result until the outcome is stored. */
export type Results = {
  take(worker: string, message: Pick<LinkMessage, "data">, respond: (data: Uint8Array) => void): void;
  /**
   * Returns the result of a job that came before the job was wanted, such as before a restart, once. A result that
   * exceeds the bounds is refused.
   */
  takeEarly(job: string, bounds: EarlyBounds): ChunkOutcome | undefined;
  /** Reports whether a job's result has come lately. */
  isKnown(job: string): boolean;
  /** Forgets what is too old. */
  sweep(now: number): void;
  counts(): { taken: number; prepared: number; early: number; adopted: number; refused: number };
};

/** Bounds of a result that came before its job was wanted, with the longest time that it can have taken. */
type EarlyBounds = ResultBounds & { timeoutMs: number };

/** A result whose worker keeps it until its outcome is stored. */
type Held = { at: number; isStored: boolean; respond: () => void };

/** A worker names a new chunk in a beat at once, and a lost one is followed by the next. */
const BEATS_MS = 2_000;
/** A caller that has not stored an outcome after this time has been stopped. */
const HELD_MS = 10_000;
const KNOWN_MS = 60_000;

export function createResults(deps: ResultsDeps): Results {
  const { jobs, registry, suspects } = deps;
  const [held, early] = [new Map<string, Held>(), createEarlyResults()];
  const counts = { taken: 0, prepared: 0, early: 0, adopted: 0, refused: 0 };

  /** @returns why the result is refused; undefined: it has been dealt with */
  function deal(worker: string, done: Done, bytes: number, reply: Reply): string | undefined {
    if (!deps.isMember(worker)) return "the worker is not a member of the fleet";
    if (!deps.tokens.proves(done.job, done.proof)) return "a result without proof of its ticket";
    const wanted = jobs.get(done.job);
    if (wanted) return (done.failed ? fail : finish)(worker, wanted, done, reply);
    const kept = held.get(done.job);
    if (kept && !kept.isStored && performance.now() - kept.at < HELD_MS) {
      kept.respond = reply;
      return undefined;
    }
    if (done.outcome && !kept && early.put(done.job, { worker, result: done.outcome }, bytes)) counts.early++;
    reply();
    return undefined;
  }

  const preparations = createPreparedResults({
    isWanted: (wanted) => jobs.get(wanted.id) === wanted,
    accept({ wanted, attempt }, outcome) {
      counts.prepared++;
      if (attempt !== wanted.attempt) void deps.withdraw(wanted);
      jobs.resolve(wanted, outcome);
    },
    refuse({ worker, wanted }, reason) {
      endAsLie(worker, wanted);
      refuse(worker, reason);
    },
  });

  /** Ends a job whose worker lies. The job is not the cause. */
  function endAsLie(worker: string, wanted: WantedJob): void {
    end(wanted, new EngineError("interrupted", `the worker ${worker} has sent a wrong result`));
  }

  function finish(worker: string, wanted: WantedJob, done: Done, reply: Reply): string | undefined {
    if (wanted.kind === "chunk" && done.outcome)
      return finishChunk(worker, wanted, done.outcome, done.attempt, reply);
    if (wanted.kind === "prepare" && done.prepared)
      return preparations.finish({ worker, wanted, attempt: done.attempt, prepared: done.prepared }, reply);
    endAsLie(worker, wanted);
    return "a result of another kind";
  }

  function finishChunk(
    worker: string,
    wanted: WantedChunk,
    result: Result,
    attempt: string,
    reply: Reply,
  ): string | undefined {
    const { id, audioMs, job } = wanted;
    const fault = faultOf(result, { audioMs, windowMs: job.windowMs });
    if (fault !== undefined) {
      endAsLie(worker, wanted);
      return fault;
    }
    counts.taken++;
    suspects.clear(id);
    const elapsedMs = credibleMs(result.elapsed_ms, wanted);
    deps.times.observe(timedChunkOf(wanted), elapsedMs);
    const own: Held = { at: performance.now(), isStored: false, respond: reply };
    held.set(id, own);
    // The result of an earlier try: another worker may have the present ticket.
    if (attempt !== wanted.attempt) void deps.withdraw(wanted);
    jobs.resolve(wanted, {
      ...outcomeOf(result, elapsedMs),
      onStored: () => store(own),
    });
    return undefined;
  }

  function fail(worker: string, wanted: WantedJob, done: Done, reply: Reply): undefined {
    reply();
    // The job has been given to another worker meanwhile.
    if (done.attempt !== wanted.attempt || !done.failed) return;
    const { kind, reason } = done.failed;
    if (wanted.kind === "prepare")
      return end(wanted, new EngineError("interrupted", `worker ${worker}: ${reason}`));
    if (kind === "hung" && canBeHung(wanted)) deps.times.observeTimeout(wanted.modelSha256);
    if (kind === "unusable_model") registry.markUnusable(worker, wanted.modelSha256);
    end(wanted, errorOf(worker, done.failed, wanted.modelSha256, registry));
  }

  /** Ends a job. The ticket goes first, because the next try of the job has the same subject. */
  function end(wanted: WantedJob, error: EngineError): undefined {
    void deps.withdraw(wanted).then(() => jobs.reject(wanted, error));
  }

  function refuse(worker: string, reason: string): void {
    counts.refused++;
    registry.countRefused(worker);
    deps.onRefused(worker, reason);
  }

  return {
    take: (worker, message, respond) => receive(worker, message, registry.protocol, respond, deal, refuse),
    takeEarly(job, bounds) {
      const found = early.take(job);
      if (!found) return undefined;
      const fault = faultOf(found.result, bounds);
      if (fault !== undefined) {
        refuse(found.worker, fault);
        return undefined;
      }
      counts.adopted++;
      return outcomeOf(found.result, Math.min(found.result.elapsed_ms, bounds.timeoutMs));
    },
    isKnown: (job) => held.has(job) || early.has(job),
    sweep(now) {
      for (const [job, { at }] of held) if (now - at > KNOWN_MS) held.delete(job);
      early.sweep(now);
    },
    counts: () => ({ ...counts }),
  };
}

/** Lets a worker forget a result whose outcome is stored. */
function store(held: Held): void {
  if (held.isStored) return;
  held.isStored = true;
  held.respond();
}

/** Reads a worker's report, deals with it and answers. */
function receive(
  worker: string,
  { data }: Pick<LinkMessage, "data">,
  protocol: () => number,
  respond: (data: Uint8Array) => void,
  deal: (worker: string, done: Done, bytes: number, reply: Reply) => string | undefined,
  refuse: (worker: string, reason: string) => void,
): void {
  const reply: Reply = (refused) => {
    const taken = refused === undefined;
    respond(
      write({ v: protocol(), taken, ...(taken ? {} : { refused: briefly(refused) }) } satisfies DoneReply),
    );
  };
  let refusal: string | undefined;
  try {
    refusal = deal(worker, readDone(data), data.length, reply);
  } catch (error) {
    if (!(error instanceof MessageError)) throw error;
    refusal = error.message;
  }
  if (refusal === undefined) return;
  refuse(worker, refusal);
  reply(refusal);
}

function errorOf(
  worker: string,
  { kind, reason, suspect = false }: NonNullable<Done["failed"]>,
  modelSha256: string,
  registry: Registry,
): EngineError {
  const error = new EngineError(errorKindOf(kind, modelSha256, registry), `worker ${worker}: ${reason}`);
  error.isSuspect = suspect;
  return error;
}

/** Another worker may do what one could not do for a reason of its own. */
function errorKindOf(
  kind: NonNullable<Done["failed"]>["kind"],
  modelSha256: string,
  registry: Registry,
): EngineErrorKind {
  if (kind === "elsewhere") return "interrupted";
  if (kind !== "unusable_model") return kind;
  return registry.list().some((each) => hasModel(each, modelSha256)) ? "interrupted" : kind;
}

/** Returns a chunk as its time is measured: a place of a worker counts as one thread. */
export function timedChunkOf({
  modelSha256,
  job,
  audioMs,
}: Pick<WantedChunk, "modelSha256" | "job" | "audioMs">) {
  return { modelId: modelSha256, windowMs: job.windowMs, audioMs, threads: 1 };
}

/**
 * Returns for how long a worker can have had a chunk at most: since its beats name it, or since a caller wants it. Where
 * this process was started meanwhile, only the time since then counts.
 */
function longestMs({ firstSeenAt, wantedAt }: WantedJob): number {
  const now = performance.now();
  return firstSeenAt === undefined ? now - wantedAt : now - firstSeenAt + BEATS_MS;
}

/**
 * Returns the time that a chunk has taken: what its worker says, and no more than this machine's own clock allows. Time
 * limits and the estimate for all work come from these times. A worker that says too little only counts as quick for the
 * chunks that it has taken.
 */
function credibleMs(elapsedMs: number, wanted: WantedChunk): number {
  return Math.min(elapsedMs, longestMs(wanted), wanted.timeoutMs);
}

/** Reports whether a worker can have stopped a chunk as hung: no time limit is shorter. */
function canBeHung(wanted: WantedJob): boolean {
  return longestMs(wanted) > SHORTEST_TIMEOUT_MS;
}

/** The unit of work is the time of one place. */
function outcomeOf({ segments, effort }: Result, workMs: number): ChunkOutcome {
  return {
    segments: segments.map(({ noSpeechProbability, spokenLanguages, isCut, words, ...segment }) => ({
      ...segment,
      ...(noSpeechProbability === undefined ? {} : { noSpeechProbability }),
      ...(spokenLanguages === undefined ? {} : { spokenLanguages }),
      ...(isCut ? { isCut } : {}),
      ...(words === undefined ? {} : { words }),
    })),
    workMs,
    ...(effort === undefined ? {} : { effort }),
  };
}
