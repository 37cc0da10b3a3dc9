import type { InstalledModel } from "./domain/model.ts";
import type { Engine } from "./engine/engine.ts";
import { errorMessage } from "./lib/error-message.ts";
import type { Log } from "./lib/log.ts";

export type ReadinessDeps = {
  engine: Pick<Engine, "warm" | "warmSpeech" | "status">;
  /** The model for requests that name none; throws with the reason when there is none. */
  defaultModel: () => InstalledModel;
  log: Log;
  isDiskFull: () => boolean;
  /** Told of the default at the start and whenever it is another, before it is loaded. */
  onDefault?: (model: InstalledModel) => void;
  /** How often is looked whether the default model can be used; replaced in tests. */
  everyMs?: number;
};

export type Readiness = ReturnType<typeof createReadiness>;

const EVERY_MS = 5_000;

/**
 * Whether the program can take work, and why not (docs/decisions.md section 13).
 *
 * A model that cannot be loaded is tried again until it can: nobody sends work to a program that is not ready, so no
 * request would find out.
 */
export function createReadiness(deps: ReadinessDeps) {
  const { engine, log } = deps;
  const stopping = new AbortController();
  let isDraining = false;
  let problem: string | undefined = "the engine is starting";
  let warmed: string | undefined;
  let known: string | undefined;
  let knownEnds = 0;
  let running: Promise<void> | undefined;
  let timer: Timer | undefined;

  /**
   * A model that worked once may be damaged since, its worker may find no memory, a new default may be broken. A worker
   * that ended unasked is started again; one that was stopped for want of work is not.
   */
  function mustWarm(model: InstalledModel): boolean {
    const statuses = engine.status().models.filter(({ modelId }) => modelId === model.id);
    const ends = statuses.reduce((sum, { restarts }) => sum + restarts, 0);
    const hasEnded = ends > knownEnds;
    knownEnds = ends;
    if (problem !== undefined || warmed !== identityOf(model) || hasEnded) return true;
    return statuses.some((status) => status.problem !== undefined);
  }

  async function look(): Promise<void> {
    try {
      const model = deps.defaultModel();
      const identity = identityOf(model);
      if (known !== identity) {
        known = identity;
        deps.onDefault?.(model);
      }
      if (!mustWarm(model)) {
        await engine.warmSpeech(stopping.signal);
        return;
      }
      await engine.warm(model, stopping.signal);
      warmed = identity;
      if (problem !== undefined) log.info({ model: model.id }, "ready: the default model is loaded");
      problem = undefined;
    } catch (error) {
      if (stopping.signal.aborted) return;
      const reason = errorMessage(error);
      const found = `the engine cannot start: ${reason}`;
      if (found !== problem) log.error({ err: error }, "not ready: the default model cannot be used");
      problem = found;
    }
  }

  /** Looks now, unless a look is under way, and then again and again. */
  function check(): void {
    clearTimeout(timer);
    if (stopping.signal.aborted || running) return;
    running = look().finally(() => {
      running = undefined;
      if (stopping.signal.aborted) return;
      timer = setTimeout(check, deps.everyMs ?? EVERY_MS);
    });
  }

  return {
    start: check,
    /** Something may have changed: does not wait for the next regular look. */
    check,
    startDraining(): void {
      isDraining = true;
    },
    stop(): void {
      clearTimeout(timer);
      stopping.abort(new Error("the program is stopping"));
    },
    /** Empty: ready. */
    reasons(): string[] {
      if (isDraining) return ["the server is stopping"];
      return [
        ...(problem === undefined ? [] : [problem]),
        ...(deps.isDiskFull() ? ["the disk is nearly full"] : []),
      ];
    },
  };
}

function identityOf({ id, version, files }: InstalledModel): string {
  return [id, version, ...Object.values(files)].join(" ");
}
