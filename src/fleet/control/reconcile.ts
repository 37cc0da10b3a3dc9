import { EngineError, type EngineErrorKind } from "../../engine/protocol.ts";
import type { Beat } from "../messages.ts";
import type { Dispatch } from "./dispatch.ts";
import { createHearing, createSignsOfLife } from "./hearing.ts";
import { createOrphans } from "./orphans.ts";
import type { LostWorker, Registry } from "./registry.ts";
import type { Results } from "./results.ts";
import type { Suspects } from "./suspects.ts";
import type { TicketSnapshot, Tickets } from "./tickets.ts";
import type { WantedJob, WantedJobs } from "./wanted-jobs.ts";

export type ReconcileDeps = {
  jobs: WantedJobs;
  registry: Registry;
  suspects: Suspects;
  results: Results;
  dispatch: Dispatch;
  tickets: Tickets;
  /** Returns for how long the link to the server has been up, milliseconds; 0: it is down. */
  linkUpForMs: () => number;
  /** Resolves when the server has answered, and everything that it had for this process has arrived. */
  ping: () => Promise<unknown>;
  /** Returns the link's present connection. */
  connection: () => unknown;
  /** A worker that is silent for this long is lost. */
  lostAfterMs: number;
  /** Returns milliseconds, as `performance.now()` does; replaced in tests. */
  clock?: () => number;
  onLost: (worker: LostWorker) => void;
};

/**
 * Compares what is wanted with what the stream and the workers have, each second. Whatever was lost on the way is
 * noticed here, however it was lost.
 */
export type Reconcile = {
  /** Records which jobs a worker has. */
  observe(worker: string, beat: Beat): void;
  /** Interrupts the jobs of workers that are gone. */
  lose(workers: readonly LostWorker[]): void;
  /** Compares once. Never rejects. */
  tick(): Promise<void>;
  counts(): { interrupted: number; lostWorkers: number };
};

/** A worker that beats and does not name its job has dropped it. A worker that does not beat is lost before this. */
const DROPPED_MS = 1_500;
/** A ticket that was published a moment ago may not be in the server's answer yet. */
const SETTLING_MS = 2_000;
/** Workers that are busy with long recordings, or that only say that they prepare some, must not hold others up. */
const UNTAKEN_MS = 60_000;
/** Time after a start in which runs ask again for their jobs that run already. */
const CALLERS_COME_MS = 20_000;
/** How often `tick` is called. */
export const RECONCILE_EVERY_MS = 1_000;

