import { createSlots, type SlotsStatus } from "../admission/slots.ts";
import {
  choosePlaces,
  createSynchronousPlaces,
  type SynchronousPlace,
} from "../admission/synchronous-places.ts";
import { createTurns } from "../admission/turns.ts";
import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import { isFinal } from "../domain/transcription.ts";
import type { Capacity } from "../engine/executor.ts";
import { createGroupCommit } from "../store/group-commit.ts";
import { requireOrganization } from "../store/organizations.ts";
import {
  countUnfinishedByState,
  findTranscription,
  type TranscriptionRow,
  type UnfinishedWork,
} from "../store/transcriptions.ts";
import { isSynchronous, type RunContext, type ServerParts } from "./context.ts";
import { estimateQueueSeconds, shareOfSynchronousRequest } from "./estimates.ts";
import { createQueue } from "./queue.ts";
import { createRecovery } from "./recovery.ts";
import { createRuns, type Runs } from "./runs.ts";
import { createTextStreams } from "./text-streams.ts";
import { createThroughput, type Throughput } from "./throughput.ts";
import { createWaiters } from "./waiters.ts";
import { createWorkingFiles } from "./working-files.ts";

export type SchedulerOptions = ServerParts & {
  dataDir: string;
  /** What the engine can do at once with the default model. */
  capacity: Capacity;
  /** Returns the window of the default model, milliseconds. */
  windowMs: () => number;
  /** Returns the size of the default model's weights. */
  weightBytes: () => number;
};

export type SchedulerStatus = {
  slots: SlotsStatus;
  /** Running transcriptions. */
  running: number;
  synchronousPlacesTaken: number;
  /** Unfinished transcriptions by state. */
  states: UnfinishedWork[];
  /** Recording per time when all slots are taken, as a ratio; undefined before the first chunk. */
  realTimeFactor: number | undefined;
  /** Estimated time until all accepted work is done, milliseconds. */
  emptyInMs: number;
};

/**
 * Takes transcriptions from the queue in fair turns and carries them to their ends. All state is in the store, so work
 * that a stop or crash interrupts is continued after the next start.
 */
