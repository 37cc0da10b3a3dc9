import { dlopen, FFIType, ptr } from "bun:ffi";
import { readFileSync } from "node:fs";
import type { NativeFiles } from "./native-files.ts";

/** Samples at 16 kHz that the detector decides on at a time: 32 ms. */
export const SILERO_WINDOW_SAMPLES = 512;

/** The Silero detector with its weights; holds nothing of a recording. */
export type Silero = {
  /** Builds of the net that this processor runs, the slowest first. */
  variants: number;
  /**
   * Listens to one recording from its beginning.
   * @param variant which build, from 0; the fastest when left out
   */
  listen(variant?: number): SileroListener;
};

export type SileroListener = {
  /**
   * Goes on where the last call ended. Blocks until it is done, some 0.2 ms for a second of sound.
   *
   * @param pcm whole windows of 16 kHz, mono
   * @returns for each window the probability that somebody speaks in it, 0 to 1
   */
  probabilities(pcm: Int16Array): Float32Array;
};

const FUNCTIONS = {
  silero_weight_floats: { args: [], returns: FFIType.i32 },
  silero_state_floats: { args: [], returns: FFIType.i32 },
  silero_best_variant: { args: [], returns: FFIType.i32 },
  silero_run: {
    args: [FFIType.i32, FFIType.ptr, FFIType.ptr, FFIType.ptr, FFIType.i32, FFIType.ptr],
    returns: FFIType.void,
  },
} as const;

/**
 * Loads scripts/native/silero/, which is Silero's net as onnxruntime computes it, to the fifth digit, in a tenth of the
 * time: for whole blocks of windows at once.
 *
 * @throws Error when the library cannot be loaded or the weights are not its own
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
          const windows = pcm.length / SILERO_WINDOW_SAMPLES;
          if (!Number.isInteger(windows)) throw new Error("the speech detector takes whole windows");
          const found = new Float32Array(windows);
          if (windows > 0)
            symbols.silero_run(variant, ptr(weights), ptr(state), ptr(pcm), windows, ptr(found));
          return found;
        },
      };
    },
  };
}
