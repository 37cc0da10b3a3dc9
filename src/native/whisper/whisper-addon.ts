import { constants } from "node:os";
import type { ComputeDevice } from "../compute-device.ts";

/** A GPU backend library that could not be used, for `doctor`. */
export type BackendFailure = { path: string; reason: string };

/** A segment as the addon returns it. Tokens are joined into `bytes`, and `ends` holds where each of them ends. */
export type NativeSegment = {
  startMs: number;
  endMs: number;
  language: string;
  noSpeechProbability: number;
  /** Languages of the first window, by whisper's own codes, at most five; empty for an English model. */
  spokenLanguages: { language: string; probability: number }[];
  /** The model repeated itself after this text; the repetition is left out. */
  isCut: boolean;
  ids: Int32Array;
  probabilities: Float32Array;
  /** When each token begins and ends in the sound, milliseconds; empty where that was not asked for or not found. */
  starts: Int32Array;
  stops: Int32Array;
  ends: Uint32Array;
  bytes: Uint8Array;
};

/** The parameters of one transcription; all are required. */
export type NativeParams = {
  language: string;
  threads: number;
  /** Thread groups, in which several transcriptions make their steps together; 0: this one makes its own. */
  threadGroups: number;
  /** Most threads that encode a window or make a step together in a thread group, while others leave them; 1 to 256. */
  groupThreads: number;
  /** How much less urgent its threads are than the others of the process, 0 to 19. */
  niceness: number;
  beamSearch: boolean;
  bestOf: number;
  beamSize: number;
  temperature: number;
  temperatureIncrement: number;
  entropyThreshold: number;
  logprobThreshold: number;
  noSpeechThreshold: number;
  initialPrompt: string;
  /** The text is English, whatever is spoken. Only multilingual models. */
  translates: boolean;
  suppressNonSpeech: boolean;
  timestamps: boolean;
  maxTokens: number;
  /** Frames of the encoder, of 20 ms each: at most 1500, in multiples of 256 or all. */
  windowFrames: number;
  /** Most decoding steps, the encodings of windows included, after which the text ends; 0: any number. */
  mostSteps: number;
  /** As many steps take as long as the encoding of a window. */
  encoderSteps: number;
  /** The characters that the text may have: first and last of each range of code points, in order. Empty: all. */
  characters: Int32Array;
  /** Layer and head of each head with which tokens get times. Empty: they get none. */
  alignmentHeads: Int32Array;
  /** How many frames of 20 ms after a token is heard these heads look at it; less than 0: before. */
  alignmentDelay: number;
  /** These heads are measured, and tokens get no times. */
  measuresHeads: boolean;
  /** The draft model writes tokens ahead, if there is one and the transcription runs in a thread group. */
  drafts: boolean;
  /** So many tokens each time, whether that pays or not, at most 15; 0: as many as pay. */
  draftAhead: number;
};

export type NativeResult = {
  segments: NativeSegment[];
  /** The measured heads: how much of the attention of each lies along the text, at most 1; about 0 where it looks anywhere. */
  heads: { layer: number; head: number; share: number }[];
  /** What they cost in decoding steps, with the encodings of windows. */
  steps: number;
  /** How many tokens the draft model wrote, and how many of these the model chose, too. */
  drafted: number;
  accepted: number;
};

export type NativeModel = {
  /** Counts what was decoded in steps of thread groups since the model was loaded. */
  readonly info: { sharedSteps: number; sharedTokens: number };
  /** Returns the UTF-8 of all tokens, joined, and where each of them ends. */
  tokens(): { bytes: Uint8Array; ends: Uint32Array };
  /**
   * Returns 1 for each text token that may not follow, else 0.
   *
   * @param characters as in `NativeParams`
   * @param unfinished the bytes of a character that the text has begun and not finished
   */
  excluded(characters: Int32Array, unfinished: Uint8Array): Uint8Array;
  /**
   * Lets a smaller model write tokens ahead for this one. That one can be freed after this one.
   *
   * @throws Error where it has other tokens, or while a transcription runs
   */
  draftWith(smaller: NativeModel): void;
  /** @param onEvent is called on each segment and on progress; Shruti needs neither, because chunks are short */
  transcribe(
    samples: Float32Array,
    params: NativeParams,
    onEvent: () => void,
  ): { promise: Promise<NativeResult>; abort(): void };
  /**
   * Frees the weights, on a thread of its own. Later calls of the other methods throw.
   *
   * @throws Error while a transcription runs
   */
  free(): Promise<void>;
};

/** A loaded TDT model. The garbage collector frees it, once no run uses it. */
export type TdtHandle = { readonly __tdt: unique symbol };

/** The tokens that a TDT model wrote, in order. */
export type NativeTdtTokens = {
  /** Frames of the encoder. */
  frames: number;
  ids: Int32Array;
  /** The frame in which each was written, and how many frames it takes: 0 and more; 1 of an RNN-T model. */
  starts: Int32Array;
  durations: Int32Array;
  probabilities: Float32Array;
};

/** The part of the addon that runs TDT and RNN-T models (src/native/tdt/). */
export type TdtAddon = {
  /**
   * Loads a model on a thread of its own.
   *
   * @throws Error for a file with another content; some damaged files end the process: check them before
   */
  loadTdt(path: string): Promise<TdtHandle>;
  /**
   * Runs a model on a thread of its own. Runs may go on side by side.
   *
   * @param samples 16 kHz mono, at least 10 ms; they are copied
   * @param params `groups`: how many computations of the model there are at most, in each of which several chunks take part; 0:
   *   the chunk has one of its own. `threads`: most threads of the encoder in one of them. `niceness`: how much less urgent they
   *   are than others of the process
   */
  runTdt(
    model: TdtHandle,
    samples: Float32Array,
    params: { groups: number; threads: number; niceness: number },
  ): { promise: Promise<NativeTdtTokens>; abort(): void };
};

/** What smart-whisper exports with `binding/`: its class of a model, with further methods, and functions of our own. */
export type NativeAddon = TdtAddon & {
  scoreCpuLibraries(files: string[]): number[];
  loadBackends(cpuLibrary: string, extraFiles: string[], usesKernels: boolean): BackendFailure[];
  /** Returns where a text begins to repeat itself, and the length of what it repeats, in bytes of UTF-8. */
  findLoop(text: string): { begin: number; unit: number } | undefined;
  describe(): { version: string; cpuLibrary: string; devices: Omit<ComputeDevice, "index">[] };
  WhisperModel: {
    load(
      path: string,
      options: { useGpu: boolean; gpuDevice: number; flashAttention: boolean },
    ): Promise<NativeModel>;
  };
};

/**
 * Loads the addon into this process.
 *
 * @throws Error when the file cannot be loaded
 */
export function loadWhisperAddon(path: string): NativeAddon {
  const module = { exports: {} };
  process.dlopen(module, path, constants.dlopen.RTLD_NOW | constants.dlopen.RTLD_LOCAL);
  return module.exports as NativeAddon;
}
