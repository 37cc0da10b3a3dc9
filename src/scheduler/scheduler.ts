import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { AppError } from "../domain/errors.ts";
import { isFinal } from "../domain/transcription.ts";
import type { Capacity } from "../engine/executor.ts";
import { pathOfId } from "../lib/ids.ts";
import { billedChannels } from "../services/settlement.ts";
import { STOPPED } from "../services/transcription-endings.ts";
import { requireOrganization } from "../store/organizations.ts";
import { isOutOfRoom } from "../store/out-of-room.ts";
import {
  countUnfinishedByState,
  findTranscription,
  listQueueHeads,
  listUnfinished,
  moveTranscription,
  type TranscriptionRow,
} from "../store/transcriptions.ts";
import type { RunContext } from "./context.ts";
import { createPlaces, type SynchronousPlace } from "./places.ts";
import { createSlots } from "./slots.ts";
import { createThroughput } from "./throughput.ts";
import { runTranscription } from "./transcribe.ts";
import { createTurns } from "./turns.ts";
import { createWaiters } from "./waiters.ts";

export type SchedulerOptions = Omit<RunContext, "slots" | "throughput" | "weightOf" | "workingDir"> & {
  dataDir: string;
  /** What the engine can do at once with the default model. */
  capacity: Capacity;
  /** Window of the default model. */
  windowMs: () => number;
};

type Run = { controller: AbortController; done: Promise<void>; row: TranscriptionRow };
export type Scheduler = ReturnType<typeof createScheduler>;

/** Recordings prepared ahead, so that decoding one never leaves a worker without a chunk. */
const PREPARED_AHEAD = 2;
/** Organizations without any running work are let in beyond that, up to so many. */
const MAX_EXTRA_ORGANIZATIONS = 32;
/** After so long a store that could not be read or written is asked again. */
const STORE_PAUSE_MS = 1_000;
/** Runs of one transcription that may end for a reason nobody foresaw. */
const MAX_UNEXPECTED_ENDS = 5;
/** What a client is told to wait for room in the queue at most. */
const LONGEST_RETRY_AFTER_SECONDS = 3_600;
const DRAIN_LOOK_EVERY_MS = 20;

/**
 * Takes up waiting work in fair turns and carries it to its end. All state is in the store: what a stop or crash
 * interrupts is waiting again at the next start.
 */
