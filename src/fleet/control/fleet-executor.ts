import { modelHashOf } from "../../domain/model-hash.ts";
import { type ChunkTimes, createChunkTimes } from "../../engine/chunk-times.ts";
import type { ChunkExecutor } from "../../engine/executor.ts";
import { type ChunkJob, type ChunkOutcome, EngineError, type EngineModel } from "../../engine/protocol.ts";
import { onAbort } from "../../lib/abort.ts";
import { jobIdOf } from "../job-id.ts";
import type { Link } from "../link.ts";
import { allFlags, queueOf, SKILLS, type Skill, skillFor } from "../skills.ts";
import type { Subjects } from "../subjects.ts";
import type { JobTokens } from "../tokens.ts";
import { createDispatch, type Dispatch } from "./dispatch.ts";
import { createPreparing, type Preparing } from "./preparing.ts";
import { createReconcile, type Reconcile } from "./reconcile.ts";
import type { LostWorker, Registry } from "./registry.ts";
import { createResults, type Results, timedChunkOf } from "./results.ts";
import { createSuspects } from "./suspects.ts";
import type { Tickets } from "./tickets.ts";
import { createWantedJobs, type WantedChunk, type WantedJobs } from "./wanted-jobs.ts";

export type FleetExecutorOptions = {
  link: Pick<Link, "publish" | "upForMs" | "ping" | "connection">;
  tickets: Tickets;
  registry: Registry;
  subjects: Subjects;
  tokens: JobTokens;
  baseUrl: () => string;
  lostAfterMs: number;
  /** Names the code that prepares recordings (`preparingCodeOf`). */
  preparingCode: string;
  isMember: (worker: string) => boolean;
  /** Called when a recording was not prepared, with the reason. It is tried again. */
  onNotPrepared: (reason: string) => void;
  /** Called with the model's id for each chunk that needs a skill which no worker has. It waits. */
  onUnskilled: (model: string, skill: Skill) => void;
  onLost: (worker: LostWorker) => void;
  onRefused: (worker: string, reason: string) => void;
  /** Measured times of chunks; replaced in tests. */
  times?: ChunkTimes;
};

/** Runs chunks on the workers of a fleet. */
export type FleetExecutor = ChunkExecutor & {
  jobs: Pick<WantedJobs, "get" | "list" | "count">;
  preparing: Preparing;
  results: Pick<Results, "take" | "counts">;
  reconcile: Reconcile;
  dispatch: Pick<Dispatch, "counts">;
  /** The models that work was asked for with, by the SHA-256 by which machines find them. */
  used: ReadonlyMap<string, EngineModel>;
  /** Reports whether a worker of the fleet can recognize with a model. */
  hasWorkerFor(model: EngineModel): boolean;
  /** Reports for which skills there are chunks, or were lately. */
  wantedSkills(): Record<Skill, boolean>;
  /** Returns a skill for which chunks wait because all workers with a model are too old for it. */
  waitsFor(modelSha256: string): Skill | undefined;
  /** Refuses new chunks. Running chunks reject with `interrupted`, and workers keep their results. */
  close(): void;
};

/**
 * The control plane's limit is for workers that beat and do not finish. A worker itself stops a chunk that hangs, and
 * fleets mix fast and slow machines.
 */
const PATIENCE = 2;
/** How long workers look for chunks that need a skill after the last one was asked for. */
const SKILL_KEPT_MS = 60_000;

