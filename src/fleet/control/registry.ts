import { type Beat, PROTOCOL } from "../messages.ts";
import type { Skill } from "../skills.ts";

/** A worker, as its last beat describes it. */
export type FleetWorker = {
  name: string;
  beat: Beat;
  /** Times on the clock of `performance.now()`. */
  firstBeatAt: number;
  lastBeatAt: number;
  /** Messages of this worker that were refused. */
  refused: number;
  /** Models that the worker could not load, by SHA-256. */
  unusable: Set<string>;
};

/** A worker that is gone, and the jobs that it had. */
export type LostWorker = {
  name: string;
  jobs: readonly string[];
  /** Time of the last beat. */
  at: number;
  /** An admin has removed the worker: none of its jobs is the cause. */
  isRemoved?: boolean;
};

/** The workers that beat. A worker that is silent for too long is lost. */
export type Registry = {
  /** Records a beat. Returns the earlier life of a worker that has started again. */
  beat(name: string, beat: Beat, now: number): LostWorker | undefined;
  /** Removes and returns the workers whose last beat is older than a time. */
  takeLost(oldestBeatAt: number): LostWorker[];
  /** Removes a worker, such as one whose credentials were withdrawn. */
  remove(name: string): LostWorker | undefined;
  countRefused(name: string): void;
  markUnusable(name: string, modelSha256: string): void;
  list(): FleetWorker[];
  /** Returns the version of messages that all workers understand: that of the oldest one. */
  protocol(): number;
  /** Returns the places of workers that take new work of a model; without a model: of any. */
  places(modelSha256?: string): number;
  /** Returns the places of those among them that have a skill. */
  skilledPlaces(modelSha256: string, skill: Skill): number;
  /** Returns how many recordings workers with this code prepare at once. */
  preparingPlaces(code: string): number;
};

export function createRegistry(): Registry {
  const workers = new Map<string, FleetWorker>();

  function remove(name: string): LostWorker | undefined {
    const worker = workers.get(name);
    if (!worker) return undefined;
    workers.delete(name);
    return { name, jobs: worker.beat.jobs, at: worker.lastBeatAt };
  }

  return {
    beat(name, beat, now) {
      const known = workers.get(name);
      const isSame = known?.beat.instance === beat.instance;
      workers.set(name, {
        name,
        beat,
        firstBeatAt: isSame && known ? known.firstBeatAt : now,
        lastBeatAt: now,
        refused: known?.refused ?? 0,
        unusable: isSame && known ? known.unusable : new Set(),
      });
      return known && !isSame ? { name, jobs: known.beat.jobs, at: known.lastBeatAt } : undefined;
    },
    takeLost(oldestBeatAt) {
      const silent = [...workers.values()].filter(({ lastBeatAt }) => lastBeatAt < oldestBeatAt);
      return silent.flatMap(({ name }) => remove(name) ?? []);
    },
    remove(name) {
      const lost = remove(name);
      return lost && { ...lost, isRemoved: true };
    },
    countRefused(name) {
      const worker = workers.get(name);
      if (worker) worker.refused++;
    },
    markUnusable(name, sha256) {
      workers.get(name)?.unusable.add(sha256);
    },
    list: () => [...workers.values()].sort((a, b) => (a.name < b.name ? -1 : 1)),
    protocol: () => Math.min(PROTOCOL, ...[...workers.values()].map(({ beat }) => beat.v)),
    places(sha256) {
      let places = 0;
      for (const worker of workers.values()) {
        if (takesWork(worker)) places += placesOf(worker, sha256);
      }
      return places;
    },
    skilledPlaces(sha256, skill) {
      let places = 0;
      for (const worker of workers.values()) {
        if (takesWork(worker) && worker.beat[skill] !== undefined) places += placesOf(worker, sha256);
      }
      return places;
    },
    preparingPlaces(code) {
      let places = 0;
      for (const worker of workers.values()) {
        const { preparing } = worker.beat;
        if (takesWork(worker) && preparing?.sha256 === code) places += preparing.places;
      }
      return places;
    },
  };
}

function takesWork({ beat }: FleetWorker): boolean {
  return !beat.draining && beat.problem === undefined;
}

/** Returns how many chunks of a model a worker takes at once; without a model: of any. */
function placesOf(worker: FleetWorker, sha256: string | undefined): number {
  const { places, models } = worker.beat;
  if (sha256 === undefined) return places;
  if (!hasModel(worker, sha256)) return 0;
  return Math.min(places, models.find((model) => model.sha256 === sha256)?.places ?? places);
}

/** Reports whether a worker can recognize with a model. */
export function hasModel({ beat, unusable }: FleetWorker, sha256: string): boolean {
  return !unusable.has(sha256) && beat.models.some((model) => model.sha256 === sha256 && model.usable);
}
