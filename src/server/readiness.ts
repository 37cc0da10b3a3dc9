import type { InstalledModel } from "../domain/model.ts";
import { modelHashOf } from "../domain/model-hash.ts";
import type { Engine } from "../engine/engine.ts";
import { errorMessage } from "../lib/error-message.ts";
import type { Log } from "../lib/log.ts";
import { SPACE_ADVICE } from "../store/disk-full.ts";

export type ReadinessDeps = {
  engine: Pick<Engine, "warm" | "warmSpeech" | "status">;
  /** Returns the model for requests that name none; throws with the reason when there is none. */
  defaultModel: () => InstalledModel;
  /**
   * Returns the model that is loaded to see whether the engine works, while the default model is not in use; left out:
   * the default model itself.
   */
  probeFor?: (model: InstalledModel) => InstalledModel;
  log: Log;
  isDiskFull: () => boolean;
  /** Returns why recordings cannot be written, one sentence each. */
  unwritableFolders?: () => string[];
  /** Reports whether another program keeps the database from being written. */
  isLocked?: () => boolean;
  /** Reports whether work still waits for the end of an upgrade. */
  isHeld?: () => boolean;
  /** Called with the default model at the start and after each change, before it is loaded. */
  onDefault?: (model: InstalledModel) => void;
  /** Called when this machine can never load the engine, with the reason. */
  onUnfit?: (reason: string) => void;
  /** Milliseconds between two checks of the default model; replaced in tests. */
  everyMs?: number;
};

/**
 * Reports whether the program can take work, and why not (docs/decisions/health.md).
 *
 * It tries to load the default model until that succeeds. Clients send no work to a program that is not ready, so no
 * request would find out that the model works again.
 */
export type Readiness = {
  /** Begins to check the default model at intervals. */
  start(): void;
  /** Checks now, because something may have changed. Does nothing while a check is running. */
  check(): void;
  /** Makes the program count as not ready for the rest of its life. */
  startDraining(): void;
  /** Ends the checks. */
  stop(): void;
  /** Reports whether the default model has been loaded and works. */
  hasModel(): boolean;
  /** Returns why the program cannot take work; empty: it can. */
  reasons(): string[];
};

const EVERY_MS = 5_000;
/** The dynamic loader's words for a C or C++ library that is older than the engine needs. */
const NEEDS_NEWER_LIBRARY = /version [`'"]?[A-Z]+_[\d.]+[`'"]? not found/;

export function createReadiness(deps: ReadinessDeps): Readiness {
  const { engine, log } = deps;
  const stopping = new AbortController();
  let isDraining = false;
  let problem: string | undefined = "the engine is starting";
  let warmed: string | undefined;
  let known: string | undefined;
  let noted = problem;
  let knownEnds = 0;
  let running: Promise<void> | undefined;
  let timer: Timer | undefined;

  /**
   * A model that worked once may have been damaged since, its worker process may lack memory, or a new default may be
   * unusable. So a process that ended unexpectedly is started again. One that was stopped because it was idle is not.
   */
  function mustWarm(model: InstalledModel): boolean {
    const statuses = engine.status().models.filter(({ modelId }) => modelId === model.id);
    const ends = statuses.reduce((sum, { restarts }) => sum + restarts, 0);
    const hasEnded = ends > knownEnds;
    knownEnds = ends;
    if (problem !== undefined || warmed !== identityOf(model) || hasEnded) return true;
    return statuses.some((status) => status.problem !== undefined);
  }

  function probeOf(model: InstalledModel): InstalledModel {
    const isUsed = engine.status().models.some(({ modelId }) => modelId === model.id);
    return isUsed ? model : (deps.probeFor?.(model) ?? model);
  }

  async function checkModel(): Promise<void> {
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
      const probe = probeOf(model);
      await engine.warm(probe, stopping.signal);
      warmed = identity;
      if (problem !== undefined) {
        problem = undefined;
        if (reasons().length === 0) {
          noted = "";
          log.info({ model: probe.id }, probe === model ? "ready: the default model is loaded" : "ready");
        }
      }
    } catch (error) {
      if (stopping.signal.aborted) return;
      const reason = errorMessage(error);
      const found = `the engine cannot start: ${reason}`;
      if (found !== problem) log.error({ err: error }, "not ready: the default model cannot be used");
      problem = found;
      if (NEEDS_NEWER_LIBRARY.test(reason)) deps.onUnfit?.(reason);
    }
  }

  function reasons(): string[] {
    if (isDraining) return ["the server is stopping"];
    return [
      ...(problem === undefined ? [] : [problem]),
      ...(deps.isHeld?.() ? ["the server is starting after an upgrade"] : []),
      ...(deps.isDiskFull() ? ["the disk is nearly full"] : []),
      ...(deps.unwritableFolders?.() ?? []),
      ...(deps.isLocked?.() ? ["the database is locked by another program"] : []),
    ];
  }

  /** Logs each change of what keeps the server from taking work, but for the model, which has lines of its own. */
  function noteReasons(): void {
    if (problem !== undefined || isDraining) return;
    const found = reasons();
    const key = found.join("; ");
    if (key === noted) return;
    noted = key;
    if (found.length === 0) log.info("ready");
    else log.warn({ reasons: found, ...(deps.isDiskFull() ? { advice: SPACE_ADVICE } : {}) }, "not ready");
  }

  /** Checks now unless a check is running, and plans the next one. */
  function check(): void {
    clearTimeout(timer);
    if (stopping.signal.aborted || running) return;
    running = checkModel().finally(() => {
      running = undefined;
      noteReasons();
      if (stopping.signal.aborted) return;
      timer = setTimeout(check, deps.everyMs ?? EVERY_MS);
    });
  }

  return {
    start: check,
    check,
    startDraining() {
      isDraining = true;
    },
    stop() {
      clearTimeout(timer);
      stopping.abort(new Error("the program is stopping"));
    },
    hasModel: () => problem === undefined,
    reasons,
  };
}

function identityOf(model: InstalledModel): string {
  return [model.id, model.version, modelHashOf(model), ...Object.values(model.files)].join(" ");
}
