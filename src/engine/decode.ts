import { randomBytes } from "node:crypto";
import { readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { AudioFacts } from "../domain/audio.ts";
import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import { DecodeError, requireReport, tooLong } from "./decode-failure.ts";
import { runDecoder } from "./decoder-process.ts";
import { type DecoderReport, factsOf, isTruncated, type LevelsReport } from "./decoder-report.ts";
import type { NativeFiles } from "./native-files.ts";
import { gainFor } from "./quiet-tracks.ts";
import { readWavExtent } from "./wav-extent.ts";

export { DecodeError, type DecodeFailure } from "./decode-failure.ts";

/** Decoded audio is 16 kHz, signed 16 bit, little endian, without a header: what whisper and Silero want. */
export const DECODED_BYTES_PER_SAMPLE = 2;

/** One mono file at this path, or in this folder `mix.pcm`, or `channel_0.pcm`, `channel_1.pcm`, … */
export type DecodeTarget = string | { directory: string; channels: "mix" | "separate" };

export type DecodeOptions = {
  output: DecodeTarget;
  /** Longer recordings are refused (`too_long`). */
  maxDurationMs: number;
  /** Wall-clock time for the whole call. */
  timeoutMs: number;
  signal?: AbortSignal;
  /** Receives the audio decoded so far, about twice a second. */
  onProgress?: (decodedMs: number) => void;
};

export type DecodedAudio = {
  durationMs: number;
  /** For each file. */
  samples: number;
  /** Of the recording, whatever the target. */
  channels: number;
  files: string[];
  facts: AudioFacts;
};

/** What is known of a recording that was decoded without keeping the sound. */
export type CountedAudio = {
  durationMs: number;
  /** The highest number that any part of the recording has. */
  channels: number;
  /** Of the recording's beginning. */
  sampleRateHz: number;
  /** Sound is missing that the file claims to hold. */
  truncated: boolean;
};

/**
 * Decodes a recording to 16 kHz files on its own clock: gaps in its time stamps are silence, and recordings that were
 * joined byte by byte follow each other. Channels, sample rate and codec may change midway; mono parts of a recording
 * with several channels go to its first track.
 *
 * The decoder writes the files itself, so that no sample passes through this process. Quiet files are amplified, each
 * by itself. A file that breaks off is decoded as far as it goes (`facts.truncated`). The files appear whole or not
 * at all, and replace those of an earlier call. Two calls at once must not share a target.
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
  const { directory, name, isSeparate } = placeOf(options.output);
  // A decoder that outlived a killed parent may still be writing: never the same file twice.
  const suffix = `.${randomBytes(6).toString("hex")}${UNFINISHED}`;
  const prefix = join(directory, name);
  await removeUnfinished(directory, name, isSeparate);
  try {
    const target = isSeparate ? ["separate", prefix, `.pcm${suffix}`] : ["mix", prefix, suffix];
    const { report, overstated } = await runOn(
      nativeFiles.decoder,
      "decode",
      path,
      target,
      deadlineMs,
      options,
    );
    const found = report as DecoderReport & LevelsReport;
    const durationMs = acceptedDurationMs(found, options.maxDurationMs);
    const files = found.tracks.map((_, index) => (isSeparate ? `${prefix}${index}.pcm` : prefix));
    for (const [index, file] of files.entries()) {
      const gainDb = gainFor(found.tracks[index]?.loudest_db ?? 0);
      if (gainDb > 0) await amplify(nativeFiles.decoder, `${file}${suffix}`, gainDb, deadlineMs, options);
    }
    for (const file of files) await rename(`${file}${suffix}`, file);
    const facts = factsOf(found, isTruncated(found, overstated, durationMs));
    return { durationMs, samples: found.samples, channels: found.channels, files, facts };
  } finally {
    await removeUnfinished(directory, name, isSeparate, suffix);
  }
}

/**
 * Decodes a recording and throws the sound away: proves that it can be decoded, and how long it really is. The
 * duration counts decoded samples; nothing that the file says about itself enters it.
 *
 * @param path a seekable regular file
 * @throws DecodeError
 */
export async function countAudio(
  nativeFiles: Pick<NativeFiles, "decoder">,
  path: string,
  options: Omit<DecodeOptions, "output">,
): Promise<CountedAudio> {
  const deadlineMs = performance.now() + options.timeoutMs;
  const { report, overstated } = await runOn(nativeFiles.decoder, "count", path, [], deadlineMs, options);
  const found = report as DecoderReport;
  const durationMs = acceptedDurationMs(found, options.maxDurationMs);
  const { channels, sample_rate_hz: sampleRateHz } = found;
  return { durationMs, channels, sampleRateHz, truncated: isTruncated(found, overstated, durationMs) };
}

const UNFINISHED = ".unfinished";

/** Where decoded files go: `name` is a whole file name, or with `isSeparate` the beginning of one. */
function placeOf(output: DecodeTarget): { directory: string; name: string; isSeparate: boolean } {
  if (typeof output === "string") {
    return { directory: dirname(output), name: basename(output), isSeparate: false };
  }
  const isSeparate = output.channels === "separate";
  return { directory: output.directory, name: isSeparate ? "channel_" : "mix.pcm", isSeparate };
}

type Limits = Pick<DecodeOptions, "maxDurationMs" | "signal" | "onProgress">;

async function runOn(
  decoder: string,
  verb: "count" | "decode",
  path: string,
  target: string[],
  deadlineMs: number,
  { maxDurationMs, signal, onProgress }: Limits,
): Promise<{ report: Record<string, unknown>; overstated: boolean }> {
  if ((await stat(path)).size === 0) throw new DecodeError("undecodable", "The file is empty.");
  const extent = await readWavExtent(path);
  const length = extent?.understated ? "understated" : extent?.overstated ? "overstated" : "right";
  const command = [decoder, verb, path, String(Math.round(maxDurationMs)), length, ...target];
  const outcome = await runDecoder(command, { timeoutMs: timeLeftMs(deadlineMs), signal, onProgress });
  return { report: requireReport(outcome), overstated: length === "overstated" };
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
 * Removes what an earlier attempt left: its result, and what a killed one had not finished.
 *
 * @param suffix of one attempt; without it, of all
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
