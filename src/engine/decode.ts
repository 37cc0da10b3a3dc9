import { randomBytes } from "node:crypto";
import { readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { AudioFacts } from "../domain/audio.ts";
import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import { isTruncated, readClippedRatio, readFacts } from "./decode-facts.ts";
import { DecodeError, refuseFailure, tooLong } from "./decode-failure.ts";
import { COUNT, clippingGraph, countingGraph, filterGraph } from "./decode-graphs.ts";
import { readLevels } from "./measures.ts";
import { type MediaLimits, type MediaOutcome, runMediaProgram } from "./media-process.ts";
import type { NativeFiles } from "./native-files.ts";
import { type AudioProbe, inputArguments, probeAudio } from "./probe.ts";
import { amplifiedName, amplifyQuiet } from "./quiet-tracks.ts";

export { DecodeError, type DecodeFailure } from "./decode-failure.ts";
export { type AudioProbe, probeAudio } from "./probe.ts";

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
  /** Called about twice a second with the audio decoded so far. */
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
  channels: number;
  sampleRateHz: number;
  container: string;
  codec: string;
  /** Sound is missing that the file was to hold. */
  truncated: boolean;
};

/** Decoding stops this long after the limit: enough to know that it is passed. */
const OVERRUN_MS = 1_000;

/**
 * Decodes a recording to 16 kHz files on its own clock: gaps in its time stamps are filled with silence.
 *
 * ffmpeg writes the files itself, so that no sample passes through this process, and measures them in passing; what
 * may be clipped or quiet is looked at once more, and quiet files are amplified, each by itself. A file that breaks
 * off is decoded as far as it goes (`facts.truncated`). The files appear whole or not at all, and replace those of an
 * earlier call. Two calls at once must not share a target.
 *
 * @param path a seekable regular file
 * @throws DecodeError
 */
export async function decodeAudio(
  nativeFiles: Pick<NativeFiles, "ffmpeg" | "ffprobe">,
  path: string,
  options: DecodeOptions,
): Promise<DecodedAudio> {
  const startedMs = performance.now();
  const probe = await probeWithin(nativeFiles, path, options);
  const files = outputFiles(options.output, probe.channels);
  // An ffmpeg that outlived a killed parent may still be writing: never the same file twice.
  const attempt = randomBytes(6).toString("hex");
  const unfinished = files.map((file) => `${file}.${attempt}${UNFINISHED}`);
  const outputs = unfinished.flatMap((file, index) => outputArguments(`[out${index}]`, file, options));
  const separate = typeof options.output !== "string" && options.output.channels === "separate";
  const maxFileBytes = samplesIn(options.maxDurationMs + OVERRUN_MS) * DECODED_BYTES_PER_SAMPLE + 4096;
  const limits = () => ({
    timeoutMs: Math.max(1, options.timeoutMs - (performance.now() - startedMs)),
    maxFileBytes,
  });
  for (const file of files) await removeLeftovers(file);
  try {
    const command = decodeCommand(nativeFiles.ffmpeg, path, probe, filterGraph(probe, separate), outputs);
    const outcome = await runDecoder(command, limits(), options);
    const samples = await samplesOf(unfinished);
    const durationMs = acceptedDurationMs(samples, outcome, options.maxDurationMs);
    const { facts, mayBeClipped, quietTracks } = readFacts(outcome, probe, durationMs, separate);
    const clippedRatio = mayBeClipped
      ? await clippedRatioOf(nativeFiles.ffmpeg, path, probe, limits, options)
      : 0;
    for (const index of quietTracks) {
      await amplifyQuiet(nativeFiles.ffmpeg, unfinished[index] ?? "", limits, options.signal);
    }
    for (const [index, file] of files.entries()) await rename(unfinished[index] ?? "", file);
    return { durationMs, samples, channels: probe.channels, files, facts: { ...facts, clippedRatio } };
  } finally {
    for (const file of unfinished) {
      await rm(file, { force: true });
      await rm(amplifiedName(file), { force: true });
    }
  }
}

/** The share of a recording's samples at full scale: decodes it once more, to see each sample. */
async function clippedRatioOf(
  ffmpeg: string,
  path: string,
  probe: AudioProbe,
  limits: () => MediaLimits,
  options: DecodeOptions,
): Promise<number> {
  const output = ["-map", "[out0]", ...outputLimit(options), "-f", "null", "-"];
  const command = decodeCommand(ffmpeg, path, probe, clippingGraph(), output);
  const outcome = await runMediaProgram(command, limits(), () => true, options.signal);
  refuseFailure(outcome);
  return readClippedRatio(outcome);
}

const UNFINISHED = ".unfinished";

/** Removes the result of an earlier attempt, and what a killed one left. */
async function removeLeftovers(file: string): Promise<void> {
  const name = basename(file);
  for (const entry of await readdir(dirname(file))) {
    const isLeftover = entry === name || (entry.startsWith(`${name}.`) && entry.endsWith(UNFINISHED));
    if (isLeftover) await rm(join(dirname(file), entry), { force: true });
  }
}