export function createFleetExecutor(options: FleetExecutorOptions): FleetExecutor {
  const { link, tickets, registry, subjects, tokens, times = createChunkTimes() } = options;
  let isClosed = false;
  const used = new Map<string, EngineModel>();
  const lastWantedAt = new Map<Skill, number>();
  const jobs = createWantedJobs((wanted) => void dispatch.withdraw(wanted));
  const dispatch = createDispatch({
    ...{ link, tickets, subjects, tokens, jobs, baseUrl: options.baseUrl, protocol: registry.protocol },
  });
  const suspects = createSuspects();
  const { isMember, onRefused, onLost, lostAfterMs } = options;
  const results = createResults({
    jobs,
    registry,
    suspects,
    tokens,
    times,
    isMember,
    withdraw: dispatch.withdraw,
    onRefused,
  });
  const reconcile = createReconcile({
    ...{ jobs, registry, suspects, results, dispatch, tickets, lostAfterMs, onLost },
    linkUpForMs: link.upForMs,
    ping: link.ping,
    connection: link.connection,
  });
  const preparing = createPreparing({
    ...{ jobs, registry, dispatch, subjects, code: options.preparingCode },
    isClosed: () => isClosed,
    onFailed: options.onNotPrepared,
  });

  /** Reports whether there are workers with a model, and none of them has a skill. */
  const lacks = (hash: string, skill: Skill) =>
    registry.places(hash) > 0 && registry.skilledPlaces(hash, skill) === 0;
  const wantedWith = (skill: Skill) =>
    jobs.list().filter((wanted) => wanted.kind === "chunk" && skillFor(wanted.job.settings) === skill);

  async function recognize(job: ChunkJob, signal: AbortSignal) {
    if (isClosed) throw new EngineError("interrupted", "the engine is closing");
    if (signal.aborted) throw new EngineError("aborted", "aborted");
    const modelSha256 = requireHash(job.model);
    used.set(modelSha256, job.model);
    const id = jobIdOf(job, modelSha256);
    if (suspects.isGuilty(id)) throw new EngineError("crashed", "two machines were lost with this chunk");
    const audioMs = job.audio.totalSamples / 16;
    const timeoutMs = PATIENCE * times.timeoutMs(timedChunkOf({ modelSha256, job, audioMs }));
    const early = results.takeEarly(id, { audioMs, windowMs: job.windowMs, timeoutMs });
    if (early) return early;
    const urgency = job.isUrgent ? "s" : "a";
    const skill = skillFor(job.settings);
    const queue = queueOf(modelSha256, skill);
    if (skill) {
      lastWantedAt.set(skill, performance.now());
      if (lacks(modelSha256, skill)) options.onUnskilled(job.model.id, skill);
    }
    const asked = {
      ...({ kind: "chunk", id, job, modelSha256, queue, urgency } as const),
      subject: subjects.job(queue, urgency, id),
      audioMs,
      isAlone: job.isAlone || suspects.isSuspect(id),
      timeoutMs,
    };
    const { wanted, isNew, outcome } = jobs.want<WantedChunk>(asked, signal);
    const worker = registry.list().find(({ beat }) => beat.jobs.includes(id));
    // After a restart a worker may have this very job already. Its result is taken. A withdrawn job is about to end there.
    if (isNew && worker && !dispatch.isWithdrawn(id)) reconcile.observe(worker.name, worker.beat);
    else if (isNew) void dispatch.send(wanted);
    return storedOrStopped(await outcome, signal);
  }

  return {
    capacity(model) {
      const hash = modelHashOf(model);
      const chunks = Math.max(1, registry.places(hash));
      return { chunks, power: chunks, isElastic: false };
    },
    recognize,
    async warm(model) {
      const hash = requireHash(model);
      used.set(hash, model);
      // Without the stream workers cannot ask for tickets.
      await tickets.ensure(hash).catch(() => {});
      if (registry.places(hash) === 0) {
        throw new EngineError("interrupted", `no worker of the fleet has the model ${model.id}`);
      }
    },
    jobs,
    preparing,
    results,
    reconcile,
    dispatch,
    used,
    wantedSkills: () =>
      allFlags((skill) => {
        const lastAt = lastWantedAt.get(skill) ?? Number.NEGATIVE_INFINITY;
        return performance.now() - lastAt < SKILL_KEPT_MS || wantedWith(skill).length > 0;
      }),
    waitsFor: (hash) =>
      SKILLS.find(
        (skill) => lacks(hash, skill) && wantedWith(skill).some(({ modelSha256 }) => modelSha256 === hash),
      ),
    hasWorkerFor: (model) => registry.places(requireHash(model)) > 0,
    close() {
      isClosed = true;
      for (const wanted of jobs.list()) {
        jobs.reject(wanted, new EngineError("interrupted", "the engine is closing"));
      }
    },
  };
}

/**
 * Lets the worker forget a result also when its caller is stopped, such as by a cancellation: the caller stores nothing
 * then, and the worker would keep the result and repeat it.
 */
function storedOrStopped({ onStored, ...outcome }: ChunkOutcome, signal: AbortSignal): ChunkOutcome {
  if (!onStored) return outcome;
  const stop = onAbort(signal, onStored);
  const end = () => {
    stop();
    onStored();
  };
  return { ...outcome, onStored: end };
}

/** @throws EngineError `failed` for a model that cannot be found on other machines */
function requireHash(model: EngineModel): string {
  const hash = modelHashOf(model);
  if (hash === undefined) throw new EngineError("failed", `the model ${model.id} has no SHA-256`);
  return hash;
}
