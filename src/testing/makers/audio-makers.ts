import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** Functions that make small recordings. WAV is made here. Other formats need the system's ffmpeg, which may be missing. */

/** Returns a generator of numbers in [0, 1), the same for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export type WavOptions = {
  seconds: number;
  rateHz?: number;
  channels?: number;
  /** Values of the header that differ from the audio. */
  claims?: { rateHz?: number; dataBytes?: number };
  /** The sound of all channels at a time in seconds, within −1 to 1; left out: the tones. */
  sample?: (t: number) => number;
};

/** Makes a WAV of 16-bit PCM, by itself with a different tone in each channel, loud and soft in turns. */
export function makeWav({
  seconds,
  rateHz = 16_000,
  channels = 1,
  claims = {},
  sample: soundAt,
}: WavOptions): Uint8Array<ArrayBuffer> {
  const samples = Math.round(seconds * rateHz);
  const dataBytes = samples * channels * 2;
  const out = new Uint8Array(44 + dataBytes);
  const view = new DataView(out.buffer);
  const text = (at: number, value: string) => out.set(new TextEncoder().encode(value), at);
  const claimedRate = claims.rateHz ?? rateHz;
  const claimedBytes = claims.dataBytes ?? dataBytes;
  text(0, "RIFF");
  view.setUint32(4, (36 + claimedBytes) >>> 0, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, channels, true);
  view.setUint32(24, claimedRate, true);
  view.setUint32(28, (claimedRate * channels * 2) >>> 0, true);
  view.setUint16(32, channels * 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, claimedBytes >>> 0, true);
  for (let index = 0; index < samples; index += 1) {
    const loudness = 6_000 + 5_000 * Math.sin((2 * Math.PI * 3 * index) / rateHz);
    for (let channel = 0; channel < channels; channel += 1) {
      const hertz = 220 * (channel + 1);
      const tone = loudness * Math.sin((2 * Math.PI * hertz * index) / rateHz);
      const sample = soundAt ? soundAt(index / rateHz) * 32_767 : tone;
      view.setInt16(44 + (index * channels + channel) * 2, sample, true);
    }
  }
  return out;
}

export type EncodedFormat = {
  /** File name. Its extension chooses the container. */
  name: string;
  /** Name of the encoder in ffmpeg. */
  encoder: string;
  options: readonly string[];
  channels: number;
  /** Tolerance of the decoded duration, because of the codec's frame sizes and delays. */
  toleranceMs: number;
};

const telephone = ["-ac", "1", "-ar", "8000"];
const wide = ["-ac", "1", "-ar", "16000"];
const picture = ["-f", "lavfi", "-i", "testsrc=size=64x48:rate=5:duration=3", "-c:v", "mpeg4", "-shortest"];

function format(
  name: string,
  encoder: string,
  options: readonly string[] = [],
  channels = 2,
  toleranceMs = 100,
): EncodedFormat {
  return { name, encoder, options, channels, toleranceMs };
}

/** The formats of telephony, phones, recorders and the web, one small file each. */
export const ENCODED_FORMATS: readonly EncodedFormat[] = [
  format("pcm8.wav", "pcm_u8", telephone, 1, 1),
  format("pcm16-8k-stereo.wav", "pcm_s16le", ["-ar", "8000"], 2, 1),
  format("pcm24.wav", "pcm_s24le", [], 2, 1),
  format("pcm32.wav", "pcm_s32le", [], 2, 1),
  format("float.wav", "pcm_f32le", [], 2, 1),
  format("alaw.wav", "pcm_alaw", telephone, 1, 1),
  format("mulaw-stereo.wav", "pcm_mulaw", ["-ar", "8000"], 2, 1),
  format("ima.wav", "adpcm_ima_wav"),
  format("ms.wav", "adpcm_ms"),
  format("gsm.wav", "libgsm_ms", telephone, 1),
  format("g722.wav", "g722", wide, 1),
  format("rf64.wav", "pcm_s16le", ["-rf64", "always"], 2, 1),
  format("a.w64", "pcm_s16le", [], 2, 1),
  format("a.aiff", "pcm_s16be", [], 2, 1),
  format("a.caf", "pcm_s16be", [], 2, 1),
  format("a.au", "pcm_mulaw", telephone, 1, 1),
  format("cbr.mp3", "libmp3lame", ["-b:a", "64k"]),
  format("vbr.mp3", "libmp3lame", ["-q:a", "5"]),
  format("a.aac", "aac", ["-f", "adts"]),
  format("index-at-end.m4a", "aac"),
  format("index-at-start.m4a", "aac", ["-movflags", "+faststart"]),
  format("alac.m4a", "alac", [], 2, 1),
  format("video.mp4", "aac", picture),
  format("video.mov", "aac", picture),
  format("video.mkv", "aac", picture),
  format("audio.webm", "libopus"),
  format("vorbis.ogg", "libvorbis"),
  format("opus.ogg", "libopus"),
  format("speex.ogg", "libspeex", wide, 1),
  format("a.flac", "flac", [], 2, 1),
  format("nb.amr", "libopencore_amrnb", telephone, 1),
  format("wb.amr", "libvo_amrwbenc", wide, 1),
  format("aac.3gp", "aac"),
  format("a.wma", "wmav2", [], 2, 150),
  format("a.ts", "aac", ["-f", "mpegts"]),
];

/** Returns the formats that the system's ffmpeg can encode. Without ffmpeg there are none. */
export function systemEncoders(): ReadonlySet<string> {
  const ffmpeg = Bun.which("ffmpeg");
  if (ffmpeg === null) return new Set();
  const { stdout } = Bun.spawnSync([ffmpeg, "-hide_banner", "-encoders"], { stderr: "ignore" });
  return new Set([...stdout.toString().matchAll(/^ [A-Z.]{6} (\S+)/gm)].map((match) => match[1] ?? ""));
}

/**
 * Encodes a WAV with the system's ffmpeg.
 *
 * @param isLive ffmpeg writes to a pipe, so that it cannot go back to write a length
 * @returns the path of the new file in the folder
 */
export function encodeFormat(
  folder: string,
  source: Uint8Array,
  { name, encoder, options }: EncodedFormat,
  isLive = false,
): string {
  const path = join(folder, name);
  const input = `${path}.source`;
  writeFileSync(input, source);
  const output = isLive ? "pipe:1" : path;
  const arguments_ = ["-v", "error", "-y", "-i", input, ...options, "-c:a", encoder, "-strict", "-2", output];
  const { exitCode, stdout, stderr } = Bun.spawnSync([Bun.which("ffmpeg") ?? "ffmpeg", ...arguments_]);
  if (exitCode !== 0) throw new Error(`${name}: ${stderr.toString()}`);
  if (isLive) writeFileSync(path, stdout);
  return path;
}
