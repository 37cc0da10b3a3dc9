import { EngineError, type EngineErrorKind } from "../../engine/protocol.ts";
import type { Beat } from "../messages.ts";
import type { Dispatch } from "./dispatch.ts";
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
  /** Returns the link's present connection. */
  connection: () => unknown;
  /** A worker that is silent for this long is lost. */
  lostAfterMs: number;
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
/** After a start, the callers of jobs that run already come within this time. */
const CALLERS_COME_MS = 20_000;
/** Ticks come each second. When one is this late, this process was stopped, and beats could not be received. */
const LATE_MS = 2_500;

export function createReconcile(deps: ReconcileDeps): Reconcile {
  const { jobs, registry, suspects, results, dispatch, lostAfterMs } = deps;
  const counts = { interrupted: 0, lostWorkers: 0 };
  const startedAt = performance.now();
  const orphans = createOrphans(deps.tickets, CALLERS_COME_MS);
  const hearing = createHearing(startedAt);
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

  function loseJob(id: string, { name: worker, at }: LostWorker): void {
    const wanted = jobs.get(id);
    if (!wanted || wanted.worker !== worker) return;
    if (wanted.kind === "prepare")
      interrupt(wanted, `the worker ${worker} was lost`, kindOfLoss(suspects, id, at));
    else if (suspects.blame(id, at))
      end(wanted, new EngineError("crashed", "two machines were lost with this chunk"));
    else interrupt(wanted, `the worker ${worker} was lost`);
  }

  function lose(workers: readonly LostWorker[]): void {
    counts.lostWorkers += workers.length;
    for (const { at } of workers) if (at !== undefined) suspects.lost(at);
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
      } else if (now - Math.max(lastSeenAt, hearing.since()) > lostAfterMs + DROPPED_MS) {
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
    if (!stream.isDelivered(wanted.modelSha256, wanted.urgency, sequence)) return;
    wanted.deliveredAt ??= now;
    if (now - Math.max(wanted.deliveredAt, hearing.since()) > lostAfterMs)
      interrupt(wanted, "it was lost on its way");
  }

  async function compare(): Promise<void> {
    const now = performance.now();
    hearing.tick(now, deps.linkUpForMs());
    results.sweep(now);
    if (deps.linkUpForMs() === 0) return;
    const oldest = now - lostAfterMs;
    if (hearing.since() < oldest) lose(registry.takeLost(oldest));
    const wanted = jobs.list();
    // A server that has started again has no stream. Workers ask for tickets before there is one.
    const connection = deps.connection();
    const isNew = connection !== seenConnection;
    if (wanted.length === 0 && orphans.count() === 0 && !isNew) return;
    const models = wanted.map(({ modelSha256 }) => modelSha256);
    const stream = await deps.tickets.snapshot(new Set([...models, ...(isNew ? deps.tickets.models() : [])]));
    seenConnection = connection;
    const readAt = performance.now();
    for (const each of wanted) if (jobs.get(each.id) === each) check(each, stream, readAt);
    const subjects = new Set(jobs.list().map(({ subject }) => subject));
    await orphans.sweep(stream, subjects, readAt);
  }

  return {
    observe(worker, beat) {
      const now = performance.now();
      const unwanted: string[] = [];
      for (const id of beat.jobs) {
        const wanted = jobs.get(id);
        if (wanted) {
          wanted.worker = worker;
          wanted.firstSeenAt ??= now;
          wanted.lastSeenAt = now;
        } else if (dispatch.isWithdrawn(id) || (!results.isKnown(id) && now - startedAt > CALLERS_COME_MS)) {
          unwanted.push(id);
        }
      }
      // The message of a cancellation may have been lost.
      dispatch.cancel(unwanted);
    },
    lose,
    async tick() {
      if (isBusy) return;
      isBusy = true;
      try {
        await compare();
      } catch {
        // The server was not reachable: the next tick compares again.
      } finally {
        isBusy = false;
      }
    },
    counts: () => ({ ...counts }),
  };
}

/** Says whether a recording may have ended its machine. It is then prepared again alone, and after that by this machine. */
function kindOfLoss(suspects: Suspects, id: string, at: number | undefined): EngineErrorKind {
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

/** Knows since when workers could be heard without a break. Silence counts from then on. */
function createHearing(startedAt: number) {
  let lastTickAt = startedAt;
  let since = startedAt;
  return {
    since: () => since,
    /** Notices when this process or its link has stopped for a while: no worker was heard meanwhile. */
    tick(now: number, linkUpForMs: number): void {
      if (now - lastTickAt > LATE_MS) since = now;
      since = Math.max(since, now - linkUpForMs);
      lastTickAt = now;
    },
  };
}
