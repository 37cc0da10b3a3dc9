import { statSync } from "node:fs";
import type { DecoderPlaces } from "../../admission/decoder-places.ts";
import { UNFINISHED_STATES, type UnfinishedState } from "../../domain/transcription.ts";
import type { Engine } from "../../engine/engine.ts";
import type { PoolStatus } from "../../engine/workers/pool.ts";
import type { Scheduler } from "../../scheduler/scheduler.ts";
import type { ClockTrust } from "../../services/clock-trust.ts";
import type { Database } from "../../store/database.ts";
import type { Deliverer } from "../../webhooks/deliver.ts";

/** Where the numbers of the running program come from. */
export type NumberSources = {
  scheduler: Pick<Scheduler, "status">;
  engine: Pick<Engine, "status">;
  deliverer: Pick<Deliverer, "metrics">;
  decoders: Pick<DecoderPlaces, "status">;
  database: Pick<Database, "path">;
  trust: Pick<ClockTrust, "verdict">;
  freeBytes: () => number;
  unready: () => string[];
};

/** The queue and the places in which chunks are recognized. */
export type QueueNumbers = {
  /** Transcriptions by state. */
  unfinished: Readonly<Record<UnfinishedState, number>>;
  /** How many of them are worked on. */
  running: number;
  /** Chunks that can be recognized side by side, that are recognized, and that wait. */
  places: number;
  placesBusy: number;
  chunksWaiting: number;
  synchronousPlacesTaken: number;
  /** Length of recordings transcribed per time by the whole machine; null before the first chunk. */
  realTimeFactor: number | null;
  /** Estimate of when all accepted work is done, whole seconds. */
  emptyInSeconds: number;
};

/**
 * The numbers of the running program, for the metrics, the console and `shruti status`. Each is read when its function is
 * called.
 */
export type ProgramNumbers = {
  queue(): QueueNumbers;
  /** Returns the models' processes; `restarts` counts the unexpected ends of all of them since the start. */
  engine(): PoolStatus & { restarts: number };
  decoders(): ReturnType<DecoderPlaces["status"]>;
  webhooks(): ReturnType<Deliverer["metrics"]>;
  clock(): ReturnType<ClockTrust["verdict"]>;
  disk(): { freeBytes: number; databaseBytes: number };
  /** Returns why the program cannot take work; empty: it can. */
  unready(): string[];
  /** Returns what the status file has of them. */
  status(): ReturnType<Scheduler["status"]> & { engine: PoolStatus; unready: string[] };
};

export function createProgramNumbers(sources: NumberSources): ProgramNumbers {
  const { scheduler, engine, deliverer, decoders, database, trust } = sources;
  return {
    queue: () => queueNumbersOf(scheduler.status()),
    engine() {
      const status = engine.status();
      return { ...status, restarts: status.models.reduce((sum, { restarts }) => sum + restarts, 0) };
    },
    decoders: decoders.status,
    webhooks: deliverer.metrics,
    clock: trust.verdict,
    disk: () => ({ freeBytes: sources.freeBytes(), databaseBytes: statSync(database.path).size }),
    unready: sources.unready,
    status: () => ({ ...scheduler.status(), engine: engine.status(), unready: sources.unready() }),
  };
}

/** Makes the numbers of the queue from the scheduler's status, which the status file has as it is. */
export function queueNumbersOf(status: ReturnType<Scheduler["status"]>): QueueNumbers {
  const { states, slots, synchronousPlacesTaken, realTimeFactor, emptyInMs } = status;
  const countOf = (wanted: UnfinishedState) => states.find(({ state }) => state === wanted)?.count ?? 0;
  const unfinished = Object.fromEntries(
    UNFINISHED_STATES.map((state) => [state, countOf(state)]),
  ) as QueueNumbers["unfinished"];
  return {
    unfinished,
    running: unfinished.preparing + unfinished.transcribing + unfinished.finalizing,
    ...{ places: slots.workers, placesBusy: slots.running, chunksWaiting: slots.waiting },
    synchronousPlacesTaken,
    realTimeFactor: realTimeFactor ?? null,
    emptyInSeconds: Math.round(emptyInMs / 1000),
  };
}
