import { randomBytes } from "node:crypto";
import { readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { AudioMeasurements, VerifiedAudio } from "../../domain/audio.ts";
import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import type { Outline } from "../../domain/outline.ts";
import type { Reading, TrackChoice } from "../../domain/reading.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import { DecodeError, requireReport, tooLong } from "./decode-failure.ts";
import { runDecoder } from "./decoder-process.ts";
import { type DecoderReport, isTruncated, type LevelsReport, measurementsOf } from "./decoder-report.ts";
import { takeOutline } from "./outline.ts";
import { gainFor } from "./quiet-tracks.ts";
import { foundReading, readingArguments } from "./reading-argument.ts";

export { DecodeError } from "./decode-failure.ts";

/** A path for one mono file, or a folder for `mix.pcm`, or for `channel_0.pcm`, `channel_1.pcm` and so on. */
export type DecodeTarget = string | { directory: string; channels: "mix" | "separate" };

export type DecodeOptions = {
  output: DecodeTarget;
  /** How the file is read. Left out: the decoder finds it. */
  reading?: Reading | undefined;
  /** Which audio tracks are read where `reading` does not say it. Default: one. */
  tracks?: TrackChoice | undefined;
  /** Longer recordings are refused with `too_long`. */
  maxDurationMs: number;
  /** Milliseconds that the whole call may take. */
  timeoutMs: number;
  signal?: AbortSignal;
  /** Receives the length of the audio decoded so far, about twice a second. */
  onProgress?: (decodedMs: number) => void;
};

export type DecodedAudio = {
  durationMs: number;
  /** Number of samples in each file. */
  samples: number;
  /** Channels of the recording, also when they were mixed. */
  channels: number;
  files: string[];
  measurements: AudioMeasurements;
  /** The outline of the sound before quiet files are amplified. */
  outline: Outline;
  /** How the file was read. */
  reading: Reading;
};

/**
 * Decodes a recording to files of 16 kHz samples (pcm-file.ts) on the recording's own clock: gaps in its time stamps
 * become silence, and recordings that were joined byte by byte follow each other. Channels, sample rate and codec may
 * change within a recording; mono parts of a recording with several channels go to its first track.
 *
 * The decoder writes the files itself, so no sample passes through this process. Each quiet file is amplified. A
 * recording that breaks off is decoded up to there (`measurements.truncated`). The files appear complete or not at all, and
 * replace those of an earlier call. Two calls at once must not share a target.
 *
 * @param path a seekable regular file
 * @throws DecodeError
 */
export async function decodeAudio(
  nativeFiles: Pick<NativeFiles, "decoder">,
  path: string,
  options: DecodeOptions,
): Promise<DecodedAudio> {
  const deadlineMs = performance.now() + options.timeoutMs;
  const { directory, name, isSeparate } = locate(options.output);
  // A decoder that outlived a killed parent may still write, so each call uses new names.
  const suffix = `.${randomBytes(6).toString("hex")}${UNFINISHED}`;
  const prefix = join(directory, name);
  await removeUnfinished(directory, name, isSeparate);
  try {
    const outlineFile = `${prefix}${isSeparate ? "" : "."}outline${suffix}`;
    const target = isSeparate
      ? ["separate", prefix, `.pcm${suffix}`, outlineFile]
      : ["mix", prefix, suffix, outlineFile];
    const report = await runOn(nativeFiles.decoder, "decode", path, target, deadlineMs, options);
    const found = report as DecoderReport & LevelsReport;
    const durationMs = acceptedDurationMs(found, options.maxDurationMs);
    const files = found.tracks.map((_, index) => (isSeparate ? `${prefix}${index}.pcm` : prefix));
    for (const [index, file] of files.entries()) {
      const gainDb = gainFor(found.tracks[index]?.loudest_db ?? 0);
      if (gainDb > 0) await amplify(nativeFiles.decoder, `${file}${suffix}`, gainDb, deadlineMs, options);
    }
    const outline = await takeOutline(outlineFile);
    for (const file of files) await rename(`${file}${suffix}`, file);
    const measurements = measurementsOf(found, isTruncated(found, durationMs));
    const { samples, channels } = found;
    const reading = foundReading(options.reading ?? {}, found);
    return { durationMs, samples, channels, files, measurements, outline, reading };
  } finally {
    await removeUnfinished(directory, name, isSeparate, suffix);
  }
}

/**
 * Decodes a recording to its end and discards the sound. This proves that it can be decoded, and shows its true length:
 * the duration counts decoded samples and ignores what the file claims.
 *
 * @param path a seekable regular file
 * @throws DecodeError
 */
export async function countAudio(
  nativeFiles: Pick<NativeFiles, "decoder">,
  path: string,
  options: Omit<DecodeOptions, "output">,
): Promise<VerifiedAudio> {
  const deadlineMs = performance.now() + options.timeoutMs;
  const report = await runOn(nativeFiles.decoder, "count", path, [], deadlineMs, options);
  const found = report as DecoderReport;
  const durationMs = acceptedDurationMs(found, options.maxDurationMs);
  const { channels, sample_rate_hz: sampleRateHz } = found;
  const truncated = isTruncated(found, durationMs);
  return {
    durationMs,
    channels,
    sampleRateHz,
    truncated,
    reading: foundReading(options.reading ?? {}, found),
  };
}

/**
 * Decodes a recording to its end and keeps only its outline.
 *
 * @param path a seekable regular file
 * @param options.file a path that is free; the file is gone again afterwards
 * @throws DecodeError
 */
export async function outlineAudio(
  nativeFiles: Pick<NativeFiles, "decoder">,
  path: string,
  {
    channels,
    file,
    ...options
  }: Omit<DecodeOptions, "output"> & { channels: "mix" | "separate"; file: string },
): Promise<Outline> {
  const deadlineMs = performance.now() + options.timeoutMs;
  try {
    await runOn(nativeFiles.decoder, "outline", path, [channels, resolve(file)], deadlineMs, options);
    return await takeOutline(file);
  } finally {
    await rm(file, { force: true });
  }
}

const UNFINISHED = ".unfinished";

/** Returns where decoded files go: `name` is a file name, or with `isSeparate` the beginning of file names. */
function locate(output: DecodeTarget): { directory: string; name: string; isSeparate: boolean } {
  if (typeof output === "string") {
    return { directory: dirname(resolve(output)), name: basename(output), isSeparate: false };
  }
  const isSeparate = output.channels === "separate";
  return { directory: resolve(output.directory), name: isSeparate ? "channel_" : "mix.pcm", isSeparate };
}

type Limits = Pick<DecodeOptions, "reading" | "tracks" | "maxDurationMs" | "signal" | "onProgress">;

async function runOn(
  decoder: string,
  verb: "count" | "decode" | "outline",
  path: string,
  target: string[],
  deadlineMs: number,
  { reading = {}, tracks, maxDurationMs, signal, onProgress }: Limits,
): Promise<Record<string, unknown>> {
  if ((await stat(path)).size === 0) throw new DecodeError("undecodable", "The file is empty.");
  const input = [resolve(path), String(Math.round(maxDurationMs)), ...readingArguments(reading, tracks)];
  const command = [decoder, verb, ...input, ...target];
  const outcome = await runDecoder(command, { timeoutMs: timeLeftMs(deadlineMs), signal, onProgress });
  return requireReport(outcome);
}

async function amplify(
  decoder: string,
  file: string,
  gainDb: number,
  deadlineMs: number,
  { signal }: Limits,
): Promise<void> {
  const command = [decoder, "amplify", file, String(10 ** (gainDb / 20))];
  requireReport(await runDecoder(command, { timeoutMs: timeLeftMs(deadlineMs), signal }));
}

function timeLeftMs(deadlineMs: number): number {
  return Math.max(1, deadlineMs - performance.now());
}

/**
 * Removes files of an earlier call: its results, and unfinished files of a killed decoder.
 *
 * @param suffix of one call's unfinished files; without it, results and unfinished files of all calls
 */
async function removeUnfinished(
  directory: string,
  name: string,
  isSeparate: boolean,
  suffix?: string,
): Promise<void> {
  for (const entry of await readdir(directory)) {
    const isTrack = isSeparate ? entry.startsWith(name) : entry === name || entry.startsWith(`${name}.`);
    const isOurs =
      suffix === undefined
        ? entry.endsWith(UNFINISHED) || isResult(entry, name, isSeparate)
        : entry.endsWith(suffix);
    if (isTrack && isOurs) await rm(join(directory, entry), { force: true });
  }
}

function isResult(entry: string, name: string, isSeparate: boolean): boolean {
  return isSeparate ? /^channel_\d+\.pcm$/.test(entry) : entry === name;
}

/** @throws DecodeError when the recording exceeds the limit */
function acceptedDurationMs({ samples }: DecoderReport, maxDurationMs: number): number {
  const durationMs = Math.round((samples * 1000) / SAMPLE_RATE_HZ);
  if (durationMs > maxDurationMs) throw tooLong();
  return durationMs;
}
