import { statSync } from "node:fs";
import type { MeasuredHead } from "../../families/whisper/alignment-heads.ts";
import { checkModelFile, type ModelFileInfo } from "../../families/whisper/model-file.ts";
import type { WhisperSettings } from "../../families/whisper/settings.ts";
import { onAbort } from "../../lib/abort.ts";
import { errorMessage } from "../../lib/error-message.ts";
import type {
  NativeAddon,
  NativeModel,
  NativeParams,
  NativeResult,
} from "../../native/whisper/whisper-addon.ts";
import type { UsedDevice } from "../devices.ts";
import { requireSpace, TRIAL_SAMPLES, tryOut } from "../gpu-trial.ts";
import type { ComputeDevice } from "../protocol.ts";
import { charactersWithout } from "./characters.ts";
import { toSegments, type WhisperSegment } from "./whisper-segments.ts";
import { WINDOW_FRAMES, windowFrames } from "./window.ts";

export type LoadOptions = {
  device: UsedDevice;
  flashAttention: boolean;
  /** Chunks will share decoding steps on a GPU. Left out: they will not. */
  sharesSteps?: boolean;
  /** Weights of a smaller model that drafts tokens, on the processor only; left out: none does. */
  draftPath?: string | undefined;
};

export type WhisperOptions = WhisperSettings & {
  /** 1 to 256; for this call only. */
  threads: number;
  /** Thread groups, in which calls decode in lock-step, 1 to 256; left out: this call decodes by itself. */
  threadGroups?: number | undefined;
  /** Most threads of one computation in a thread group, while there are fewer such calls than thread groups; left out: 1. */
  groupThreads?: number | undefined;
  /** How much less urgent the threads of this call are than the others of the process, 0 to 19; left out: not at all. */
  niceness?: number | undefined;
  /** The encoder's window ends behind the sound; left out: it is always a whole one of 30 s. */
  fitsWindow?: boolean;
  /** How many frames of 20 ms after a token is heard the alignment heads look at it; less than 0: before. Left out: 0. */
  alignmentDelay?: number;
  /** Left out: calls cost what they cost. */
  budget?: StepBudget | undefined;
  /** Lets the draft model write ahead, in thread groups; left out: it does not. */
  drafting?: Drafting | undefined;
};

/** What the draft model writes, and has written. Each call adds to it. */
export type Drafting = {
  /** Tokens that it wrote. */
  drafted: number;
  /** How many of them the model chose, too. */
  accepted: number;
  /** So many tokens each time, whether that pays or not, at most 15; left out: as many as pay. */
  ahead?: number;
};

/** What several calls may cost together. Each takes from it what it has cost. */
export type StepBudget = {
  /** Decoding steps. Where a window with a word would cost more, a call finds nothing. */
  left: number;
  /** As many steps take as long as the encoding of a window. */
  encoderSteps: number;
};

/** Weights in memory. */
export type LoadedModel = {
  info: ModelFileInfo;
  /** Why the draft model that was named is not used. */
  draftFailure?: string;
  /**
   * Recognizes 16 kHz mono samples within −1 to 1, up to an hour; under 100 ms there is no text. Calls may run side by
   * side: each takes a decoder state of its own on the same weights, and states are kept for later calls. An abort takes
   * effect between two operations of the network.
   *
   * @throws RangeError or TypeError for audio that is empty or holds NaN and for options out of range, the signal's
   *   reason when it is aborted, Error when whisper.cpp fails or the model is closed
   */
  recognize(samples: Float32Array, options: WhisperOptions, signal?: AbortSignal): Promise<WhisperSegment[]>;
  /** Recognizes in the same way, and measures all heads that the options name. */
  measure(samples: Float32Array, options: WhisperOptions, signal?: AbortSignal): Promise<MeasuredHead[]>;
  /** Returns how many steps were made in thread groups since the load, and how many tokens they decoded. */
  groupSteps(): { steps: number; tokens: number };
  /** Waits for running calls, then frees the weights. Later calls of `recognize` reject. */
  close(): Promise<void>;
};

/**
 * Checks the file and loads it. On a GPU it also recognizes a little silence.
 *
 * @param gpus in the order of their indexes
 * @throws Error when the file or the GPU cannot be used, RangeError when there is no such GPU
 */
export async function loadWhisperModel(
  addon: NativeAddon,
  gpus: readonly ComputeDevice[],
  path: string,
  options: LoadOptions,
): Promise<LoadedModel> {
  const info = checkModelFile(path);
  const native = await loadNative(addon, gpus, path, options);
  const { draft, ...failure } = await loadDraft(addon, native, options.draftPath);
  const running = new Set<Promise<unknown>>();
  let closed: Promise<void> | undefined;

  const close = async (): Promise<void> => {
    while (running.size > 0) await Promise.allSettled(running);
    await native.free();
    await draft?.free();
  };
  const run = async (samples: Float32Array, params: NativeParams, signal: AbortSignal | undefined) => {
    if (closed !== undefined) throw new Error("the model was closed");
    signal?.throwIfAborted();
    const work = transcribe(native, samples, params, signal);
    running.add(work);
    try {
      return await work;
    } finally {
      running.delete(work);
    }
  };

  return {
    info,
    ...failure,
    async recognize(samples, whisperOptions, signal) {
      const { budget, drafting } = whisperOptions;
      if (budget && budget.left < budget.encoderSteps + LEAST_STEPS) return [];
      const params = toNativeParams(whisperOptions, samples.length);
      const { segments, steps, drafted, accepted } = await run(samples, params, signal);
      if (budget) budget.left -= steps;
      if (drafting) {
        drafting.drafted += drafted;
        drafting.accepted += accepted;
      }
      return toSegments(segments);
    },
    async measure(samples, whisperOptions, signal) {
      const params = { ...toNativeParams(whisperOptions, samples.length), measuresHeads: true };
      return (await run(samples, params, signal)).heads;
    },
    groupSteps: () => ({ steps: native.info.sharedSteps, tokens: native.info.sharedTokens }),
    close() {
      closed ??= close();
      return closed;
    },
  };
}

