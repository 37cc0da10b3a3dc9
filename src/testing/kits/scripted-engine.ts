import { mkdirSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { AudioMeasurements } from "../../domain/audio.ts";
import { AppError } from "../../domain/errors.ts";
import type { Outline } from "../../domain/outline.ts";
import type { RecognizedSegment, RecognizedWord, RecognizerSettings } from "../../domain/recognition.ts";
import type { DecodeJob, Engine, PlayStretch } from "../../engine/engine.ts";
import type { Capacity } from "../../engine/executor.ts";
import {
  type ChunkJob,
  type DiarizeJob,
  EngineError,
  type EngineModel,
  type FileAudio,
  type OnSpeechFound,
  type SpeechJob,
} from "../../engine/protocol.ts";
import type { ModelStatus } from "../../engine/workers/resident-models.ts";

const SAMPLE_RATE_HZ = 16_000;
const MARK = "SCRIPTED-AUDIO ";
/** Longest timer: timers of more milliseconds fire at once. */
const NEVER_MS = 2 ** 31 - 1;

/** The content of a scripted recording. */
export type Script = {
  seconds: number;
  channels?: number;
  /** The recognized text of each chunk. Empty or absent: the recording is silent. */
  text?: string;
  /** The same in English, which requests get that ask for a translation. */
  english?: string;
  /** `refuse`: decoding for transcription fails. `crash`: the recognition of each chunk fails. */
  trouble?: "refuse" | "crash";
  /** Length when it is decoded for transcription, where it differs from the verified length. */
  decodedSeconds?: number;
  /** Both channels are identical. */
  isDoubled?: boolean;
  /** Numbers of the speakers, one after the other, with equal shares of the recording. */
  speakers?: number[];
};

/** Makes a recording. The scripted engine accepts no others. */
export function scriptedAudio(script: Script): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(MARK + JSON.stringify(script));
}

/** A chunk of a scripted recording, and its start in milliseconds. */
export type ScriptedChunk = ChunkJob & { audio: FileAudio; startMs: number };

/** Functions that are called before the engine works. An error that they throw is the engine's failure. */
export type Interference = {
  /** Called before a chunk. It may return the text of the chunk. */
  chunk?: (chunk: ScriptedChunk, signal: AbortSignal) => Promise<string | undefined> | undefined;
  decode?: (job: DecodeJob, signal: AbortSignal) => Promise<void>;
  speech?: (job: SpeechJob, signal: AbortSignal, onFound?: OnSpeechFound) => Promise<void>;
  verify?: (path: string, signal: AbortSignal) => Promise<void>;
  outline?: (path: string, signal: AbortSignal) => Promise<void>;
  play?: (job: PlayStretch, signal: AbortSignal) => Promise<void>;
  /** Called before a model is loaded. An error is in the engine's status until a later attempt succeeds. */
  warm?: (model: EngineModel) => Promise<void>;
  /** Called before the process of the speech detector is started. */
  warmSpeech?: () => Promise<void>;
  speakers?: (job: DiarizeJob, signal: AbortSignal) => Promise<void>;
};

export type ScriptedEngine = Engine & {
  /** Sets the functions that are called from now on. */
  interfere(how: Interference): void;
  /** Ends a model's worker process while it is idle. */
  lose(modelId: string): void;
  /** Lets no chunk finish until the returned function is called. */
  hold(): () => void;
  /** Sets the capacity from now on. */
  setCapacity(capacityOf: (weightsBytes: number) => Capacity): void;
  /** Returns the number of chunks that were requested. */
  chunks(): number;
};

const MEASUREMENTS: AudioMeasurements = {
  truncated: false,
  clippedRatio: 0,
  peakDb: -6,
  rmsDb: -20,
  highFrequencyDb: -30,
  identicalChannels: false,
  tracks: [{ peakDb: -6 }],
};

