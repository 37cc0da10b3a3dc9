import type { VerifiedAudio } from "../domain/audio.ts";
import { AppError } from "../domain/errors.ts";
import { countAudio, type DecodedAudio, DecodeError, decodeAudio } from "./decode.ts";
import type { ChunkExecutor } from "./executor.ts";
import { createLocalExecutor, type WantedSizing } from "./local-executor.ts";
import { measureMachine } from "./machine.ts";
import { createPool, type PoolOptions, type PoolStatus } from "./pool.ts";
import {
  type DiarizeJob,
  type DiarizeOutcome,
  EngineError,
  type OnSpeechFound,
  type SpeechJob,
  type SpeechRegion,
} from "./protocol.ts";

export type DecodeJob = {
  path: string;
  directory: string;
  channels: "mix" | "separate";
  maxDurationMs: number;
};

/**
 * All that the rest of the program asks of the native side. Jobs name files and ranges and can be repeated.
 * Rejections are `EngineError` (speech, chunks, speakers) and `AppError` (decoding, with the client's code).
 */
export type Engine = ChunkExecutor & {
  /** Decodes without keeping the sound: does this file hold audio, and how much? */
  verify(path: string, signal: AbortSignal, maxDurationMs?: number): Promise<VerifiedAudio>;
  /** Writes 16 kHz mono files into a folder. */
  decode(job: DecodeJob, signal: AbortSignal): Promise<DecodedAudio>;
  /** Finds speech; `onFound` is told of its beginning while the rest is looked for. */
  detectSpeech(job: SpeechJob, signal: AbortSignal, onFound?: OnSpeechFound): Promise<SpeechRegion[]>;
  /** Tells the speakers of a decoded recording apart, within the speech that was found in it. */
  diarize(job: DiarizeJob, signal: AbortSignal): Promise<DiarizeOutcome>;
  /** Starts what finds speech unless it runs. */
  warmSpeech(signal: AbortSignal): Promise<void>;
  status(): PoolStatus;
  close(): Promise<void>;
};

export type LocalEngineOptions = PoolOptions & {
  wanted: WantedSizing;
  /** Longest recording that is decoded, milliseconds. */
  maxDurationMs: number;
};

/** Decoding a minute of audio takes well under a second; this bound is for a decoder that is stuck. */
const DECODE_TIMEOUT_FLOOR_MS = 120_000;
const DECODE_TIMEOUT_RATIO = 0.25;

/** The engine on this machine: a decoder as a child for each file, workers for speech and text. */
export function createLocalEngine(options: LocalEngineOptions): Engine {
  const { nativeFiles } = options;
  const pool = createPool(options);
  const machine = { ...measureMachine(), gpuFreeBytes: options.gpuFreeBytes };
  const executor = createLocalExecutor(pool, { wanted: options.wanted, machine });
  const timeoutMs = DECODE_TIMEOUT_FLOOR_MS + options.maxDurationMs * DECODE_TIMEOUT_RATIO;
  return {
    verify: (path, signal, maxDurationMs = options.maxDurationMs) =>
      asAppError(async () => {
        const counted = await countAudio(nativeFiles, path, { maxDurationMs, timeoutMs, signal });
        const { durationMs, channels, sampleRateHz, truncated } = counted;
        return { durationMs, channels, sampleRateHz, truncated };
      }),
    decode: (job, signal) =>
      asAppError(() =>
        decodeAudio(nativeFiles, job.path, {
          output: { directory: job.directory, channels: job.channels },
          maxDurationMs: job.maxDurationMs,
          timeoutMs,
          signal,
        }),
      ),
    detectSpeech: pool.detectSpeech,
    capacity: executor.capacity,
    recognize: executor.recognize,
    diarize: pool.diarize,
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
    // None of these is the recording's fault.
    if (error.reason === "aborted") throw new EngineError("aborted", error.message, error);
    if (error.reason === "stopped" || error.reason === "no_room") {
      throw new EngineError("interrupted", error.message, error);
    }
    if (error.reason === "too_long") throw new AppError("audio_too_long", { cause: error });
    throw new AppError("audio_decode_failed", { message: error.message, cause: error });
  }
}