export function createScheduler(options: SchedulerOptions) {
  const { database, config, log, transcriptions } = options;
  const { store } = database;
  const slots = createSlots({
    workers: options.capacity.chunks,
    synchronousWorkers: config.engine.synchronous_workers,
  });
  let { capacity } = options;
  const throughput = createThroughput(() => capacity.power);
  const places = createPlaces({
    clock: options.clock,
    count: config.engine.synchronous_workers,
    timeoutMs: config.limits.synchronous_timeout_seconds * 1000,
    expectedMs: (recordingMs) => throughput.estimateMs(recordingMs) / shareOfPlace(),
    windowMs: options.windowMs,
  });
  const turns = createTurns();
  const runs = new Map<string, Run>();
  const unexpectedEnds = new Map<string, number>();
  const finishedWaiters = createWaiters<TranscriptionRow>();
  const workRoot = join(options.dataDir, "work");
  let isStopping = false;
  let isPumpPlanned = false;
  let pumpAgain: Timer | undefined;
  let takeUpAgain: Timer | undefined;

  const context: RunContext = {
    ...options,
    slots,
    workingDir: (id) => pathOfId(workRoot, "transcription", id),
    throughput,
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
    rmSync(pathOfId(workRoot, "transcription", id), { recursive: true, force: true });
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
    try {
      while (!isStopping) {
        const id = nextWaiting();
        if (id === undefined || !begin(id)) return;
      }
    } catch (error) {
      log.error({ err: error }, "the queue could not be read, and is looked at again");
      clearTimeout(pumpAgain);
      pumpAgain = setTimeout(planPump, STORE_PAUSE_MS);
    }
  }

  /** The transcription whose turn it is, when there is room for one more. */
  function nextWaiting(): string | undefined {
    const asynchronous = [...runs.values()].filter(({ row }) => row.entrance === "asynchronous");
    const busy = new Set(asynchronous.map(({ row }) => row.organizationId));
    const room = slots.status().workers + PREPARED_AHEAD - asynchronous.length;
    if (room <= -MAX_EXTRA_ORGANIZATIONS) return undefined;
    const heads = listQueueHeads(store).filter(
      // A run that has just handed its transcription back is not over yet.
      ({ organizationId, id }) => (room > 0 || !busy.has(organizationId)) && !runs.has(id),
    );
    const candidates = heads.map(({ organizationId }) => ({
      organizationId,
      weight: context.weightOf(organizationId),
    }));
    const organizationId = turns.next(candidates);
    return heads.find((head) => head.organizationId === organizationId)?.id;
  }

  /** False when it was not begun: it is running, gone, or must wait for the next start of the program. */
  function begin(id: string): boolean {
    const row = findTranscription(store, id);
    if (!row || runs.has(id) || isStopping) return false;
    turns.account(row.organizationId, context.weightOf(row.organizationId), Math.max(1, row.durationMs));
    const controller = new AbortController();
    const run: Run = { controller, row, done: Promise.resolve() };
    runs.set(id, run);
    run.done = carry(row, controller.signal).finally(() => {
      runs.delete(id);
      planPump();
    });
    return true;
  }

  /** One run of a transcription, and what is to be done when it does not come to an end. Never rejects. */
  async function carry(row: TranscriptionRow, signal: AbortSignal): Promise<void> {
    const { id } = row;
    try {
      await runTranscription(context, id, signal);
      unexpectedEnds.delete(id);
    } catch (error) {
      log.error({ transcription_id: id, err: error }, "a run ended unexpectedly");
      await handBack(row, error, signal);
    }
    try {
      const ended = findTranscription(store, id);
      // A decoder that was just done when its transcription was cancelled may have left its files.
      if (ended && isFinal(ended.state)) removeWorkingFiles(id);
    } catch (error) {
      log.error({ transcription_id: id, err: error }, "working files could not be removed");
    }
  }

  /**
   * After a failure of the store or of this program the work waits again, for a bounded number of times; after one of
   * a full disk as often as it takes.
   */
  async function handBack(
    { id, entrance }: TranscriptionRow,
    cause: unknown,
    signal: AbortSignal,
  ): Promise<void> {
    const ends = (unexpectedEnds.get(id) ?? 0) + (isOutOfRoom(cause) ? 0 : 1);
    unexpectedEnds.set(id, ends);
    while (!signal.aborted) {
      await pause(STORE_PAUSE_MS, undefined, { signal }).catch(() => {});
      try {
        if (entrance === "asynchronous" && ends < MAX_UNEXPECTED_ENDS) {
          moveTranscription(store, id, "requeue");
          return;
        }
        unexpectedEnds.delete(id);
        const message = "The transcription failed.";
        transcriptions.finish(id, { kind: "failed", code: "transcription_failed", message });
        return;
      } catch (error) {
        log.error({ transcription_id: id, err: error }, "a transcription could not be handed back");
      }
    }
  }

  /** Whatever an earlier run of the program left unfinished waits again; synchronous callers are gone. */
  function recover(): void {
    mkdirSync(workRoot, { recursive: true, mode: 0o700 });
    const unfinished = listUnfinished(store);
    const needed = new Set(unfinished.map(({ id }) => id));
    for (const name of readdirSync(workRoot)) {
      if (!needed.has(name)) rmSync(join(workRoot, name), { recursive: true, force: true });
    }
    if (unfinished.length === 0) return;
    log.info({ count: unfinished.length }, "unfinished transcriptions are taken up again");
    takeUp(unfinished);
  }

  /** Goes on later where the store cannot be written, as on a full disk. */
  function takeUp(leftOver: TranscriptionRow[]): void {
    try {
      for (let row = leftOver[0]; row; row = leftOver[0]) {
        if (row.entrance === "synchronous") transcriptions.cancelById(row.id, STOPPED);
        else if (row.state !== "queued") moveTranscription(store, row.id, "requeue");
        leftOver.shift();
      }
      planPump();
    } catch (error) {
      log.error({ err: error }, "unfinished transcriptions could not be taken up, and are tried again");
      takeUpAgain = setTimeout(takeUp, STORE_PAUSE_MS, leftOver);
    }
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

  /** The part of the machine that one synchronous request has at the moment: all chunks that run share it. */
  function shareOfPlace(): number {
    const { running, runningSynchronous, workers } = slots.status();
    const own = Math.max(1, runningSynchronous / Math.max(1, places.taken()));
    // Where nothing is shared out, a chunk that runs alone uses no more of the machine.
    const least = capacity.isElastic ? 1 : workers;
    return own / Math.max(least, running, own);
  }

  function reserveSynchronousPlace(recordingMs: number): SynchronousPlace {
    if (!isStopping) return places.reserve(recordingMs);
    throw new AppError("capacity_unavailable", { retryAfterSeconds: config.server.drain_seconds });
  }

  /** Recording that a running transcription has still in front of it, milliseconds over its channels. */
  function restMs(row: TranscriptionRow): number {
    const progressMs = findTranscription(store, row.id)?.progressMs ?? 0;
    return Math.max(0, row.durationMs * billedChannels(row) - progressMs);
  }

  /** Seconds until one of an organization's waiting transcriptions is taken up, by this machine's speed. */
  function estimateQueueRoomSeconds(organizationId: string): number {
    const running = [...runs.values()].map(({ row }) => row);
    const own = running.filter((row) => row.organizationId === organizationId);
    const rests = (own.length > 0 ? own : running).map(restMs);
    if (rests.length === 0) return 1;
    // All that runs shares the machine.
    const sharers = new Set(running.map((row) => row.organizationId)).size;
    const seconds = throughput.estimateMs(Math.min(...rests) * sharers) / 1000;
    return Math.min(LONGEST_RETRY_AFTER_SECONDS, Math.max(1, Math.ceil(seconds)));
  }

  /** Chunks in the engine, and those for whom somebody waits with an open connection. */
  function isDraining(): boolean {
    const hasSynchronous = [...runs.values()].some(({ row }) => row.entrance === "synchronous");
    return hasSynchronous || slots.status().running > 0;
  }

  async function stop(): Promise<void> {
    isStopping = true;
    clearTimeout(pumpAgain);
    clearTimeout(takeUpAgain);
    slots.pause();
    const deadline = performance.now() + config.server.drain_seconds * 1000;
    while (isDraining() && performance.now() < deadline) await Bun.sleep(DRAIN_LOOK_EVERY_MS);
    const open = [...runs.values()];
    for (const { controller } of open) controller.abort(new Error("the program is stopping"));
    await Promise.all(open.map(({ done }) => done));
    for (const { row } of open) {
      if (row.entrance !== "asynchronous") continue;
      try {
        moveTranscription(store, row.id, "requeue");
      } catch (error) {
        log.error({ transcription_id: row.id, err: error }, "it waits again only after the next start");
      }
    }
    stopListening();
  }

  return {
    /** Takes up what was left unfinished, then whatever waits. */
    start(): void {
      recover();
      planPump();
    },
    /** A place for work that starts as soon as it is accepted, by its length over channels; the caller's to release. */
    reserveSynchronousPlace,
    /** The final record of a transcription, now or when it is there. */
    async waitFor(id: string, signal: AbortSignal): Promise<TranscriptionRow> {
      const row = findTranscription(store, id);
      if (row && isFinal(row.state)) return row;
      return finishedWaiters.wait(id, signal);
    },
    onOutsideChange,
    /** Another number of chunks runs side by side from now on, such as for a larger model. */
    resize(wanted: Capacity): void {
      capacity = wanted;
      slots.resize(wanted.chunks);
      planPump();
    },
    removeWorkingFiles,
    estimateQueueRoomSeconds,
    status: () => {
      const waiting = countUnfinishedByState(store);
      const remainingMs = waiting.reduce((sum, state) => sum + state.remainingMs, 0);
      return {
        slots: slots.status(),
        running: runs.size,
        synchronousPlacesTaken: places.taken(),
        states: waiting,
        realTimeFactor: throughput.realTimeFactor(),
        emptyInMs: remainingMs === 0 ? 0 : throughput.estimateMs(remainingMs),
      };
    },
    /** No new work; running chunks finish within the drain time, the rest waits for the next start. */
    stop,
  };
}