/** Makes an engine that keeps the engine's contract without weights: the recordings contain their text. */
export function createScriptedEngine({ hungAfterMs = NEVER_MS } = {}): ScriptedEngine {
  const scripts = new Map<string, Script>();
  let chunks = 0;
  let gate: Promise<void> = Promise.resolve();
  let interference: Interference = {};
  let capacityOf = (_weightsBytes: number): Capacity => ({ chunks: 2, power: 2, isElastic: true });
  const running = new Set<AbortController>();
  const problems = new Map<string, string>();
  const lost = new Map<string, number>();

  /** Finds the script of a decoded recording by the path of one of its tracks. */
  const scriptOf = (pcmPath: string) => scripts.get(pcmPath.slice(0, pcmPath.lastIndexOf("/")));

  async function recognize({ audio, ...job }: ChunkJob, signal: AbortSignal) {
    chunks++;
    if ("pcm" in audio) throw new EngineError("failed", "scripted recordings are files");
    await Promise.race([gate, aborted(signal)]);
    signal.throwIfAborted();
    const startMs = (audio.slices[0]?.sourceStartSample ?? 0) / (SAMPLE_RATE_HZ / 1000);
    const heard = await interference.chunk?.({ ...job, audio, startMs }, signal);
    const script = scriptOf(audio.pcmPath);
    if (script?.trouble === "crash") throw new EngineError("failed", "as scripted");
    const own = job.settings.translates ? script?.english : script?.text;
    const text = heard ?? own ?? "";
    return { segments: text === "" ? [] : [segmentOf(text, job.settings, audio)], workMs: 1 };
  }

  return {
    async verify({ path, reading = {}, maxDurationMs = Number.POSITIVE_INFINITY }, signal) {
      await interference.verify?.(path, signal);
      const { seconds, channels = 1 } = await readScript(path);
      const durationMs = seconds * 1000;
      if (durationMs > maxDurationMs) throw new AppError("audio_too_long");
      return { durationMs, channels, sampleRateHz: SAMPLE_RATE_HZ, truncated: false, reading };
    },

    async decode(job, signal) {
      await interference.decode?.(job, signal);
      const script = await readScript(job.path);
      if (script.trouble === "refuse") throw new AppError("audio_decode_failed");
      const decoded = { ...writeTracks(job, script), reading: job.reading ?? {} };
      // The folder is renamed once it is complete: `<final>.<pid>.<time>`.
      scripts.set(job.directory.replace(/\.\d+\.\d+$/, ""), script);
      return decoded;
    },

    async detectSpeech(job, signal, onFound) {
      await interference.speech?.(job, signal, onFound);
      const script = scriptOf(job.pcmPath);
      if (!script?.text) return [];
      return [{ startSample: 0, endSample: script.seconds * SAMPLE_RATE_HZ }];
    },

    async outline(job, signal) {
      await interference.outline?.(job.path, signal);
      const { seconds, channels = 1 } = await readScript(job.path);
      return outlineOf(seconds * SAMPLE_RATE_HZ, job.channels === "mix" ? 1 : channels);
    },

    async play(job, signal) {
      await interference.play?.(job, signal);
      await readScript(job.path);
      return soundOfPositions(job);
    },

    capacity: ({ bytes }) => capacityOf(bytes),

    recognize: (job, signal) => withLimits((stop) => recognize(job, stop), { running, hungAfterMs, signal }),

    idleCores: () => 1,

    async punctuate({ words }, signal) {
      signal.throwIfAborted();
      return { marks: words.map((_, index) => (index === words.length - 1 ? { after: "." } : {})) };
    },

    async diarize(job, signal) {
      await interference.speakers?.(job, signal);
      const turns = job.tracks.map(({ pcmPath }) => turnsOf(scriptOf(pcmPath)));
      return { turns, isCountUncertain: false };
    },

    async warm(model) {
      problems.delete(model.id);
      try {
        await interference.warmSpeech?.();
        await interference.warm?.(model);
      } catch (error) {
        problems.set(model.id, (error as Error).message);
        throw error;
      }
    },
    async warmSpeech() {
      await interference.warmSpeech?.();
    },
    status: () => ({
      engine: undefined,
      models: [...[...problems].map(statusOfBroken), ...[...lost].map(statusOfLost)],
      brokenVariants: [],
    }),
    async close() {
      for (const stop of running) stop.abort(new EngineError("interrupted", "the engine is closing"));
    },

    interfere(how) {
      interference = how;
    },
    setCapacity(how) {
      capacityOf = how;
    },
    lose(modelId) {
      lost.set(modelId, (lost.get(modelId) ?? 0) + 1);
    },
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      gate = promise;
      return resolve;
    },
    chunks: () => chunks,
  };
}

/** Makes the only segment of a chunk. */
function segmentOf(
  text: string,
  { language, words }: RecognizerSettings,
  { totalSamples }: { totalSamples: number },
): RecognizedSegment {
  const endMs = Math.floor((totalSamples / SAMPLE_RATE_HZ) * 1000);
  const segment = { startMs: 0, endMs, text, language, confidence: 0.9, noSpeechProbability: 0 };
  return words ? { ...segment, words: evenWords(text, endMs) } : segment;
}

