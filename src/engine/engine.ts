import type { VerifiedAudio } from "../domain/audio.ts";
import type { ChunkLimits } from "../domain/chunk.ts";
import { AppError } from "../domain/errors.ts";
import type { Outline } from "../domain/outline.ts";
import type { FileToRead } from "../domain/reading.ts";
import type { Families } from "../families/families.ts";
import { countAudio, type DecodedAudio, DecodeError, decodeAudio, outlineAudio } from "./audio/decode.ts";
import { type PlayStretch, playAudio } from "./audio/play.ts";
import type { ChunkExecutor } from "./executor.ts";
import { createLocalExecutor } from "./local-executor.ts";
import { measureMachine } from "./machine.ts";
import { createModelNeeds } from "./model-needs.ts";
import {
  type DiarizeJob,
  type DiarizeOutcome,
  EngineError,
  type OnSpeakersHeard,
  type OnSpeechFound,
  type PunctuateJob,
  type PunctuateOutcome,
  type SpeechJob,
  type SpeechRegion,
} from "./protocol.ts";
import { bytesOnGpu } from "./sizing.ts";
import { createPool, type PoolOptions, type PoolStatus } from "./workers/pool.ts";

export type { PlayStretch } from "./audio/play.ts";

export type DecodeJob = FileToRead & {
  directory: string;
  channels: "mix" | "separate";
  maxDurationMs: number;
};

/** A recording that another machine decodes and searches for speech. */
export type ElsewhereJob = DecodeJob & {
  /** Limits of the chunks that the speech will be packed into. */
  limits: ChunkLimits;
  /** What verification has found. A result that differs by more than `withinMs` is not used. */
  expected: { durationMs: number; withinMs: number; tracks: number };
};

/** A recording that was decoded into the job's folder, and the speech of each track. */
export type PreparedAudio = { decoded: DecodedAudio; speech: SpeechRegion[][] };

/** Other machines that decode recordings and find speech. */
export type Elsewhere = {
  /** Returns how many recordings they prepare at once; 0: none. */
  places(): number;
  /**
   * Prepares a recording on another machine. What it finds is what `decode` and `detectSpeech` would find here.
   *
   * @returns undefined when no machine could: the caller does it here
   * @throws EngineError `aborted` within 2 s of the signal; `interrupted` when the engine closes
   */
  prepare(job: ElsewhereJob, signal: AbortSignal): Promise<PreparedAudio | undefined>;
};

export type OutlineJob = Pick<DecodeJob, "path" | "reading" | "channels" | "maxDurationMs"> & {
  file: string;
};

/** A file that is decoded for what it is. `maxDurationMs` left out: the engine's longest at that moment. */
export type VerifyJob = FileToRead & { maxDurationMs?: number };

/**
 * The interface of the native side for the rest of the program. Jobs name files and ranges, and can be repeated. Speech,
 * chunks and speakers reject with `EngineError`. Decoding rejects with `AppError` (`audio_too_long`,
 * `audio_decode_failed`) when the recording is the cause, and otherwise with `EngineError` (`aborted`, `interrupted`).
 */
