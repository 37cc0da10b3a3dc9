import { statSync } from "node:fs";
import { constants } from "node:os";
import { join, resolve } from "node:path";
import type { RecognizedSegment } from "../domain/recognition.ts";
import type { WhisperSettings } from "../domain/whisper-settings.ts";
import { explainBackendFailure, listBackends, unfitBackend } from "./backend-files.ts";
import { meanProbability } from "./confidence.ts";
import { chooseVariant, usableVariants, variantName } from "./cpu-variants.ts";
import { requireRoom, TRIAL_SAMPLES, tryOut } from "./gpu-trial.ts";
import { checkModelFile, type ModelFileInfo } from "./whisper-model-file.ts";

export { checkModelFile, type ModelFileInfo } from "./whisper-model-file.ts";

/** Something that ggml can compute on. */
export type WhisperDevice = {
  /** Counts the GPUs (`gpu` and `igpu` together), and is then what `load` takes; else counts the others. */
  index: number;
  name: string;
  type: "cpu" | "gpu" | "igpu" | "accelerator";
  description: string;
  memoryBytes: number;
  freeBytes: number;
};

/** An extra backend library that could not be used, for `doctor`. */
export type BackendFailure = { path: string; reason: string };

export type Whisper = {
  /** whisper.cpp's version. */
  version: string;
  /** The processor family whose code was picked, such as `haswell` or `zen4`. */
  cpuVariant: string;
  /** The families whose code this processor can run, too, the best first. */
  plainerVariants: string[];
  devices: WhisperDevice[];
  backendFailures: BackendFailure[];
  /**
   * Checks and loads a model; on a GPU it decodes a little silence, too.
   * @throws Error when the file cannot be used, RangeError when there is no such GPU
   */
  load(path: string, options: LoadOptions): Promise<LoadedModel>;
};

export type LoadOptions = { device: "cpu" | { gpuIndex: number }; flashAttention: boolean };

export type DecodeOptions = WhisperSettings & {
  /** 1 to 256; for this one transcription. */
  threads: number;
  /** Also estimate when each token starts. */
  tokenTimestamps?: boolean;
};

export type DecodedToken = {
  id: number;
  /** Missing where the token holds only a part of a character. */
  text?: string;
  /** 0 to 1. */
  probability: number;
  /** From the beginning of the samples; only with `tokenTimestamps`. */
  startMs?: number;
};

/** What the pipeline gets, and the tokens it was made of. */
export type DecodedSegment = RecognizedSegment & {
  /** Text tokens; whisper's special tokens are left out. */
  tokens: DecodedToken[];
};

export type TranscribeHooks = {
  /** Ends the work between two operations of the network; the promise rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Each segment once, in order, as soon as it is known. */
  onSegment?: (segment: DecodedSegment) => void;
  /** 0 to 100, rising. */
  onProgress?: (percent: number) => void;
};

export type LoadedModel = {
  info: ModelFileInfo;
  /**
   * Transcribes 16 kHz mono samples within −1 to 1, up to an hour; under 100 ms nothing is heard. Calls may run side
   * by side: each takes its own decoder state on the same weights, and states are kept for later calls.
   *
   * @throws RangeError or TypeError for audio that is empty or holds NaN and for options out of range,
   *   the signal's reason when it is aborted, Error when the engine fails
   */
  transcribe(
    samples: Float32Array,
    options: DecodeOptions,
    hooks?: TranscribeHooks,
  ): Promise<DecodedSegment[]>;
  /** Waits for running transcriptions, then frees the weights. Later calls of `transcribe` reject. */
  close(): Promise<void>;
};

type NativeSegment = {
  startMs: number;
  endMs: number;
  language: string;
  noSpeechProbability: number;
  ids: Int32Array;
  probabilities: Float32Array;
  starts: Int32Array;
  ends: Uint32Array;
  bytes: Uint8Array;
};

type NativeParams = {
  language: string;
  threads: number;
  beamSearch: boolean;
  bestOf: number;
  beamSize: number;
  temperature: number;
  temperatureIncrement: number;
  entropyThreshold: number;
  logprobThreshold: number;
  noSpeechThreshold: number;
  initialPrompt: string;
  suppressNonSpeech: boolean;
  tokenTimestamps: boolean;
  maxTokens: number;
  suppressTokens: Int32Array;
};

type NativeModel = {
  tokens(): { bytes: Uint8Array; ends: Uint32Array };
  transcribe(
    samples: Float32Array,
    params: NativeParams,
    onEvent: (...event: ["segment", NativeSegment] | ["progress", number]) => void,
  ): { promise: Promise<NativeSegment[]>; abort(): void };
  free(): void;
};