/** Gives each word the same time. */
function evenWords(text: string, endMs: number): RecognizedWord[] {
  const words = text.split(/\s+/u).filter((word) => word !== "");
  const timeOf = (index: number) => Math.round((endMs * index) / words.length);
  return words.map((word, at) => ({
    ...{ text: word, startMs: timeOf(at), endMs: timeOf(at + 1), confidence: 0.9 },
  }));
}

/** Each sample is its own position, and negative in the second lane, so that tests see what they received. */
function soundOfPositions({
  samples,
  lanes,
  fromSample,
}: Pick<PlayStretch, "samples" | "lanes" | "fromSample">) {
  const sound = new Int16Array(samples * lanes);
  for (let index = 0; index < samples; index++) {
    for (let lane = 0; lane < lanes; lane++) {
      sound[index * lanes + lane] = ((fromSample + index) % 30_000) * (lane === 0 ? 1 : -1);
    }
  }
  return new Uint8Array(sound.buffer);
}

type ChunkLimits = { running: Set<AbortController>; hungAfterMs: number; signal: AbortSignal };

/** Runs a chunk. One that does not settle in time is `hung`. One that runs when the engine closes is `interrupted`. */
async function withLimits<T>(
  work: (stop: AbortSignal) => Promise<T>,
  { running, hungAfterMs, signal }: ChunkLimits,
): Promise<T> {
  const stop = new AbortController();
  running.add(stop);
  const hung = setTimeout(() => stop.abort(new EngineError("hung", "as scripted")), hungAfterMs);
  const onAbort = () => stop.abort(new EngineError("aborted", "aborted"));
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work(stop.signal), rejected(stop.signal)]);
  } finally {
    clearTimeout(hung);
    signal.removeEventListener("abort", onAbort);
    running.delete(stop);
  }
}

async function readScript(path: string): Promise<Script> {
  const text = await readFile(path, "utf8");
  if (!text.startsWith(MARK)) throw new AppError("audio_decode_failed");
  return JSON.parse(text.slice(MARK.length)) as Script;
}

/** Writes silent tracks of the scripted length, as decoding does. */
function writeTracks(job: DecodeJob, script: Script) {
  const channels = script.channels ?? 1;
  const names =
    job.channels === "mix" ? ["mix.pcm"] : Array.from({ length: channels }, (_, n) => `channel_${n}.pcm`);
  const seconds = script.decodedSeconds ?? script.seconds;
  const samples = seconds * SAMPLE_RATE_HZ;
  mkdirSync(job.directory, { recursive: true });
  const files = names.map((name) => join(job.directory, name));
  for (const file of files) writeFileSync(file, new Uint8Array(samples * 2));
  const measurements = { ...MEASUREMENTS, identicalChannels: script.isDoubled ?? false };
  const outline = outlineOf(samples, files.length);
  return { durationMs: seconds * 1000, samples, channels, files, measurements, outline };
}

const PEAK_SAMPLES = 320;

function outlineOf(samples: number, lanes: number): Outline {
  const peaks = Math.ceil(samples / PEAK_SAMPLES);
  return {
    peakSamples: PEAK_SAMPLES,
    lanes: Array.from({ length: lanes }, (_, lane) => new Uint8Array(peaks).fill(100 + lane)),
    points: new Uint8Array(),
  };
}

/** Divides a recording between its speakers, in equal shares. */
function turnsOf(script: Script | undefined) {
  const speakers = script?.speakers ?? [0];
  const shareMs = ((script?.seconds ?? 0) * 1000) / speakers.length;
  return speakers.map((speaker, index) => ({
    startMs: Math.round(index * shareMs),
    endMs: Math.round((index + 1) * shareMs),
    speaker,
  }));
}

function statusOfLost([modelId, restarts]: [string, number]): ModelStatus {
  const state = "stopped";
  return { modelId, state, device: undefined, pid: undefined, restarts, running: 0, problem: undefined };
}

function statusOfBroken([modelId, problem]: [string, string]): ModelStatus {
  return { modelId, state: "backoff", device: undefined, pid: undefined, restarts: 0, running: 0, problem };
}

/** Rejects with the signal's reason once it is aborted. */
function rejected(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
