import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../domain/errors.ts";
import { isFinal } from "../domain/transcription.ts";
import { requireOrganization } from "../store/organizations.ts";
import {
  countUnfinishedByState,
  findTranscription,
  listQueueHeads,
  listUnfinished,
  moveTranscription,
  type TranscriptionRow,
} from "../store/transcriptions.ts";
import type { RunContext } from "./context.ts";
import { createSlots } from "./slots.ts";
import { createSpeed } from "./speed.ts";
import { runTranscription } from "./transcribe.ts";
import { createTurns } from "./turns.ts";
import { createWaiters } from "./waiters.ts";

export type SchedulerOptions = Omit<RunContext, "slots" | "speed" | "weightOf" | "workingDir"> & {
  dataDir: string;
  workers: number;
  threadsPerWorker: number | undefined;
  cores: number;
};

/** A synchronous request's right to be worked on at once. */
export type SynchronousPlace = { release(): void };

type Run = { controller: AbortController; done: Promise<void>; row: TranscriptionRow };
export type Scheduler = ReturnType<typeof createScheduler>;

/** Recordings prepared ahead, so that decoding one never leaves a worker without a chunk. */
const PREPARED_AHEAD = 2;
/** Organizations without any running work are let in beyond that, up to so many. */
const MAX_EXTRA_ORGANIZATIONS = 32;

/**
 * Takes up waiting work in fair turns and carries it to its end. All state is in the store: what a stop or crash
 * interrupts is waiting again at the next start.
 */
