import type { Link } from "../link.ts";
import type { FleetExecutor } from "./fleet-executor.ts";
import type { Listener } from "./listener.ts";
import type { Members } from "./members.ts";
import type { PreparingCounts } from "./preparing.ts";
import type { Registry } from "./registry.ts";

export type WorkerStatus = {
  name: string;
  state: "working" | "draining" | "paused" | "absent";
  version?: string;
  device?: string;
  places: number;
  synchronous_places: number;
  /** Chunks and untaken results. */
  chunks: number;
  /** Recordings that the worker prepares at once; 0 where it does not, or has another version than the control plane. */
  preparing_places: number;
  preparing: number;
  /** Ids under which the worker knows its models. */
  models: string[];
  seconds_since_beat?: number;
  speed?: number;
  refused_messages: number;
  /** Models of the control plane that the worker tries to fetch, and how far it is. */
  lacking_models?: { id: string; reason: string }[];
  problem?: string;
};

/** A fleet as `shruti status` shows it. */
export type FleetStatus = {
  server: { connected: boolean; address?: string; version?: string; problem?: string };
  workers: WorkerStatus[];
  /** Chunks that callers wait for. */
  chunks: number;
  /** Recordings that wait for a worker that prepares them, or are being prepared by one. */
  preparing: number;
  /** Recordings by how their preparing on workers has ended. `here`: the control plane has done it after all. */
  preparations: PreparingCounts;
  tickets: { published: number; repeated: number; adopted: number };
  results: { taken: number; prepared: number; early: number; adopted: number; refused: number };
  interrupted_chunks: number;
  lost_workers: number;
  /** Answers to workers that fetched audio, by HTTP status. */
  audio_answers: Record<string, number>;
};

/** What a status is made of. */
type StatusSources = {
  executor: FleetExecutor;
  registry: Registry;
  members: Members;
  link: Pick<Link, "status">;
  listener: Pick<Listener, "answers">;
};

export function statusOf({ executor, registry, members, link, listener }: StatusSources): FleetStatus {
  const { isUp, server, version, problem } = link.status();
  const { interrupted, lostWorkers } = executor.reconcile.counts();
  const preparing = executor.jobs.list().filter(({ kind }) => kind === "prepare").length;
  return {
    server: {
      connected: isUp,
      ...(server === undefined ? {} : { address: server }),
      ...(version === undefined ? {} : { version }),
      ...(problem === undefined ? {} : { problem }),
    },
    workers: workersOf(members, registry, executor.preparing.code),
    chunks: executor.jobs.count() - preparing,
    preparing,
    preparations: executor.preparing.counts(),
    tickets: executor.dispatch.counts(),
    results: executor.results.counts(),
    interrupted_chunks: interrupted,
    lost_workers: lostWorkers,
    audio_answers: Object.fromEntries(
      [...listener.answers()].map(([status, count]) => [String(status), count]),
    ),
  };
}

function workersOf(members: Members, registry: Registry, code: string): WorkerStatus[] {
  const present = new Map(registry.list().map((worker) => [worker.name, worker]));
  const now = performance.now();
  return members.list().map(({ name }) => {
    const worker = present.get(name);
    if (!worker) {
      return {
        name,
        state: "absent",
        places: 0,
        synchronous_places: 0,
        chunks: 0,
        preparing_places: 0,
        preparing: 0,
        models: [],
        refused_messages: 0,
      };
    }
    const { beat, lastBeatAt, refused } = worker;
    const { sha256, places = 0, jobs: preparing = 0 } = beat.preparing ?? {};
    return {
      name,
      state: beat.draining ? "draining" : beat.problem === undefined ? "working" : "paused",
      version: beat.version,
      device: beat.device,
      places: beat.places,
      synchronous_places: beat.synchronous_places,
      chunks: Math.max(0, beat.jobs.length - preparing),
      preparing_places: sha256 === code ? places : 0,
      preparing,
      models: beat.models.filter(({ usable }) => usable).map(({ id }) => id),
      seconds_since_beat: Math.round((now - lastBeatAt) / 100) / 10,
      ...(beat.speed === undefined ? {} : { speed: Math.round(beat.speed * 10) / 10 }),
      refused_messages: refused,
      ...(beat.lacking === undefined ? {} : { lacking_models: beat.lacking }),
      ...(beat.problem === undefined ? {} : { problem: beat.problem }),
    };
  });
}
