import type { DevicePreference } from "../../domain/engine-options.ts";
import { type BrokenVariants, createVariantTrial } from "../../native/cpu-variants.ts";
import type { WorkerGeneration } from "./worker-generation.ts";
import type { WorkerExit } from "./worker-process.ts";

const ENDED_A_WORKER = "a worker ended while it was in use";

export type CodeChoiceOptions = {
  /** Folders with GPU backends. */
  backendDirs: string[];
  /** The device that the config asks for; left out: no model is loaded. */
  device?: DevicePreference | undefined;
  brokenVariants: BrokenVariants;
  log: (level: "info" | "warn", message: string, fields: Record<string, unknown>) => void;
};

/**
 * Chooses the native code that the next worker process may use: GPU backends, and code for this kind of processor. Code
 * that ended a process before it delivered anything is replaced by simpler code.
 */
export type CodeChoice = {
  /** Returns the backend folders for the next process; none once the GPU was given up. */
  backendDirs(): string[];
  /** Returns the processor variants that the next process must not use. */
  avoidedVariants(): string[];
  isGpuGivenUp(): boolean;
  /** Returns why the processor does the work for which `auto` chose a GPU; undefined: it does not. */
  gpuFailure(): string | undefined;
  /** Returns why each backend folder is unused after the GPU was given up. */
  givenUpBackends(): { path: string; reason: string }[];
  /** Records that a process loaded its model on the processor because the GPU refused it. */
  noteGpuFailure(reason: string): void;
  /** Records that a process completed a task with its code. Later crashes no longer count against that code. */
  prove(generation: WorkerGeneration): void;
  /**
   * Decides whether a GPU ended a process, and if so gives the GPU up. Only under `auto`: a device that the config
   * names is never replaced.
   *
   * @param device that the last model was loaded on; undefined: none was loaded yet
   */
  blameGpu(generation: WorkerGeneration, device: string | undefined): boolean;
  /**
   * Decides whether code for this processor ended a process, and if so avoids that code from now on.
   *
   * @returns whether the next process uses plainer code, so that its tasks can be repeated at once
   */
  blameVariant(generation: WorkerGeneration, exit: WorkerExit, device: string | undefined): boolean;
};

export function createCodeChoice(options: CodeChoiceOptions): CodeChoice {
  const { brokenVariants, log } = options;
  const trial = createVariantTrial(brokenVariants);
  let isGpuGivenUp = false;
  let gpuFailure: string | undefined;

  return {
    backendDirs: () => (isGpuGivenUp ? [] : options.backendDirs),
    avoidedVariants: brokenVariants.names,
    isGpuGivenUp: () => isGpuGivenUp,
    gpuFailure: () => gpuFailure,
    givenUpBackends: () => options.backendDirs.map((path) => ({ path, reason: ENDED_A_WORKER })),

    noteGpuFailure(reason) {
      gpuFailure = reason;
    },

    prove({ info }) {
      if (info) trial.prove(info.cpuVariant);
    },

    blameGpu({ isReady, hasDelivered }, device) {
      if (isGpuGivenUp || hasDelivered || options.backendDirs.length === 0) return false;
      if (options.device !== undefined && options.device !== "auto") return false;
      const mayHaveUsedGpu = !isReady || (device !== undefined && device !== "cpu");
      if (!mayHaveUsedGpu) return false;
      isGpuGivenUp = true;
      gpuFailure = ENDED_A_WORKER;
      log("warn", "the worker ended with a GPU backend loaded; the processor takes its place", {});
      return true;
    },

    blameVariant({ info, hasDelivered, process }, exit, device) {
      if (!info || options.device === undefined || hasDelivered) return false;
      // A GPU does most of the work, and its failures end a process, too.
      if (device !== undefined && device !== "cpu" && exit.signal !== "SIGILL") return false;
      const verdict = trial.judge(info, exit.signal);
      const { pid } = process;
      if (verdict.kind === "exonerated") {
        const message = "plainer code for this processor ended a worker, too; the better code is used again";
        log("warn", message, { variants: verdict.variants, used: info.cpuVariant, pid });
      }
      if (verdict.kind !== "plainer") return false;
      const { variant, plainer } = verdict;
      const message = "the worker ended in the code for this processor; plainer code takes its place";
      log("warn", message, { variant, plainer, signal: exit.signal, pid });
      return true;
    },
  };
}
