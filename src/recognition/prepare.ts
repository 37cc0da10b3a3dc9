import { existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import type { Chunk, ChunkLimits, ChunkRegion } from "../domain/chunk.ts";
import { AppError } from "../domain/errors.ts";
import type { Outline } from "../domain/outline.ts";
import type { Reading } from "../domain/reading.ts";
import type { Warning } from "../domain/result.ts";
import type { SpeechRegion } from "../domain/speech.ts";
import { type ChannelMode, recognizedChannels } from "../domain/transcription.ts";
import type { DecodeJob } from "../engine/engine.ts";
import { inSlices } from "../lib/in-slices.ts";
import { audioWarnings } from "../pipeline/audio-warnings.ts";
import { createPacker, withWholeTrack } from "../pipeline/chunks.ts";
import type { NewChunk } from "./checkpoint.ts";
import type { RecognitionJob, RecognitionTools, Recording } from "./context.ts";
import { withRetries } from "./retry.ts";

/** A recording, decoded to 16 kHz mono files. */
export type DecodedRecording = {
  /** Paths: one PCM file, or one for each channel with channel mode `separate`. */
  tracks: string[];
  durationMs: number;
  /** Channels of the recording. */
  channels: number;
  /** Warnings about the sound. */
  warnings: Warning[];
  /** How the file was read. */
  reading: Reading;
  /** Absent where the files of an earlier run are used. */
  outline?: Outline | undefined;
  /** The speech of each track, where another machine has found it already. */
  speech?: SpeechRegion[][];
};

/** Verification and decoding count the same samples. Only recordings that an older version verified differ a little. */
const VERIFIED_WITHIN_MS = 100;

/**
 * Decodes the recording. Uses the files of an earlier run where they still exist.
 *
 * @throws AppError when the audio cannot be decoded, is too long or is not what was verified; EngineError
 */
export async function decodeRecording(
  { recording, request }: RecognitionJob,
  limits: ChunkLimits,
  tools: RecognitionTools,
  signal: AbortSignal,
): Promise<DecodedRecording> {
  const warnings = tools.checkpoint.preparedWarnings();
  const { directory, verified, reading = {} } = recording;
  if (warnings && verified) {
    const tracks = trackPaths(directory, request.channelMode, verified.channels);
    if (tracks.every((path) => existsSync(path))) return { tracks, ...verified, warnings, reading };
  }
  return withRetries(tools, signal, () =>
    decodeInto(directory, { recording, limits, channelMode: request.channelMode }, tools, signal),
  );
}

type DecodeInput = Pick<RecognitionJob, "recording"> & { channelMode: ChannelMode; limits: ChunkLimits };

/**
 * Decodes into a new folder and renames it. A decoder that outlives a killed program may still write into the folder of its
 * own run.
 */
async function decodeInto(
  directory: string,
  { recording: { path, reading, verified }, channelMode, limits }: DecodeInput,
  { engine, clock, maxDurationMs }: RecognitionTools,
  signal: AbortSignal,
): Promise<DecodedRecording> {
  const unfinished = `${directory}.${process.pid}.${clock.now()}`;
  mkdirSync(unfinished, { recursive: true, mode: 0o700 });
  try {
    const job: DecodeJob = {
      path,
      reading,
      directory: unfinished,
      channels: channelMode,
      maxDurationMs: Math.max(verified?.durationMs ?? 0, maxDurationMs),
    };
    const expected = verified && {
      durationMs: verified.durationMs,
      withinMs: VERIFIED_WITHIN_MS,
      tracks: recognizedChannels({ channelMode, channels: verified.channels }),
    };
    const prepared = expected && (await engine.elsewhere?.prepare({ ...job, limits, expected }, signal));
    const decoded = prepared?.decoded ?? (await engine.decode(job, signal));
    const { durationMs, channels } = decoded;
    if (verified) requireVerifiedSound(verified, decoded, channelMode);
    rmSync(directory, { recursive: true, force: true });
    renameSync(unfinished, directory);
    return {
      tracks: decoded.files.map((file) => join(directory, basename(file))),
      ...(verified ?? { durationMs, channels }),
      warnings: audioWarnings(decoded.measurements, channelMode),
      outline: decoded.outline,
      reading: decoded.reading,
      ...(prepared ? { speech: prepared.speech } : {}),
    };
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}

/**
 * Refuses audio that differs from the verified audio, because the verified audio is charged.
 *
 * @throws AppError `transcription_failed` when the recording has another length, or another number of tracks
 */
function requireVerifiedSound(
  { durationMs, channels }: NonNullable<Recording["verified"]>,
  decoded: { durationMs: number; files: readonly string[] },
  channelMode: ChannelMode,
): void {
  const tracks = recognizedChannels({ channelMode, channels });
  const isAsLong = Math.abs(decoded.durationMs - durationMs) <= VERIFIED_WITHIN_MS;
  if (isAsLong && decoded.files.length === tracks) return;
  const found = `${decoded.durationMs} ms in ${decoded.files.length} tracks`;
  throw new AppError("transcription_failed", {
    message: `The recording decodes to ${found}, and was verified as ${durationMs} ms in ${tracks}.`,
  });
}

/** Returns the paths of the tracks that the decoder writes. */
function trackPaths(directory: string, channelMode: ChannelMode, channels: number): string[] {
  if (channelMode === "mix") return [join(directory, "mix.pcm")];
  return Array.from({ length: channels }, (_, channel) => join(directory, `channel_${channel}.pcm`));
}

/** Decoded audio has 16 bits. */
const BYTES_PER_SAMPLE = 2;

/** Called with all final chunks so far, while the detector still reads the rest. */
export type OnChunksFound = (chunks: readonly NewChunk[]) => void;

/** Decoded tracks, and their speech where it is known already. */
export type Tracks = {
  paths: readonly string[];
  speech?: readonly (readonly SpeechRegion[])[] | undefined;
  /** A track that fits into one chunk keeps its pauses. */
  keepsPauses?: boolean;
};

/**
 * Finds the speech of all tracks and packs it into chunks, in order of time.
 *
 * @param onChunks called only for a single track; with several tracks the order is not known before all are read
 * @throws EngineError
 */
export async function findChunks(
  { engine }: Pick<RecognitionTools, "engine">,
  { paths, speech, keepsPauses = false }: Tracks,
  limits: ChunkLimits,
  onChunks: OnChunksFound,
  signal: AbortSignal,
): Promise<NewChunk[]> {
  const isOnlyTrack = paths.length === 1;
  const perChannel = await Promise.all(
    paths.map(async (pcmPath, channel) => {
      const samples = Math.floor(statSync(pcmPath).size / BYTES_PER_SAMPLE);
      if (samples === 0) return [];
      const packed = async (regions: readonly ChunkRegion[]): Promise<NewChunk[]> => {
        const chunks = await pack(regions, limits);
        return (keepsPauses ? withWholeTrack(chunks, samples, limits) : chunks).map((chunk) => ({
          ...chunk,
          channel,
        }));
      };
      const known = speech?.[channel];
      if (known) return packed(known);
      const found: NewChunk[] = [];
      const packer = createPacker(limits);
      const onFound = (regions: ChunkRegion[]) => {
        // The last chunk may still grow.
        for (const chunk of packer.add(regions)) found.push({ ...chunk, channel });
        onChunks(found);
      };
      const job = { pcmPath, limits };
      const all = await engine.detectSpeech(job, signal, isOnlyTrack ? onFound : undefined);
      return packed(all);
    }),
  );
  return perChannel.flat().sort((a, b) => a.startMs - b.startMs || a.channel - b.channel);
}

/** Packs all regions of a track. Other work runs meanwhile. */
async function pack(regions: readonly ChunkRegion[], limits: ChunkLimits): Promise<Chunk[]> {
  const packer = createPacker(limits);
  const chunks = await inSlices(regions, (slice) => packer.add(slice));
  chunks.push(...packer.end());
  return chunks;
}