export type Scheduler = {
  /** Requeues what was left unfinished, then starts queued work. Called once. */
  start(): void;
  /**
   * Stops taking work and lets running chunks finish within `server.drain_seconds`. Then aborts all runs and puts
   * their transcriptions back into the queue.
   */
  stop(): Promise<void>;
  /**
   * Takes a place for a synchronous request before it is accepted. The caller releases it.
   *
   * @param recordingMs length over the channels that are recognized
   * @throws AppError `capacity_unavailable` with the seconds to wait
   */
  reserveSynchronousPlace(recordingMs: number): SynchronousPlace;
  /**
   * Takes such a place once one is free, `waitMs` later at the latest.
   *
   * @throws AppError `capacity_unavailable` after that time; the signal's reason when it is aborted first
   */
  waitForSynchronousPlace(
    recordingMs: number,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<SynchronousPlace>;
  /**
   * Calls a function with the text from the beginning of a recording up to its first chunk that is not recognized yet,
   * each time that it has grown. Its audio is charged from then on, however the work ends.
   *
   * @returns a function that ends the calls
   */
  watchText(id: string, onText: (text: string) => void): () => void;
  /**
   * Waits until a transcription is final and returns its row. Rejects with the signal's reason when it is aborted
   * first.
   */
  waitFor(id: string, signal: AbortSignal): Promise<TranscriptionRow>;
  /** Called when another process has written to the database: it may have cancelled running work or changed weights. */
  onOutsideChange(): void;
  /** Sets what the engine can do at once, such as after a change of the default model. */
  resize(capacity: Capacity): void;
  /** Removes a transcription's decoded audio. */
  removeWorkingFiles(transcriptionId: string): void;
  /** Estimates the whole seconds until one of an organization's waiting transcriptions starts, 1 to 3600. */
  estimateNextStartSeconds(organizationId: string): number;
  status(): SchedulerStatus;
};

export function createScheduler(options: SchedulerOptions): Scheduler {
  const { config, transcriptions } = options;
  const { store } = options.database;
  let { capacity } = options;
  let isStopping = false;
  const wantedPlaces = config.engine.synchronous_workers;
  const slots = createSlots({
    slots: capacity.chunks,
    // Synchronous chunks go before others in all slots, so that one of their own is enough to begin at once.
    synchronousSlots: wantedPlaces === "auto" ? 1 : wantedPlaces,
  });
  const throughput = createThroughput(() => capacity.power, options.weightBytes);
  const places = createSynchronousPlaces({
    clock: options.clock,
    count: () => (wantedPlaces === "auto" ? placesOf(config, capacity, throughput) : wantedPlaces),
    timeoutMs: () => config.limits.synchronous_timeout_seconds * 1000,
    expectedMs: (recordingMs) =>
      throughput.estimateMs(recordingMs) /
      shareOfSynchronousRequest(slots.status(), places.taken(), capacity),
    windowMs: options.windowMs,
  });
  const turns = createTurns();
  const workingFiles = createWorkingFiles(options.dataDir);
  const finished = createWaiters<TranscriptionRow>();
  const commits = createGroupCommit(options.database);
  const textStreams = createTextStreams({ ...options, commits });
  const context: RunContext = {
    ...options,
    slots,
    throughput,
    commits,
    workingDir: workingFiles.pathOf,
    weightOf: (organizationId) => requireOrganization(store, organizationId).weight,
    onChunkEnded: textStreams.chunkEnded,
  };
  const onEnded = () => queue.plan();
  const runs = createRuns({ context, turns, workingFiles, onFinal: onFinished, onEnded });
  const queue = createQueue(context, turns, runs);
  const recovery = createRecovery(context, workingFiles, queue.plan);

  function onFinished(row: TranscriptionRow): void {
    runs.abortEnded(row);
    finished.settle(row.id, row);
  }

  const stopListening = transcriptions.listen({
    // A synchronous request has its place already, and never waits in the queue.
    accepted: (row) => void (isSynchronous(row) ? runs.begin(row.id) : queue.plan()),
    finished: onFinished,
  });

  return {
    start() {
      recovery.start();
    },
    async stop() {
      isStopping = true;
      places.close();
      runs.close();
      queue.stop();
      recovery.stop();
      slots.pause();
      await drained(runs, () => slots.status().running, config.server.drain_seconds * 1000);
      // The stop does not wait for a lock of another program: the next start continues.
      options.database.gate.giveUp();
      for (const row of await runs.abortAll()) requeue(row, options);
      stopListening();
    },
    reserveSynchronousPlace(recordingMs) {
      if (!isStopping) return places.reserve(recordingMs);
      throw new AppError("capacity_unavailable", { retryAfterSeconds: config.server.drain_seconds });
    },
    async waitForSynchronousPlace(recordingMs, waitMs, signal) {
      if (!isStopping) return places.reserveWithin(recordingMs, waitMs, signal);
      throw new AppError("capacity_unavailable", { retryAfterSeconds: config.server.drain_seconds });
    },
    watchText: textStreams.watch,
    async waitFor(id, signal) {
      const row = findTranscription(store, id);
      return row && isFinal(row.state) ? row : finished.wait(id, signal);
    },
    onOutsideChange() {
      // A client may wait for a transcription whose run has ended already, or not begun.
      for (const id of new Set([...runs.rows().map((row) => row.id), ...finished.ids()])) {
        const row = findTranscription(store, id);
        if (row && isFinal(row.state)) onFinished(row);
      }
      queue.plan();
    },
    resize(wanted) {
      capacity = wanted;
      slots.resize(wanted.chunks);
      queue.plan();
    },
    removeWorkingFiles: workingFiles.remove,
    estimateNextStartSeconds: (organizationId) =>
      estimateQueueSeconds(
        runs.rows(),
        organizationId,
        throughput,
        (id) => findTranscription(store, id)?.progressMs ?? 0,
      ),
    status() {
      const states = countUnfinishedByState(store);
      const remainingMs = states.reduce((sum, state) => sum + state.remainingMs, 0);
      return {
        slots: slots.status(),
        running: runs.rows().length,
        synchronousPlacesTaken: places.taken(),
        states,
        realTimeFactor: throughput.realTimeFactor(),
        emptyInMs: remainingMs === 0 ? 0 : throughput.estimateMs(remainingMs),
      };
    },
  };
}

function placesOf({ limits }: Config, { chunks }: Capacity, throughput: Throughput): number {
  const longestMs = throughput.estimateMs(limits.synchronous_max_duration_seconds * 1000);
  return choosePlaces(chunks, longestMs, limits.synchronous_timeout_seconds * 1000);
}

const DRAIN_CHECK_EVERY_MS = 20;

/** Waits, at most `drainMs`, until no chunk runs and no client waits for a running transcription. */
async function drained(runs: Runs, runningChunks: () => number, drainMs: number): Promise<void> {
  const deadline = performance.now() + drainMs;
  const isDraining = () => runningChunks() > 0 || runs.rows().some(isSynchronous);
  while (isDraining() && performance.now() < deadline) await Bun.sleep(DRAIN_CHECK_EVERY_MS);
}

/** Puts an interrupted transcription back into the queue. Synchronous ones are cancelled by their requests. */
function requeue(row: TranscriptionRow, { transcriptions, log }: ServerParts): void {
  if (isSynchronous(row)) return;
  try {
    transcriptions.move(row.id, "requeue");
  } catch (error) {
    log.error(
      { transcription_id: row.id, err: error },
      "an interrupted transcription could not be put back into the queue; the next start does it",
    );
  }
}
