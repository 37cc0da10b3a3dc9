import { statSync } from "node:fs";
import type { WhisperSettings } from "../../domain/whisper-settings.ts";
import { requireSpace, TRIAL_SAMPLES, tryOut } from "../gpu-trial.ts";
import type { ComputeDevice } from "../protocol.ts";
import type { NativeAddon, NativeModel, NativeParams } from "./whisper-addon.ts";
import { checkModelFile, type ModelFileInfo } from "./whisper-model-file.ts";
import { toSegments, type WhisperSegment } from "./whisper-segments.ts";

export type LoadOptions = {
  device: "cpu" | { gpuIndex: number };
  flashAttention: boolean;
  /** Chunks will share decoding steps on a GPU. Left out: they will not. */
  sharesSteps?: boolean;
};

export type WhisperOptions = WhisperSettings & {
  /** 1 to 256; for this call only. */
  threads: number;
  /** Threads that calls share which decode in lock-step, 1 to 256; left out: this call decodes by itself. */
  lanes?: number | undefined;
  /** Most threads of one computation in a lane, while there are fewer such calls than lanes; left out: 1. */
  laneThreads?: number | undefined;
  /** How much less urgent the threads of this call are than the others of the process, 0 to 19; left out: not at all. */
  niceness?: number | undefined;
};

/** Weights in memory. */
export type LoadedModel = {
  info: ModelFileInfo;
  /**
   * Recognizes 16 kHz mono samples within −1 to 1, up to an hour; under 100 ms there is no text. Calls may run side by
   * side: each takes a decoder state of its own on the same weights, and states are kept for later calls. An abort takes
   * effect between two operations of the network.
   *
   * @throws RangeError or TypeError for audio that is empty or holds NaN and for options out of range, the signal's
   *   reason when it is aborted, Error when whisper.cpp fails or the model is closed
   */
  recognize(samples: Float32Array, options: WhisperOptions, signal?: AbortSignal): Promise<WhisperSegment[]>;
  /** Returns how many steps were made in lanes since the load, and how many tokens they decoded. */
  laneSteps(): { steps: number; tokens: number };
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
  const running = new Set<Promise<unknown>>();
  const knownPatterns = new Map<string, Int32Array>();
  let closed: Promise<void> | undefined;

  const close = async (): Promise<void> => {
    while (running.size > 0) await Promise.allSettled(running);
    native.free();
  };

  return {
    info,
    async recognize(samples, whisperOptions, signal) {
      if (closed !== undefined) throw new Error("the model was closed");
      signal?.throwIfAborted();
      const params = toNativeParams(whisperOptions, (pattern) =>
        matchingTokens(native, pattern, knownPatterns),
      );
      const work = recognize(native, samples, params, signal);
      running.add(work);
      try {
        return await work;
      } finally {
        running.delete(work);
      }
    },
    laneSteps: () => ({ steps: native.info.sharedSteps, tokens: native.info.sharedTokens }),
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
    const params = { ...TRIAL_PARAMS, lanes: sharesSteps ? 1 : 0 };
    await tryOut(gpu, () => native.transcribe(TRIAL_SAMPLES, params, () => {}).promise);
    return native;
  } catch (error) {
    native.free();
    throw error;
  }
}

/** Parameters for the trial on a GPU. Every model knows English. */
const TRIAL_PARAMS: NativeParams = {
  language: "en",
  threads: 1,
  lanes: 0,
  laneThreads: 1,
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
  suppressNonSpeech: false,
  timestamps: true,
  tokenTimestamps: false,
  maxTokens: 1,
  suppressTokens: new Int32Array(),
};

async function recognize(
  native: NativeModel,
  samples: Float32Array,
  params: NativeParams,
  signal: AbortSignal | undefined,
): Promise<WhisperSegment[]> {
  const task = native.transcribe(samples, params, () => {});
  const abort = () => task.abort();
  signal?.addEventListener("abort", abort, { once: true });
  try {
    const segments = await task.promise;
    signal?.throwIfAborted();
    return toSegments(segments);
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

function toNativeParams(options: WhisperOptions, tokensOf: (pattern: string) => Int32Array): NativeParams {
  const { strategy } = options;
  return {
    language: options.language,
    threads: options.threads,
    lanes: options.lanes ?? 0,
    laneThreads: options.laneThreads ?? 1,
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
    suppressNonSpeech: options.suppressNonSpeech,
    timestamps: options.timestamps ?? true,
    tokenTimestamps: false,
    maxTokens: options.maxTokens,
    suppressTokens: options.suppressRegex === undefined ? new Int32Array() : tokensOf(options.suppressRegex),
  };
}

const MAX_KNOWN_PATTERNS = 16;

/**
 * Returns the text tokens that a pattern matches as a whole. whisper.cpp's own `suppress_regex` does the same, but it
 * compiles the pattern again for every token, and crashes on a bad one.
 */
function matchingTokens(native: NativeModel, pattern: string, known: Map<string, Int32Array>): Int32Array {
  const remembered = known.get(pattern);
  if (remembered !== undefined) return remembered;
  const expression = new RegExp(`^(?:${pattern})$`, "u");
  const { bytes, ends } = native.tokens();
  const decoder = new TextDecoder();
  const ids: number[] = [];
  for (let id = 0, start = 0; id < ends.length; id++) {
    const end = ends[id] ?? start;
    if (end > start && expression.test(decoder.decode(bytes.subarray(start, end)))) ids.push(id);
    start = end;
  }
  if (known.size >= MAX_KNOWN_PATTERNS) known.clear();
  const tokens = Int32Array.from(ids);
  known.set(pattern, tokens);
  return tokens;
}