export type Engine = ChunkExecutor & {
  /** Decodes a file to its end without keeping the sound, and returns its format and true length. */
  verify(job: VerifyJob, signal: AbortSignal): Promise<VerifiedAudio>;
  /** Decodes a file into 16 kHz mono files in a folder (pcm-file.ts). */
  decode(job: DecodeJob, signal: AbortSignal): Promise<DecodedAudio>;
  /** Decodes a file to its end and keeps only its outline. `file` is a free path for it, which is free again afterwards. */
  outline(job: OutlineJob, signal: AbortSignal): Promise<Outline>;
  /**
   * Decodes a stretch of a file. What is behind its end is silence.
   *
   * @returns 16-bit samples, little-endian, all lanes of a sample together
   */
  play(job: PlayStretch, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
  /** Finds speech. `onFound` receives final regions while the detector still reads the file. */
  detectSpeech(job: SpeechJob, signal: AbortSignal, onFound?: OnSpeechFound): Promise<SpeechRegion[]>;
  /**
   * Distinguishes the speakers of a decoded recording within the given speech. Installed weights use all threads that a
   * recording may use. `onHeard` is called only where weights do it.
   */
  diarize(job: DiarizeJob, signal: AbortSignal, onHeard?: OnSpeakersHeard): Promise<DiarizeOutcome>;
  /** Finds the punctuation of words with an installed model, in a process of its own. It uses one thread. */
  punctuate(job: PunctuateJob, signal: AbortSignal): Promise<PunctuateOutcome>;
  /**
   * Returns how many cores recognition leaves idle.
   *
   * @param chunks those that are about to run, or run
   */
  idleCores(chunks: number): number;
  /** Starts the process that finds speech unless it runs. */
  warmSpeech(signal: AbortSignal): Promise<void>;
  /** Left out where only this machine prepares recordings. */
  elsewhere?: Elsewhere | undefined;
  status(): PoolStatus;
  /** Ends all worker processes. Running jobs reject with `interrupted`. */
  close(): Promise<void>;
};

export type LocalEngineOptions = PoolOptions & {
  /** Left out: those of the program. */
  families?: Families | undefined;
  /** Returns the length of the longest recording that is decoded, milliseconds. It is asked for each file. */
  maxDurationMs: () => number;
};

/** Decoding a minute of audio takes well under a second. These limits are for a decoder that is stuck. */
const DECODE_TIMEOUT_FLOOR_MS = 120_000;
const DECODE_TIMEOUT_RATIO = 0.25;

/** Creates the engine of this machine: a decoder process for each file, and worker processes for speech and text. */
export function createLocalEngine(options: LocalEngineOptions): Engine {
  const { nativeFiles, engine, gpuFreeBytes } = options;
  // Which tracks of a file are read where that is not known yet.
  const { tracks } = engine;
  const machine = { ...measureMachine(), gpuFreeBytes };
  const needsOf = createModelNeeds({ engine }, options.families);
  const pool = createPool({ ...options, gpuBytesOf: (model) => bytesOnGpu(engine, machine, needsOf(model)) });
  const executor = createLocalExecutor(pool, { engine, machine, needsOf });
  const timeoutMs = () => DECODE_TIMEOUT_FLOOR_MS + options.maxDurationMs() * DECODE_TIMEOUT_RATIO;
  return {
    verify: ({ path, reading, maxDurationMs = options.maxDurationMs() }, signal) =>
      asAppError(() =>
        countAudio(nativeFiles, path, { reading, tracks, maxDurationMs, timeoutMs: timeoutMs(), signal }),
      ),
    decode: (job, signal) =>
      asAppError(() =>
        decodeAudio(nativeFiles, job.path, {
          output: { directory: job.directory, channels: job.channels },
          reading: job.reading,
          tracks,
          maxDurationMs: job.maxDurationMs,
          timeoutMs: timeoutMs(),
          signal,
        }),
      ),
    outline: ({ path, ...job }, signal) =>
      asAppError(() => outlineAudio(nativeFiles, path, { ...job, tracks, timeoutMs: timeoutMs(), signal })),
    play: (job, signal) => asAppError(() => playAudio(nativeFiles, job, { timeoutMs: timeoutMs(), signal })),
    detectSpeech: pool.detectSpeech,
    capacity: executor.capacity,
    recognize: executor.recognize,
    diarize: (job, signal, onHeard) =>
      pool.diarize({ ...job, threads: executor.threadsAlone() }, signal, onHeard),
    punctuate: pool.punctuate,
    idleCores: (chunks) => Math.max(0, machine.cores - Math.max(chunks, executor.running())),
    warm: async (model, signal) => {
      await Promise.all([pool.warm(model, signal), pool.warmSpeech(signal)]);
    },
    warmSpeech: pool.warmSpeech,
    status: pool.status,
    close: pool.close,
  };
}

async function asAppError<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    // The recording is not the cause of these.
    if (error.reason === "aborted") throw new EngineError("aborted", error.message, error);
    if (error.reason === "stopped" || error.reason === "disk_full") {
      throw new EngineError("interrupted", error.message, error);
    }
    if (error.reason === "too_long") throw new AppError("audio_too_long", { cause: error });
    throw new AppError("audio_decode_failed", { message: error.message, cause: error });
  }
}
