import { constants } from "node:os";
import { withCarriedRuntime } from "../carried-runtime.ts";
import type { NativeFiles } from "../native-files.ts";

/** A loaded model. The garbage collector frees it, once no run uses it. */
export type CtcSession = { readonly __ctc: unique symbol };

/** The best token of each frame of the net, and its probability among the allowed ones, 0 to 1. */
export type BestTokens = {
  /** −1 where no output is a number. */
  ids: Int32Array;
  probabilities: Float32Array;
  /** Frames of features that the net received, or samples. */
  inputFrames: number;
};

/** Values of `input`: scripts/native/ctc/ctc.h. */
export const CTC_INPUT = { nemo: 0, kaldi: 1, samples: 2 } as const;
/** A run takes at least this many samples. */
export const CTC_LEAST_SAMPLES = 1_600;

/** What the addon of scripts/native/ctc/ exports. */
export type CtcAddon = {
  /**
   * Loads the ONNX runtime, once.
   *
   * @returns its version
   * @throws Error when the library cannot be used
   */
  openRuntime(library: string): string;
  /**
   * Loads a model on another thread.
   *
   * @param threads of one run
   * @throws Error with onnxruntime's reason. Some files end the process: check them before
   */
  open(path: string, threads: number): Promise<CtcSession>;
  /**
   * Runs a model on another thread. Runs may go on side by side.
   *
   * @param samples 16 kHz mono, at least `CTC_LEAST_SAMPLES`; they are copied
   * @param input a value of `CTC_INPUT`
   * @param bins mel bins, 1 to 256; 1 for samples
   * @param allowed for each output of the net 1, or 0 when it must not be chosen; copied
   */
  run(
    session: CtcSession,
    samples: Float32Array,
    input: number,
    bins: number,
    allowed: Uint8Array,
  ): { promise: Promise<BestTokens>; number: number };
  /** Ends a run by its number, within one operation of the net. Its promise then rejects. */
  abort(number: number): void;
};

/**
 * Loads the addon and the ONNX runtime into this process. Native code may crash, so this belongs in a worker process.
 *
 * @throws Error when one of them cannot be loaded
 */
export function loadCtc({ dir, ctc, onnxruntime }: Pick<NativeFiles, "dir" | "ctc" | "onnxruntime">): {
  addon: CtcAddon;
  version: string;
} {
  const module = { exports: {} };
  process.dlopen(module, ctc, constants.dlopen.RTLD_NOW | constants.dlopen.RTLD_LOCAL);
  const addon = module.exports as CtcAddon;
  return { addon, version: withCarriedRuntime(dir, () => addon.openRuntime(onnxruntime)) };
}