/** What the patched smart-whisper exports (patches/, src/binding of that package). */
type NativeAddon = {
  scoreCpuLibraries(files: string[]): number[];
  loadBackends(cpuLibrary: string, extraFiles: string[]): BackendFailure[];
  describe(): { version: string; cpuLibrary: string; devices: Omit<WhisperDevice, "index">[] };
  WhisperModel: {
    load(
      path: string,
      options: { useGpu: boolean; gpuDevice: number; flashAttention: boolean },
    ): Promise<NativeModel>;
  };
};

const ADDON_FILE = "smart-whisper.addon";

let opened: { nativeDir: string; whisper: Whisper } | undefined;

/**
 * Loads the native engine, once in a process: native code cannot be unloaded.
 *
 * @param nativeDir folder with smart-whisper.addon, libggml.so, libggml-base.so and libggml-cpu-*.so
 * @param backendDirs folders in which an administrator puts further `libggml-*.so`, such as the one for CUDA; those
 *   that cannot be loaded are listed in `backendFailures`
 * @param avoidedVariants families of processors whose code is not to be used
 * @throws Error when the files do not load or hold no code for this processor
 */
export function openWhisper(
  nativeDir: string,
  backendDirs: string[] = [],
  avoidedVariants: string[] = [],
): Whisper {
  const dir = resolve(nativeDir);
  if (opened !== undefined) {
    if (opened.nativeDir !== dir) throw new Error(`the engine was already loaded from ${opened.nativeDir}`);
    return opened.whisper;
  }
  const addon = loadAddon(join(dir, ADDON_FILE));
  const { version } = addon.describe();
  const files = backendDirs.flatMap(listBackends);
  const unfit = files.flatMap((path): BackendFailure[] => {
    const reason = unfitBackend(path, version);
    return reason === undefined ? [] : [{ path, reason }];
  });
  const fit = files.filter((file) => unfit.every(({ path }) => path !== file));
  const { chosen, plainer } = chooseVariant(usableVariants(dir, addon.scoreCpuLibraries), avoidedVariants);
  const failed = addon
    .loadBackends(chosen.path, fit)
    .map(({ path, reason }) => ({ path, reason: explainBackendFailure(path, reason) }));
  const backendFailures = [...unfit, ...failed];
  const { cpuLibrary, devices } = addon.describe();
  const numbered = numberDevices(devices);
  const whisper: Whisper = {
    version,
    cpuVariant: variantName(cpuLibrary) ?? chosen.name,
    plainerVariants: plainer,
    devices: numbered,
    backendFailures,
    load: (path, options) => loadModel(addon, numbered.filter(isGpu), path, options),
  };
  opened = { nativeDir: dir, whisper };
  return whisper;
}

function loadAddon(path: string): NativeAddon {
  const module = { exports: {} };
  process.dlopen(module, path, constants.dlopen.RTLD_NOW | constants.dlopen.RTLD_LOCAL);
  return module.exports as NativeAddon;
}

function isGpu(device: { type: WhisperDevice["type"] }): boolean {
  return device.type === "gpu" || device.type === "igpu";
}

function numberDevices(devices: Omit<WhisperDevice, "index">[]): WhisperDevice[] {
  return devices.map((device, position) => ({
    index: devices.slice(0, position).filter((other) => isGpu(other) === isGpu(device)).length,
    ...device,
  }));
}

async function loadModel(
  addon: NativeAddon,
  gpus: readonly WhisperDevice[],
  path: string,
  options: LoadOptions,
): Promise<LoadedModel> {
  const info = checkModelFile(path);
  const gpu = options.device === "cpu" ? undefined : gpus[options.device.gpuIndex];
  if (gpu) requireRoom(gpu, statSync(path).size);
  const native = await addon.WhisperModel.load(path, {
    useGpu: options.device !== "cpu",
    gpuDevice: options.device === "cpu" ? 0 : options.device.gpuIndex,
    flashAttention: options.flashAttention,
  });
  if (gpu) {
    const trial = () => native.transcribe(TRIAL_SAMPLES, TRIAL_PARAMS, () => {}).promise;
    await tryOut(gpu, trial).catch((error: unknown) => {
      native.free();
      throw error;
    });
  }
  const running = new Set<Promise<unknown>>();
  const suppressedTokens = new Map<string, Int32Array>();
  let closed: Promise<void> | undefined;

  const close = async (): Promise<void> => {
    while (running.size > 0) await Promise.allSettled(running);
    native.free();
  };

  return {
    info,
    async transcribe(samples, decodeOptions, hooks = {}) {
      if (closed !== undefined) throw new Error("the model was closed");
      hooks.signal?.throwIfAborted();
      const params = toNativeParams(decodeOptions, (pattern) =>
        matchingTokens(native, pattern, suppressedTokens),
      );
      const work = transcribe(native, samples, params, hooks);
      running.add(work);
      try {
        return await work;
      } finally {
        running.delete(work);
      }
    },
    close() {
      closed ??= close();
      return closed;
    },
  };
}