/**
 * Decodes a recording and throws the sound away: proves that it can be decoded, and how long it really is.
 *
 * @param path a seekable regular file
 * @throws DecodeError
 */
export async function countAudio(
  nativeFiles: Pick<NativeFiles, "ffmpeg" | "ffprobe">,
  path: string,
  options: Omit<DecodeOptions, "output">,
): Promise<CountedAudio> {
  const startedMs = performance.now();
  const probe = await probeWithin(nativeFiles, path, options);
  const output = ["-map", "[out0]", ...outputLimit(options), "-f", "null", "-"];
  const timeoutMs = Math.max(1, options.timeoutMs - (performance.now() - startedMs));
  const command = decodeCommand(nativeFiles.ffmpeg, path, probe, countingGraph(probe), output);
  const outcome = await runDecoder(command, { timeoutMs }, options);
  const { samples } = readLevels(outcome, COUNT);
  const durationMs = acceptedDurationMs(samples, outcome, options.maxDurationMs);
  const { channels, sampleRateHz, container, codec } = probe;
  const truncated = isTruncated(outcome, probe, durationMs);
  return { durationMs, channels, sampleRateHz, container, codec, truncated };
}

async function probeWithin(
  nativeFiles: Pick<NativeFiles, "ffprobe">,
  path: string,
  options: Omit<DecodeOptions, "output">,
): Promise<AudioProbe> {
  const { signal, timeoutMs, maxDurationMs } = options;
  const probe = await probeAudio(nativeFiles, path, {
    timeoutMs,
    ...(signal === undefined ? {} : { signal }),
  });
  // A file that claims more than it holds is decoded to see how much there is.
  if (!probe.overstatesSize && (probe.durationMs ?? 0) > maxDurationMs + OVERRUN_MS) throw tooLong();
  return probe;
}

function outputFiles(output: DecodeTarget, channels: number): string[] {
  if (typeof output === "string") return [output];
  if (output.channels === "mix") return [join(output.directory, "mix.pcm")];
  return Array.from({ length: channels }, (_, index) => join(output.directory, `channel_${index}.pcm`));
}

function outputArguments(
  label: string,
  file: string,
  options: Pick<DecodeOptions, "maxDurationMs">,
): string[] {
  return ["-map", label, ...outputLimit(options), "-c:a", "pcm_s16le", "-f", "s16le", "-y", `file:${file}`];
}

function outputLimit(options: Pick<DecodeOptions, "maxDurationMs">): string[] {
  return ["-t", ((options.maxDurationMs + OVERRUN_MS) / 1000).toFixed(3)];
}

function samplesIn(durationMs: number): number {
  return Math.ceil((durationMs * SAMPLE_RATE_HZ) / 1000);
}

function decodeCommand(
  ffmpeg: string,
  path: string,
  probe: AudioProbe,
  graph: string,
  outputs: string[],
): string[] {
  return [
    ...[ffmpeg, "-nostdin", "-hide_banner", "-loglevel", "info", "-nostats"],
    ...["-progress", "pipe:1", "-stats_period", "0.5"],
    // Damage in the middle is no reason to stop, however much of it there is.
    ...["-max_error_rate", "1", "-max_alloc", String(256 * 1024 * 1024)],
    ...["-threads", "1", "-filter_complex_threads", "1"],
    ...inputArguments(path, probe),
    ...["-filter_complex", graph],
    ...outputs,
  ];
}

async function runDecoder(
  command: string[],
  limits: { timeoutMs: number; maxFileBytes?: number },
  options: Pick<DecodeOptions, "signal" | "onProgress">,
): Promise<MediaOutcome> {
  let unfinishedLine = "";
  const onStdout = (text: string) => {
    const lines = (unfinishedLine + text).split("\n");
    unfinishedLine = lines.pop() ?? "";
    for (const line of lines) {
      const microseconds = /^out_time_us=(\d+)$/.exec(line)?.[1];
      if (microseconds !== undefined) options.onProgress?.(Math.round(Number(microseconds) / 1000));
    }
    return true;
  };
  return runMediaProgram(command, limits, onStdout, options.signal);
}

/** Of several channels the shortest counts; they differ only when writing stopped in between. */
async function samplesOf(files: string[]): Promise<number> {
  let bytes = Number.POSITIVE_INFINITY;
  for (const file of files) {
    const size = await stat(file).then(
      (found) => found.size,
      () => 0,
    );
    bytes = Math.min(bytes, size);
  }
  return Math.floor(bytes / DECODED_BYTES_PER_SAMPLE);
}

/** @throws DecodeError unless something was decoded, within the limits */
function acceptedDurationMs(samples: number, outcome: MediaOutcome, maxDurationMs: number): number {
  refuseFailure(outcome);
  if (samples === 0) throw new DecodeError("undecodable", "Nothing in the file could be decoded.");
  const durationMs = Math.round((samples * 1000) / SAMPLE_RATE_HZ);
  if (durationMs > maxDurationMs) throw tooLong();
  return durationMs;
}