async function loadNative(
  addon: NativeAddon,
  gpus: readonly ComputeDevice[],
  path: string,
  { device, flashAttention, sharesSteps = false }: LoadOptions,
): Promise<NativeModel> {
  const gpu = device === "cpu" ? undefined : gpus[device.gpuIndex];
  if (gpu) requireSpace(gpu, statSync(path).size);
  const native = await addon.WhisperModel.load(path, {
    useGpu: device !== "cpu",
    gpuDevice: device === "cpu" ? 0 : device.gpuIndex,
    flashAttention,
  });
  if (!gpu) return native;
  try {
    // The trial makes one step of decoding.
    const params = { ...TRIAL_PARAMS, threadGroups: sharesSteps ? 1 : 0 };
    await tryOut(gpu, () => native.transcribe(TRIAL_SAMPLES, params, () => {}).promise);
    return native;
  } catch (error) {
    await native.free();
    throw error;
  }
}

/** Loads the model that drafts for another one. Where it cannot be used there is a reason, and no model. */
async function loadDraft(
  addon: NativeAddon,
  native: NativeModel,
  path: string | undefined,
): Promise<{ draft?: NativeModel; draftFailure?: string }> {
  if (path === undefined) return {};
  let draft: NativeModel | undefined;
  try {
    checkModelFile(path);
    draft = await addon.WhisperModel.load(path, { useGpu: false, gpuDevice: 0, flashAttention: true });
    native.draftWith(draft);
    return { draft };
  } catch (error) {
    await draft?.free();
    return { draftFailure: errorMessage(error) };
  }
}

/** Parameters for the trial on a GPU. Every model knows English. */
const TRIAL_PARAMS: NativeParams = {
  language: "en",
  threads: 1,
  threadGroups: 0,
  groupThreads: 1,
  niceness: 0,
  beamSearch: false,
  bestOf: 1,
  beamSize: 1,
  temperature: 0,
  temperatureIncrement: 0,
  entropyThreshold: 0,
  logprobThreshold: -1,
  noSpeechThreshold: 1,
  initialPrompt: "",
  translates: false,
  suppressNonSpeech: false,
  timestamps: true,
  maxTokens: 1,
  windowFrames: WINDOW_FRAMES,
  mostSteps: 0,
  encoderSteps: 0,
  characters: new Int32Array(),
  alignmentHeads: new Int32Array(),
  alignmentDelay: 0,
  measuresHeads: false,
  drafts: false,
  draftAhead: 0,
};

async function transcribe(
  native: NativeModel,
  samples: Float32Array,
  params: NativeParams,
  signal: AbortSignal | undefined,
): Promise<NativeResult> {
  const task = native.transcribe(samples, params, () => {});
  const unwatch = onAbort(signal, () => task.abort());
  try {
    const result = await task.promise;
    signal?.throwIfAborted();
    return result;
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw error;
  } finally {
    unwatch();
  }
}

/** Steps for a word. */
const LEAST_STEPS = 8;

function toNativeParams(options: WhisperOptions, samples: number): NativeParams {
  const { strategy, budget } = options;
  return {
    language: options.language,
    threads: options.threads,
    threadGroups: options.threadGroups ?? 0,
    groupThreads: options.groupThreads ?? 1,
    niceness: options.niceness ?? 0,
    beamSearch: strategy.name === "beam",
    bestOf: strategy.bestOf,
    beamSize: strategy.name === "beam" ? strategy.beamSize : 1,
    temperature: options.temperature,
    temperatureIncrement: options.temperatureIncrement,
    entropyThreshold: options.entropyThreshold,
    logprobThreshold: options.logprobThreshold,
    noSpeechThreshold: options.noSpeechThreshold,
    initialPrompt: options.initialPrompt ?? "",
    translates: options.translates ?? false,
    suppressNonSpeech: options.suppressNonSpeech,
    timestamps: options.timestamps ?? true,
    maxTokens: options.maxTokens,
    windowFrames: windowFrames(samples, options.fitsWindow ?? false),
    mostSteps: budget?.left ?? 0,
    encoderSteps: budget?.encoderSteps ?? 0,
    characters: options.heldBack === undefined ? new Int32Array() : charactersWithout(options.heldBack),
    alignmentHeads: Int32Array.from(options.words ? (options.alignmentHeads ?? []).flat() : []),
    alignmentDelay: options.alignmentDelay ?? 0,
    measuresHeads: false,
    drafts: options.drafting !== undefined,
    draftAhead: options.drafting?.ahead ?? 0,
  };
}
