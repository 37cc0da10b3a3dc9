import { randomBytes } from "node:crypto";
import { mkdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Elsewhere, ElsewhereJob, PreparedAudio } from "../../engine/engine.ts";
import { EngineError } from "../../engine/protocol.ts";
import { MAX_SAMPLES, MAX_TRACKS } from "../messages.ts";
import type { Subjects } from "../subjects.ts";
import type { Dispatch } from "./dispatch.ts";
import type { Registry } from "./registry.ts";
import type { WantedJobs, WantedPreparation } from "./wanted-jobs.ts";

export type PreparingDeps = {
  jobs: WantedJobs;
  registry: Registry;
  dispatch: Pick<Dispatch, "send">;
  subjects: Subjects;
  /** Names the code that prepares recordings (job-id.ts). */
  code: string;
  isClosed: () => boolean;
  onFailed: (reason: string) => void;
};

/** Recordings by how their preparing on workers has ended. `here`: this machine does it after all. */
export type PreparingCounts = { prepared: number; failed: number; here: number };

/** Lets workers decode recordings and find speech. */
export type Preparing = Elsewhere & { code: string; counts(): PreparingCounts };

/** Tries on workers. Then this machine does the work: whether a recording can be transcribed is not a worker's word. */
const MAX_TRIES = 2;
const TIMEOUT_FLOOR_MS = 5 * 60_000;

export function createPreparing(deps: PreparingDeps): Preparing {
  const { jobs, registry, subjects, code } = deps;
  const counts: PreparingCounts = { prepared: 0, failed: 0, here: 0 };

  async function tryOnce(job: ElsewhereJob, isAlone: boolean, signal: AbortSignal): Promise<PreparedAudio> {
    const { size: bytes } = await stat(job.path);
    const id = randomBytes(16).toString("hex");
    const folder = join(job.directory, `elsewhere-${id}`);
    await mkdir(folder, { mode: 0o700 });
    try {
      if (signal.aborted) throw new EngineError("aborted", "aborted");
      const { wanted, outcome } = jobs.want<WantedPreparation>(
        {
          ...{
            kind: "prepare",
            id,
            job,
            bytes,
            folder,
            isAlone,
            modelSha256: code,
            queue: code,
            urgency: "a",
          },
          subject: subjects.job(code, "a", id),
          // A worker decodes faster than real time, and stops a decoder that hangs itself.
          timeoutMs: TIMEOUT_FLOOR_MS + job.expected.durationMs * job.expected.tracks,
        },
        signal,
      );
      void deps.dispatch.send(wanted);
      return await outcome;
    } finally {
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    }
  }

  return {
    code,
    places: () => registry.preparingPlaces(code),
    async prepare(job, signal) {
      const { durationMs, withinMs, tracks } = job.expected;
      const fits = 16 * (durationMs + withinMs) <= MAX_SAMPLES && tracks <= MAX_TRACKS;
      let isAlone = false;
      for (let tries = 0; fits && tries < MAX_TRIES; tries++) {
        if (deps.isClosed()) throw new EngineError("interrupted", "the engine is closing");
        if (registry.preparingPlaces(code) === 0) break;
        try {
          const prepared = await tryOnce(job, isAlone, signal);
          counts.prepared++;
          return prepared;
        } catch (error) {
          if (!(error instanceof EngineError) || error.kind === "aborted") throw error;
          // No worker has taken it.
          if (error.kind === "failed") break;
          counts.failed++;
          // A machine was lost with it.
          isAlone = error.kind === "crashed";
          deps.onFailed(error.message);
        }
      }
      counts.here++;
      return undefined;
    },
    counts: () => ({ ...counts }),
  };
}
