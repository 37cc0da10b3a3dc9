import { constants } from "node:os";
import { onAbort } from "../../lib/abort.ts";
import { withFasterProducts } from "../../lib/onnx-faster.ts";
import { withCarriedRuntime } from "../carried-runtime.ts";
import type { NativeFiles } from "../native-files.ts";
import { readProcessor } from "../processor.ts";

/** A loaded model. The garbage collector frees it, once no run uses it. */
export type OnnxSession = { readonly __onnx: unique symbol };

/** An n-gram model of words, mapped into memory, with the texts of the tokens that it judges. */
export type OnnxNgram = { readonly __ngram: unique symbol };

/** How a beam search joins a CTC model with an n-gram model. */
export type OnnxBeam = {
  ngram: OnnxNgram;
  /** How much the natural logarithm of a word's probability counts. */
  weight: number;
  /** What each word adds to the score of a text. */
  bonus: number;
  /** Number of the blank. */
  blank: number;
};

/** A run on another thread, and the number by which it can be ended. */
export type OnnxRun<Result> = { promise: Promise<Result>; number: number };

/** The best token of each frame of the net, and its probability among the allowed ones, 0 to 1. */
export type BestTokens = {
  /** −1 where no output is a number. */
  ids: Int32Array;
  probabilities: Float32Array;
  /** Frames of features that the net received, or samples. */
  inputFrames: number;
};

/** Values of `input`: src/native/onnx/onnx.h. */
export const CTC_INPUT = { nemo: 0, kaldi: 1, samples: 2, "nemo-2.5": 3 } as const;
/** A run of a CTC model takes at least this many samples. */
export const CTC_LEAST_SAMPLES = 1_600;

/** An output of a net with one batch, row after row. An output with one further dimension has one row. */
export type OnnxNumbers = { numbers: Float32Array; rows: number; columns: number };

/** An output of a net over tokens: `width` values for each token; −1 where the net gives a number that cannot be a label. */
export type TokenLabels = { values: Int32Array; width: number };

/** Values of `shape` and `normalization`: src/native/onnx/onnx.h. */
export const SOUND_WINDOW = { povey: 0, hann: 1, hanning: 2, hamming: 3 } as const;
export const SOUND_NORMALIZATION = { none: 0, mean: 1, deviation: 2 } as const;

/** How sound becomes the input of a speaker model: logarithms of mel bands. */
export type SpeakerSound = {
  /** 1: bands and frames as NeMo has them; 0: as Kaldi has them. */
  nemo: 0 | 1;
  /** 1: samples are multiplied by 32,768. */
  scaled: 0 | 1;
  /** Number of bands, 1 to 128. */
  bins: number;
  /** Samples of a frame, 257 to 512. */
  window: number;
  /** Samples between the beginnings of two frames, 1 to 512. */
  shift: number;
  /** A value of `SOUND_WINDOW`. */
  shape: number;
  /** A value of `SOUND_NORMALIZATION`. */
  normalization: number;
};

/** What the addon of src/native/onnx/ exports. */
export type OnnxAddon = {
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
   * @param file path of the file, or its content, which is not to be changed meanwhile; it has no weights beside it then
   * @param threads of one run
   * @param isMapped weights in files beside the model stay there, mapped into memory, so that they are in memory once for
   *   all processes; else matrices are copied into an order that is a little faster
   * @throws Error with onnxruntime's reason. Some files end the process: check them before
   */
  open(file: string | Uint8Array, threads: number, isMapped: boolean): Promise<OnnxSession>;
  /**
   * Maps an n-gram model in KenLM's binary form.
   *
   * @param texts UTF-8 of all tokens, one after the other; `▁` begins a word
   * @param ends where each of them ends
   * @throws Error with the reason why the file is not such a model
   */
  openNgram(path: string, texts: Uint8Array, ends: Int32Array): OnnxNgram;
  /**
   * Runs a CTC model on another thread. Runs may go on side by side.
   *
   * @param samples 16 kHz mono, at least `CTC_LEAST_SAMPLES`; they are copied
   * @param input a value of `CTC_INPUT`
   * @param bins mel bins, 1 to 256; 1 for samples
   * @param allowed for each output of the net 1, or 0 when it must not be chosen; copied
   * @param head a second net, which makes the scores of the first one's output; null: the first one makes them
   * @param beam null: each frame has its best token; else the tokens are those of the best text
   */
  run(
    session: OnnxSession,
    samples: Float32Array,
    input: number,
    bins: number,
    allowed: Uint8Array,
    head: OnnxSession | null,
    beam: OnnxBeam | null,
  ): OnnxRun<BestTokens>;
  /**
   * Runs a model that distinguishes speakers on another thread.
   *
   * @param samples 16 kHz mono; they are copied
   * @param output index of the output that is wanted, 0 or 1
   * @param sound null: the net reads the samples themselves
   */
  runSpeakers(
    session: OnnxSession,
    samples: Float32Array,
    output: number,
    sound: SpeakerSound | null,
  ): OnnxRun<OnnxNumbers>;
  /**
   * Runs a net over tokens on another thread. Its only input are their numbers, and its outputs are integers or truth values.
   *
   * @param ids at least one; they are copied
   * @returns the outputs in the order of the file, at most four
   */
  runTokens(session: OnnxSession, ids: Int32Array): OnnxRun<TokenLabels[]>;
  /** Ends a run by its number, within one operation of the net. Its promise then rejects. */
  abort(number: number): void;
};

/**
 * Loads the addon and the ONNX runtime into this process. Native code may crash, so this belongs in a worker process.
 *
 * @throws Error when one of them cannot be loaded
 */
export function loadOnnx({ dir, onnx, onnxruntime }: Pick<NativeFiles, "dir" | "onnx" | "onnxruntime">): {
  addon: OnnxAddon;
  version: string;
} {
  const module = { exports: {} };
  process.dlopen(module, onnx, constants.dlopen.RTLD_NOW | constants.dlopen.RTLD_LOCAL);
  const addon = module.exports as OnnxAddon;
  return { addon, version: withCarriedRuntime(dir, () => addon.openRuntime(onnxruntime)) };
}

/**
 * Returns what to open a network from: the path of its file, or, where this processor then computes the same in less time, the
 * content of another file.
 *
 * @param path of a file that `readOnnxFile` has accepted
 */
export function fasterFile(path: string): string | Uint8Array {
  const flags = readProcessor()?.flags;
  // Without these instructions sums of bytes with a sign overflow in onnxruntime's products.
  const areSigned = (flags?.has("avx512_vnni") || flags?.has("avx_vnni")) ?? false;
  // onnxruntime has products for tiles of AMX, and the addon has not.
  const areOurs = areSigned && !flags?.has("amx_int8");
  try {
    return withFasterProducts(path, { areSigned, areOurs }) ?? path;
  } catch {
    // A network that cannot be changed stays as it is. Opening its file says what is wrong with it, if anything is.
    return path;
  }
}

/**
 * Waits for a run, and ends it when the signal is aborted.
 *
 * @throws the signal's reason when it is aborted; Error when the net fails
 */
export async function finishRun<Result>(
  addon: OnnxAddon,
  { promise, number }: OnnxRun<Result>,
  signal: AbortSignal,
): Promise<Result> {
  const unwatch = onAbort(signal, () => addon.abort(number));
  try {
    const result = await promise;
    signal.throwIfAborted();
    return result;
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    unwatch();
  }
}