/** English is known to every model. */
const TRIAL_PARAMS: NativeParams = {
  language: "en",
  threads: 1,
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
  tokenTimestamps: false,
  maxTokens: 1,
  suppressTokens: new Int32Array(),
};

async function transcribe(
  native: NativeModel,
  samples: Float32Array,
  params: NativeParams,
  hooks: TranscribeHooks,
): Promise<DecodedSegment[]> {
  const liveText = segmentDecoder();
  let hookError: { error: unknown } | undefined;
  const task = native.transcribe(samples, params, (...event) => {
    if (hookError !== undefined) return;
    try {
      if (event[0] === "progress") hooks.onProgress?.(event[1]);
      else hooks.onSegment?.(liveText(event[1], params.tokenTimestamps));
    } catch (error) {
      // An exception must not leave a callback of native code.
      hookError = { error };
      task.abort();
    }
  });
  const abort = () => task.abort();
  hooks.signal?.addEventListener("abort", abort, { once: true });
  try {
    const segments = await task.promise;
    hooks.signal?.throwIfAborted();
    if (hookError !== undefined) throw hookError.error;
    const text = segmentDecoder();
    return segments.map((segment) => text(segment, params.tokenTimestamps));
  } catch (error) {
    if (hookError !== undefined) throw hookError.error;
    if (hooks.signal?.aborted) throw hooks.signal.reason;
    throw error;
  } finally {
    hooks.signal?.removeEventListener("abort", abort);
  }
}

function toNativeParams(options: DecodeOptions, tokensOf: (pattern: string) => Int32Array): NativeParams {
  const { strategy } = options;
  return {
    language: options.language,
    threads: options.threads,
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
    tokenTimestamps: options.tokenTimestamps ?? false,
    maxTokens: options.maxTokens,
    suppressTokens: options.suppressRegex === undefined ? new Int32Array() : tokensOf(options.suppressRegex),
  };
}

const MAX_REMEMBERED_PATTERNS = 16;

/**
 * The text tokens that match a pattern as a whole, like whisper.cpp's own `suppress_regex`, which compiles the
 * pattern anew for every token it decodes, and crashes on a bad one.
 */
function matchingTokens(
  native: NativeModel,
  pattern: string,
  remembered: Map<string, Int32Array>,
): Int32Array {
  const known = remembered.get(pattern);
  if (known !== undefined) return known;
  const expression = new RegExp(`^(?:${pattern})$`, "u");
  const { bytes, ends } = native.tokens();
  const decoder = new TextDecoder();
  const ids: number[] = [];
  for (let id = 0, start = 0; id < ends.length; id++) {
    const end = ends[id] ?? start;
    if (end > start && expression.test(decoder.decode(bytes.subarray(start, end)))) ids.push(id);
    start = end;
  }
  if (remembered.size >= MAX_REMEMBERED_PATTERNS) remembered.clear();
  const tokens = Int32Array.from(ids);
  remembered.set(pattern, tokens);
  return tokens;
}

/**
 * Makes segments from native ones that come in order. Tokens split characters, and so, rarely, do segments: bytes of
 * an unfinished character at a segment's end go to the next one. Bytes that never become a character are dropped.
 */
function segmentDecoder(): (segment: NativeSegment, withStarts: boolean) => DecodedSegment {
  const stream = new TextDecoder("utf-8", { ignoreBOM: true });
  const whole = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  return (segment, withStarts) => {
    const tokens = Array.from(segment.ids, (id, i): DecodedToken => {
      const text = decodeWhole(whole, segment.bytes.subarray(segment.ends[i - 1] ?? 0, segment.ends[i]));
      const start = segment.starts[i] ?? 0;
      return {
        id,
        probability: segment.probabilities[i] ?? 0,
        ...(text === undefined ? {} : { text }),
        ...(withStarts ? { startMs: start } : {}),
      };
    });
    return {
      startMs: segment.startMs,
      endMs: segment.endMs,
      text: stream.decode(segment.bytes, { stream: true }).replaceAll("\uFFFD", ""),
      language: segment.language,
      tokens,
      confidence: meanProbability(segment.probabilities, segment.bytes, segment.ends),
      noSpeechProbability: segment.noSpeechProbability,
    };
  };
}

function decodeWhole(decoder: TextDecoder, bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}
