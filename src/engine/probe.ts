import { stat } from "node:fs/promises";
import { DecodeError, refuseEarlyEnd } from "./decode-failure.ts";
import { type MediaOutcome, runMediaProgram } from "./media-process.ts";
import type { NativeFiles } from "./native-files.ts";
import { readWavExtent } from "./wav-extent.ts";

/** What a file says about its first audio stream. Nothing here is proven before it is decoded. */
export type AudioProbe = {
  /** FFmpeg's name, such as `wav` or `mov,mp4,m4a,3gp,3g2,mj2`. */
  container: string;
  /** FFmpeg's name, such as `pcm_s16le` or `aac`. */
  codec: string;
  channels: number;
  /** FFmpeg's name, such as `stereo` or `5.1`; undefined when the file does not say which channel is where. */
  channelLayout: string | undefined;
  sampleRateHz: number;
  /** As the header or index says; undefined when neither does or it is a guess from the bit rate. */
  durationMs: number | undefined;
  /** The header names fewer bytes of audio than the file holds: the rest is to be read as well. */
  understatesSize: boolean;
  /** The header names more bytes of audio than the file holds. */
  overstatesSize: boolean;
};

export type ProbeOptions = { signal?: AbortSignal; timeoutMs: number };

const MIN_SAMPLE_RATE_HZ = 4_000;
const MAX_SAMPLE_RATE_HZ = 768_000;
/** As many as decode.ts can split; models allow fewer (`limits.max_channels`). */
const MAX_CHANNELS = 32;
/** One stream and the format take less than 2 KiB. */
const MAX_REPORT_CHARACTERS = 64 * 1024;

/**
 * Reads the headers of an audio or video file.
 *
 * @param path a seekable regular file; its name plays no part
 * @throws DecodeError when it is no media file, has no audio, or claims an absurd rate or channel count
 */
export async function probeAudio(
  nativeFiles: Pick<NativeFiles, "ffprobe">,
  path: string,
  options: ProbeOptions,
): Promise<AudioProbe> {
  if ((await stat(path)).size === 0) throw new DecodeError("undecodable", "The file is empty.");
  const extent = await readWavExtent(path);
  const understatesSize = extent?.understated ?? false;
  const { text, outcome } = await runProbe(nativeFiles.ffprobe, path, understatesSize, options);
  const report = parseReport(text, outcome);
  const stream = report.streams?.[0];
  if (stream === undefined) throw new DecodeError("no_audio", "The file has no audio stream.");
  const probe: AudioProbe = {
    container: report.format?.format_name ?? "",
    codec: stream.codec_name ?? "",
    channels: stream.channels ?? 0,
    channelLayout: stream.channel_layout,
    sampleRateHz: Number(stream.sample_rate ?? 0),
    durationMs: claimedDurationMs(report, outcome),
    understatesSize,
    overstatesSize: extent?.overstated ?? false,
  };
  refuseAbsurd(probe);
  return probe;
}

/** Bytes that ffmpeg reads of a WAV file at a time; its own 4 KiB cost more in switches between its threads than decoding. */
const WAV_PACKET_BYTES = 64 * 1024;

/**
 * Options for ffmpeg and ffprobe before `-i`, and `-i` itself. Nothing but this file may be opened.
 *
 * @param probe as far as it is known
 */
export function inputArguments(
  path: string,
  probe: Pick<AudioProbe, "understatesSize"> & Partial<Pick<AudioProbe, "container">>,
): string[] {
  return [
    ...["-protocol_whitelist", "file,fd,pipe", "-max_streams", "64"],
    ...(probe.understatesSize ? ["-f", "wav", "-ignore_length", "1"] : []),
    ...(probe.container === "wav" ? ["-max_size", String(WAV_PACKET_BYTES)] : []),
    // After "file:" every character is taken as it is.
    ...["-i", `file:${path}`],
  ];
}

type Report = {
  streams?: {
    codec_name?: string;
    channels?: number;
    channel_layout?: string;
    sample_rate?: string;
    duration?: string;
  }[];
  format?: { format_name?: string; nb_streams?: number; duration?: string };
};

async function runProbe(ffprobe: string, path: string, understatesSize: boolean, options: ProbeOptions) {
  const command = [
    ...[ffprobe, "-hide_banner", "-loglevel", "warning", "-print_format", "json", "-select_streams", "a:0"],
    "-show_entries",
    "format=format_name,nb_streams,duration:stream=codec_name,channels,channel_layout,sample_rate,duration",
    ...inputArguments(path, { understatesSize }),
  ];
  let text = "";
  const outcome = await runMediaProgram(
    command,
    { timeoutMs: options.timeoutMs },
    (more) => {
      text += more;
      return text.length <= MAX_REPORT_CHARACTERS;
    },
    options.signal,
  );
  return { text, outcome };
}

function parseReport(text: string, outcome: MediaOutcome): Report {
  refuseEarlyEnd(outcome);
  if (outcome.status !== 0) {
    throw new DecodeError("undecodable", "The file is not in a known audio format, or is damaged.");
  }
  return JSON.parse(text) as Report;
}

/** A length guessed from the bit rate is far off for variable rates; of several streams only the stream's own counts. */
function claimedDurationMs(report: Report, outcome: MediaOutcome): number | undefined {
  if (/Estimating duration from bitrate/.test(outcome.stderr)) return undefined;
  const own = report.streams?.[0]?.duration;
  const seconds = Number(own ?? (report.format?.nb_streams === 1 ? report.format.duration : undefined));
  return Number.isFinite(seconds) && seconds > 0 ? Math.round(seconds * 1000) : undefined;
}

function refuseAbsurd(probe: AudioProbe): void {
  if (probe.codec === "" || probe.codec === "unknown") {
    throw new DecodeError("undecodable", "The audio's codec is not known.");
  }
  if (probe.channels < 1 || probe.channels > MAX_CHANNELS) {
    throw new DecodeError("undecodable", `The audio claims ${probe.channels} channels.`);
  }
  if (!(probe.sampleRateHz >= MIN_SAMPLE_RATE_HZ && probe.sampleRateHz <= MAX_SAMPLE_RATE_HZ)) {
    throw new DecodeError("undecodable", `The audio claims a sample rate of ${probe.sampleRateHz} Hz.`);
  }
}