export function createScheduler(options: SchedulerOptions) {
  const { database, config, log, transcriptions } = options;
  const { store } = database;
  const speed = createSpeed();
  const slots = createSlots({
    workers: options.workers,
    synchronousWorkers: config.engine.synchronous_workers,
    threadsPerWorker: options.threadsPerWorker,
    cores: options.cores,
  });
  const turns = createTurns();
  const runs = new Map<string, Run>();
  const finishedWaiters = createWaiters<TranscriptionRow>();
  const workRoot = join(options.dataDir, "work");
  let placesTaken = 0;
  let isStopping = false;
  let isPumpPlanned = false;

  const context: RunContext = {
    ...options,
    slots,
    speed,
    workingDir: (id) => join(workRoot, id),
    weightOf: (organizationId) => requireOrganization(store, organizationId).weight,
  };

  const stopListening = transcriptions.listen({
    accepted: (row) => {
      // Synchronous work has its place already; it never waits in the queue.
      if (row.entrance === "synchronous") begin(row.id);
      else planPump();
    },
    finished: (row) => {
      runs.get(row.id)?.controller.abort(new Error(`the transcription is ${row.state}`));
      finishedWaiters.tell(row.id, row);
    },
  });

  /** Removes a transcription's decoded audio. */
  function removeWorkingFiles(id: string): void {
    rmSync(join(workRoot, id), { recursive: true, force: true });
  }

  /** Many things may free room within one turn of the event loop; one look at the queue serves them all. */
  function planPump(): void {
    if (isPumpPlanned || isStopping) return;
    isPumpPlanned = true;
    setImmediate(() => {
      isPumpPlanned = false;
      pump();
    });
  }

  function pump(): void {
    while (!isStopping) {
      const id = nextWaiting();
      if (id === undefined) return;
      begin(id);
    }
  }

  /** The transcription whose turn it is, when there is room for one more. */
  function nextWaiting(): string | undefined {
    const asynchronous = [...runs.values()].filter(({ row }) => row.entrance === "asynchronous");
    const busy = new Set(asynchronous.map(({ row }) => row.organizationId));
    const room = options.workers + PREPARED_AHEAD - asynchronous.length;
    if (room <= -MAX_EXTRA_ORGANIZATIONS) return undefined;
    const heads = listQueueHeads(store).filter(({ organizationId }) => room > 0 || !busy.has(organizationId));
    const candidates = heads.map(({ organizationId }) => ({
      organizationId,
      weight: context.weightOf(organizationId),
    }));
    const organizationId = turns.next(candidates);
    return heads.find((head) => head.organizationId === organizationId)?.id;
  }

  function begin(id: string): void {
    const row = findTranscription(store, id);
    if (!row || runs.has(id)) return;
    turns.account(row.organizationId, context.weightOf(row.organizationId), Math.max(1, row.durationMs));
    const controller = new AbortController();
    const done = runTranscription(context, id, controller.signal)
      .catch((error: unknown) => log.error({ transcription_id: id, err: error }, "a run ended unexpectedly"))
      .finally(() => {
        runs.delete(id);
        const ended = findTranscription(store, id);
        // A decoder that was just done when its transcription was cancelled may have left its files.
        if (ended && isFinal(ended.state)) removeWorkingFiles(id);
        planPump();
      });
    runs.set(id, { controller, done, row });
  }

  /** Whatever an earlier run of the program left unfinished waits again; synchronous callers are gone. */
  function recover(): void {
    mkdirSync(workRoot, { recursive: true, mode: 0o700 });
    const unfinished = listUnfinished(store);
    for (const row of unfinished) {
      if (row.entrance === "synchronous") transcriptions.cancelById(row.id);
      else if (row.state !== "queued") moveTranscription(store, row.id, "requeue");
    }
    const needed = new Set(unfinished.map(({ id }) => id));
    for (const name of readdirSync(workRoot)) {
      if (!needed.has(name)) rmSync(join(workRoot, name), { recursive: true, force: true });
    }
    if (unfinished.length > 0)
      log.info({ count: unfinished.length }, "unfinished transcriptions are taken up again");
  }

  /** Another process may have cancelled what runs here, or changed weights. */
  function onOutsideChange(): void {
    for (const [id, { controller }] of runs) {
      const row = findTranscription(store, id);
      if (row && isFinal(row.state)) {
        controller.abort(new Error(`the transcription is ${row.state}`));
        finishedWaiters.tell(id, row);
      }
    }
    planPump();
  }

  function reserveSynchronousPlace(): SynchronousPlace {
    if (isStopping || placesTaken >= config.engine.synchronous_workers) {
      throw new AppError("capacity_unavailable", { retryAfterSeconds: placeFreeInSeconds() });
    }
    placesTaken++;
    let isReleased = false;
    return {
      release() {
        if (isReleased) return;
        isReleased = true;
        placesTaken--;
      },
    };
  }

  /** When the first of the running synchronous requests should be done, by this machine's speed. */
  function placeFreeInSeconds(): number {
    const now = options.clock.now();
    const rest = [...runs.values()]
      .filter(({ row }) => row.entrance === "synchronous")
      .map(({ row }) => speed.estimateMs(row.durationMs, 1) - (now - row.createdAt));
    const soonest = rest.length > 0 ? Math.min(...rest) : 1000;
    const longest = config.limits.synchronous_timeout_seconds;
    return Math.min(longest, Math.max(1, Math.ceil(soonest / 1000)));
  }

  async function stop(): Promise<void> {
    isStopping = true;
    slots.pause();
    const deadline = Date.now() + config.server.drain_seconds * 1000;
    while (slots.status().running > 0 && Date.now() < deadline) await Bun.sleep(20);
    const open = [...runs.values()];
    for (const { controller } of open) controller.abort(new Error("the program is stopping"));
    await Promise.all(open.map(({ done }) => done));
    for (const { row } of open) {
      if (row.entrance === "asynchronous") moveTranscription(store, row.id, "requeue");
    }
    stopListening();
  }

  return {
    /** Takes up what was left unfinished, then whatever waits. */
    start(): void {
      recover();
      planPump();
    },
    /** A place for work that starts as soon as it is accepted; the caller's to release. */
    reserveSynchronousPlace,
    /** The final record of a transcription, now or when it is there. */
    async waitFor(id: string, signal: AbortSignal): Promise<TranscriptionRow> {
      const row = findTranscription(store, id);
      if (row && isFinal(row.state)) return row;
      return finishedWaiters.wait(id, signal);
    },
    onOutsideChange,
    removeWorkingFiles,
    /** Seconds until the queue has moved on by one recording of an organization. */
    estimateQueueRoomSeconds(): number {
      const running = [...runs.values()].map(({ row }) => speed.estimateMs(row.durationMs, options.workers));
      return Math.max(1, Math.ceil(Math.min(...running, 3_600_000) / 1000));
    },
    status: () => {
      const waiting = countUnfinishedByState(store);
      const audioMs = waiting.reduce((sum, state) => sum + state.audioMs, 0);
      return {
        slots: slots.status(),
        running: runs.size,
        synchronousPlacesTaken: placesTaken,
        states: waiting,
        realTimeFactor: speed.realTimeFactor(),
        emptyInMs: audioMs === 0 ? 0 : speed.estimateMs(audioMs, options.workers),
      };
    },
    /** No new work; running chunks finish within the drain time, the rest waits for the next start. */
    stop,
  };
}
