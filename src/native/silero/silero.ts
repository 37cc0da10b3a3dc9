import { dlopen, FFIType, ptr } from "bun:ffi";
import { readFileSync } from "node:fs";
import type { NativeFiles } from "../native-files.ts";

/** The detector decides for windows of this many samples at 16 kHz: 32 ms. */
export const SILERO_WINDOW_SAMPLES = 512;

/** The Silero detector with its weights. It has no state of a recording. */
export type Silero = {
  /** The number of builds of the net that this processor can run, the slowest first. */
  variants: number;
  /**
   * Starts on a recording.
   *
   * @param variant index of the build; left out: the fastest
   * @throws RangeError when there is no such build
   */
  listen(variant?: number): SileroListener;
  /**
   * Adds up the samples of each window.
   *
   * @param pcm whole windows of 16 kHz mono samples
   * @returns three exact numbers for each window: the sum of its samples, the sum of their squares, and how many are not 0
   * @throws Error for a part of a window
   */
  sums(pcm: Int16Array): Float64Array;
};

/** Numbers of `Silero.sums` for each window. */
export const SUMS_PER_WINDOW = 3;

/** The detector at one position of one recording. */
export type SileroListener = {
  /**
   * Continues where the last call ended. It blocks the thread for some 0.2 ms per second of sound.
   *
   * @param pcm whole windows of 16 kHz mono samples
   * @returns for each window the probability of speech, 0 to 1
   * @throws Error for a part of a window
   */
  probabilities(pcm: Int16Array): Float32Array;
};

const FUNCTIONS = {
  silero_weight_floats: { args: [], returns: FFIType.i32 },
  silero_state_floats: { args: [], returns: FFIType.i32 },
  silero_best_variant: { args: [], returns: FFIType.i32 },
  silero_sums: { args: [FFIType.ptr, FFIType.i32, FFIType.ptr], returns: FFIType.void },
  silero_run: {
    args: [FFIType.i32, FFIType.ptr, FFIType.ptr, FFIType.ptr, FFIType.i32, FFIType.ptr],
    returns: FFIType.void,
  },
} as const;

/**
 * Loads the library of src/native/silero/. It computes Silero's net for whole blocks of windows, with the results
 * of onnxruntime to the fifth digit, in a tenth of the time.
 *
 * @throws Error when the library cannot be loaded, or the weights do not belong to it
 */
export function openSilero(nativeFiles: Pick<NativeFiles, "silero" | "sileroWeights">): Silero {
  const { symbols } = dlopen(nativeFiles.silero, FUNCTIONS);
  const weights = new Float32Array(new Uint8Array(readFileSync(nativeFiles.sileroWeights)).buffer);
  if (weights.length !== symbols.silero_weight_floats()) {
    throw new Error("the weights of the speech detector do not fit it");
  }
  const best = symbols.silero_best_variant();
  return {
    variants: best + 1,
    listen(variant = best) {
      if (!(variant >= 0 && variant <= best)) throw new RangeError(`there is no build ${variant} of the net`);
      const state = new Float32Array(symbols.silero_state_floats());
      return {
        probabilities(pcm) {
          const windows = windowsOf(pcm);
          const found = new Float32Array(windows);
          if (windows > 0)
            symbols.silero_run(variant, ptr(weights), ptr(state), ptr(pcm), windows, ptr(found));
          return found;
        },
      };
    },
    sums(pcm) {
      const windows = windowsOf(pcm);
      const sums = new Float64Array(windows * SUMS_PER_WINDOW);
      if (windows > 0) symbols.silero_sums(ptr(pcm), windows, ptr(sums));
      return sums;
    },
  };
}

function windowsOf(pcm: Int16Array): number {
  const windows = pcm.length / SILERO_WINDOW_SAMPLES;
  if (!Number.isInteger(windows)) throw new Error("the speech detector takes whole windows");
  return windows;
}