export function createReconcile(deps: ReconcileDeps): Reconcile {
  const { jobs, registry, suspects, results, dispatch, lostAfterMs, clock = () => performance.now() } = deps;
  const counts = { interrupted: 0, lostWorkers: 0 };
  const startedAt = clock();
  const orphans = createOrphans(deps.tickets, CALLERS_COME_MS);
  const isAnswering = createSignsOfLife(deps.ping);
  const hearing = createHearing(startedAt, RECONCILE_EVERY_MS, lostAfterMs + DROPPED_MS);
  let seenConnection: unknown;
  let isBusy = false;
  const ending = new WeakSet<WantedJob>();

  /** Takes a job from its worker. The ticket goes first, because the next try of the job has the same subject. */
  function end(wanted: WantedJob, error: EngineError): void {
    if (ending.has(wanted)) return;
    ending.add(wanted);
    void dispatch.withdraw(wanted).then(() => jobs.reject(wanted, error));
  }

  function interrupt(wanted: WantedJob, why: string, kind: EngineErrorKind = "interrupted"): void {
    if (!ending.has(wanted)) counts.interrupted++;
    end(wanted, new EngineError(kind, why));
  }

  function loseJob(id: string, { name, at, isRemoved }: LostWorker): void {
    const wanted = jobs.get(id);
    if (!wanted || wanted.worker !== name) return;
    const why = `the worker ${name} was lost`;
    if (isRemoved) interrupt(wanted, why);
    else if (wanted.kind === "prepare") interrupt(wanted, why, kindOfLoss(suspects, id, at));
    else if (suspects.blame(id, at))
      end(wanted, new EngineError("crashed", "two machines were lost with this chunk"));
    else interrupt(wanted, why);
  }

  function lose(workers: readonly LostWorker[]): void {
    counts.lostWorkers += workers.length;
    for (const { at, isRemoved } of workers) if (!isRemoved) suspects.lost(at);
    for (const worker of workers) {
      deps.onLost(worker);
      for (const id of worker.jobs) loseJob(id, worker);
    }
  }

  /** Looks at one job, with the stream's present content. */
  function check(wanted: WantedJob, stream: TicketSnapshot, now: number): void {
    const { subject, sequence, publishedAt, lastSeenAt, firstSeenAt } = wanted;
    if (lastSeenAt !== undefined) {
      if (firstSeenAt !== undefined && now - firstSeenAt > wanted.timeoutMs) {
        end(wanted, new EngineError("hung", `no result after ${wanted.timeoutMs} ms`));
      } else if (lastSeenAt < hearing.silentSince(lostAfterMs + DROPPED_MS, now)) {
        interrupt(wanted, "its worker has dropped it");
      }
      return;
    }
    if (wanted.kind === "prepare" && isUntaken(wanted, registry, now)) {
      interrupt(wanted, "no worker has taken the recording", "failed");
      return;
    }
    if (publishedAt === undefined || sequence === undefined || now - publishedAt < SETTLING_MS) return;
    if (!stream.subjects.has(subject)) return void dispatch.send(wanted);
    if (!stream.isDelivered(wanted.queue, wanted.urgency, sequence)) return;
    wanted.deliveredAt ??= now;
    const oldest = hearing.silentSince(lostAfterMs, now);
    if (wanted.deliveredAt < oldest) interrupt(wanted, "it was lost on its way");
  }

  /** Loses the workers that have been silent for too long. */
  function listen(): void {
    const now = clock();
    hearing.tick(now, deps.linkUpForMs(), isAnswering());
    results.sweep(now);
    const oldest = hearing.silentSince(lostAfterMs, now);
    if (oldest > 0) lose(registry.takeLost(oldest));
  }

  async function compare(): Promise<void> {
    if (deps.linkUpForMs() === 0) return;
    const wanted = jobs.list();
    // A server that has started again has no stream. Workers ask for tickets before there is one.
    const connection = deps.connection();
    const isNew = connection !== seenConnection;
    if (wanted.length === 0 && orphans.count() === 0 && !isNew) return;
    const queues = wanted.map(({ queue }) => queue);
    const stream = await deps.tickets.snapshot(new Set([...queues, ...(isNew ? deps.tickets.models() : [])]));
    seenConnection = connection;
    const readAt = clock();
    for (const each of wanted) if (jobs.get(each.id) === each) check(each, stream, readAt);
    const subjects = new Set(jobs.list().map(({ subject }) => subject));
    await orphans.sweep(stream, subjects, readAt);
  }

  return {
    observe(worker, beat) {
      const now = clock();
      const haveCallersCome = now - startedAt > CALLERS_COME_MS;
      const unwanted: string[] = [];
      for (const id of beat.jobs) {
        const wanted = jobs.get(id);
        if (wanted) seeAt(wanted, worker, now);
        else if (dispatch.isWithdrawn(id) || (!results.isKnown(id) && haveCallersCome)) unwanted.push(id);
      }
      // The message of a cancellation may have been lost.
      dispatch.cancel(unwanted);
    },
    lose,
    async tick() {
      listen();
      // The messaging server may need longer for its answers than the time between two ticks.
      if (isBusy) return;
      isBusy = true;
      // When the server is not reachable, the next tick compares again.
      await compare().catch(() => {});
      isBusy = false;
    },
    counts: () => ({ ...counts }),
  };
}

/** Notes that a worker's beat has named a job. */
function seeAt(wanted: WantedJob, worker: string, now: number): void {
  wanted.worker = worker;
  wanted.firstSeenAt ??= now;
  wanted.lastSeenAt = now;
}

/** Says whether a recording may have ended its machine. It is then prepared again alone, and after that by this machine. */
function kindOfLoss(suspects: Suspects, id: string, at: number): EngineErrorKind {
  suspects.blame(id, at);
  const isSuspect = suspects.isSuspect(id);
  suspects.clear(id);
  return isSuspect ? "crashed" : "interrupted";
}

/** Chunks wait for a worker. A recording does not wait for ever: this machine can prepare it. */
function isUntaken(
  { modelSha256, publishedAt, deliveredAt }: WantedJob,
  registry: Registry,
  now: number,
): boolean {
  const waitedMs = publishedAt === undefined || deliveredAt !== undefined ? 0 : now - publishedAt;
  return waitedMs > UNTAKEN_MS || registry.preparingPlaces(modelSha256) === 0;
}
