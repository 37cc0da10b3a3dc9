import { readFileSync } from "node:fs";
import { encodeFormat, makeWav, seededRandom } from "./audio-makers.ts";

/** Recordings in every container, and what happens to files: they break off, get a wrong length or bytes behind them. */

export type Container = {
  /** The file's name; its ending chooses the container. */
  name: string;
  encoder: string;
  options?: readonly string[];
  /** Length of a frame, and the delay of the codec: the sound may be so much longer or shorter. */
  frameMs?: number;
  /** The file is written as to a pipe, so that no length is in it. */
  isLive?: boolean;
  /** Changes what ffmpeg has written. */
  make?: (bytes: Buffer) => Buffer;
  /** Writes another length into all fields that name it. */
  setLength?: SetLength;
  /** A recorder that lost power leaves a length of the past, and sound behind it. */
  isGrowing?: boolean;
  /** Nothing says where the sound ends, so that only whole samples are expected. */
  hasNoEnd?: boolean;
  /** The file has time stamps, which may begin anywhere. */
  hasClock?: boolean;
  /** The last bytes are padding or a tag. */
  isPadded?: boolean;
  /** The index is at the end, and without it there is no sound. */
  isLostWhenCut?: boolean;
  /** Frames follow each other, so that only tags which programs find from the end are behind them. */
  isStream?: boolean;
};

export type Length = "zero" | "third" | "double";
type SetLength = (bytes: Buffer, to: Length) => void;
const FACTORS: Record<Length, number> = { zero: 0, third: 1 / 3, double: 2 };

/** Returns where a text is in a file. */
function find(bytes: Buffer, text: string, from = 0): number {
  const at = bytes.indexOf(Buffer.from(text, "latin1"), from);
  if (at < 0) throw new Error(`no ${text}`);
  return at;
}

type Order = "LE" | "BE";

function set32(bytes: Buffer, at: number, order: Order, to: Length): void {
  const old = order === "LE" ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at);
  const value = Math.floor(old * FACTORS[to]);
  if (order === "LE") bytes.writeUInt32LE(value, at);
  else bytes.writeUInt32BE(value, at);
}

function set64(bytes: Buffer, at: number, order: Order, to: Length): void {
  const old = order === "LE" ? bytes.readBigUInt64LE(at) : bytes.readBigUInt64BE(at);
  const value = BigInt(Math.floor(Number(old) * FACTORS[to]));
  if (order === "LE") bytes.writeBigUInt64LE(value, at);
  else bytes.writeBigUInt64BE(value, at);
}

/** A chunk's length is behind its name, and that of the whole file behind the first name. */
const chunkLengths =
  (name: string, order: Order = "LE"): SetLength =>
  (bytes, to) => {
    set32(bytes, 4, order, to);
    set32(bytes, find(bytes, name) + 4, order, to);
  };

const WAV = chunkLengths("data");

/** Makes RIFX of a WAV file of 16-bit samples: all numbers are big-endian. */
function rifxOf(wav: Buffer): Buffer {
  const out = Buffer.from(wav);
  out.write("RIFX", 0);
  const data = find(wav, "data") + 8;
  for (const at of [4, 16, 24, 28, data - 4]) out.writeUInt32BE(wav.readUInt32LE(at), at);
  for (const at of [20, 22, 32, 34]) out.writeUInt16BE(wav.readUInt16LE(at), at);
  return Buffer.concat([out.subarray(0, data), Buffer.from(out.subarray(data)).swap16()]);
}

/** Says of an extensible WAV file of 32-bit samples that 24 bits of them are used. */
function with24Bits(wav: Buffer): Buffer {
  const out = Buffer.from(wav);
  out.writeUInt16LE(24, find(wav, "fmt ") + 8 + 18);
  return out;
}

/** Name and size of Matroska's length, in front of eight bytes. */
const DURATION = Buffer.from([0x44, 0x89, 0x88]);

const TELEPHONE = ["-ar", "8000"];
const BITEXACT = ["-fflags", "+bitexact"];
const FRAGMENTS = ["-movflags", "frag_keyframe+empty_moov", "-frag_duration", "1000000"];

/** Uncompressed sound, whose header names its bytes. */
const SAMPLES: readonly Container[] = [
  { name: "s16.wav", encoder: "pcm_s16le", options: BITEXACT, setLength: WAV },
  { name: "s24.wav", encoder: "pcm_s24le", setLength: WAV },
  { name: "s24-in-32.wav", encoder: "pcm_s32le", make: with24Bits, setLength: WAV },
  { name: "u8.wav", encoder: "pcm_u8", options: TELEPHONE, setLength: WAV },
  { name: "mulaw.wav", encoder: "pcm_mulaw", options: TELEPHONE, setLength: WAV },
  {
    name: "rifx.wav",
    encoder: "pcm_s16le",
    options: BITEXACT,
    make: rifxOf,
    setLength: chunkLengths("data", "BE"),
  },
  {
    name: "rf64.wav",
    encoder: "pcm_s16le",
    options: ["-rf64", "always"],
    setLength: (bytes, to) => {
      set64(bytes, find(bytes, "ds64") + 8, "LE", to);
      set64(bytes, find(bytes, "ds64") + 16, "LE", to);
    },
  },
  {
    name: "bw64.wav",
    encoder: "pcm_s16le",
    options: ["-rf64", "always"],
    make: (bytes) => Buffer.concat([Buffer.from("BW64"), bytes.subarray(4)]),
    setLength: (bytes, to) => set64(bytes, find(bytes, "ds64") + 16, "LE", to),
  },
  {
    name: "a.w64",
    encoder: "pcm_s16le",
    setLength: (bytes, to) => {
      set64(bytes, 16, "LE", to);
      set64(bytes, find(bytes, "data\xf3\xac\xd3\x11") + 16, "LE", to);
    },
  },
  { name: "a.aiff", encoder: "pcm_s16be", setLength: chunkLengths("SSND", "BE") },
  { name: "sowt.aifc", encoder: "pcm_s16le", options: ["-f", "aiff"], setLength: chunkLengths("SSND", "BE") },
  { name: "a.au", encoder: "pcm_s16be", setLength: (bytes, to) => set32(bytes, 8, "BE", to) },
  {
    name: "a.caf",
    encoder: "pcm_s16be",
    setLength: (bytes, to) => set64(bytes, find(bytes, "data") + 4, "BE", to),
  },
];

/** Compressed sound, and containers of pictures and sound. */
const OTHERS: readonly Container[] = [
  { name: "ima.wav", encoder: "adpcm_ima_wav", frameMs: 130, setLength: WAV },
  { name: "alaw.caf", encoder: "pcm_alaw", options: TELEPHONE },
  { name: "opus.ogg", hasClock: true, encoder: "libopus", frameMs: 30 },
  { name: "vorbis.ogg", hasClock: true, encoder: "libvorbis", frameMs: 130 },
  { name: "flac.oga", hasClock: true, encoder: "flac", options: ["-f", "ogg"], frameMs: 40 },
  { name: "speex.spx", hasClock: true, encoder: "libspeex", options: ["-f", "ogg"], frameMs: 40 },
  {
    name: "a.wma",
    hasClock: true,
    encoder: "wmav2",
    frameMs: 150,
    setLength: (bytes, to) => set64(bytes, find(bytes, "\x36\x26\xb2\x75\x8e\x66\xcf\x11") + 16, "LE", to),
  },
  {
    name: "pcm.avi",
    encoder: "pcm_s16le",
    setLength: (bytes, to) => set32(bytes, 4, "LE", to),
    frameMs: 100,
  },
  { name: "mp3.avi", encoder: "libmp3lame", frameMs: 100 },
  {
    name: "start.m4a",
    hasClock: true,
    encoder: "aac",
    options: ["-movflags", "+faststart"],
    frameMs: 130,
    setLength: (bytes, to) => set32(bytes, find(bytes, "mdat") - 4, "BE", to),
  },
  { name: "end.m4a", encoder: "aac", frameMs: 130, isLostWhenCut: true },
  { name: "fragments.mp4", hasClock: true, encoder: "aac", options: FRAGMENTS, frameMs: 130 },
  {
    name: "indexed.mp4",
    encoder: "aac",
    options: ["-movflags", "dash+global_sidx", "-frag_duration", "1000000"],
    frameMs: 130,
  },
  {
    name: "pcm.mov",
    encoder: "pcm_s16le",
    options: ["-movflags", "+faststart"],
    setLength: (bytes, to) => set32(bytes, find(bytes, "mdat") - 4, "BE", to),
  },
  { name: "aac.flv", hasClock: true, encoder: "aac", options: ["-ar", "44100"], frameMs: 130 },
  {
    name: "opus.mka",
    hasClock: true,
    encoder: "libopus",
    frameMs: 40,
    setLength: (bytes, to) => {
      const at = bytes.indexOf(DURATION) + DURATION.length;
      bytes.writeDoubleBE(bytes.readDoubleBE(at) * FACTORS[to], at);
    },
  },
  { name: "opus.webm", hasClock: true, encoder: "libopus", frameMs: 40 },
  { name: "aac.ts", hasClock: true, encoder: "aac", options: ["-f", "mpegts"], frameMs: 130 },
  {
    name: "a.m2ts",
    hasClock: true,
    encoder: "ac3",
    options: ["-f", "mpegts", "-mpegts_m2ts_mode", "1"],
    frameMs: 130,
  },
  {
    name: "mp2.mpg",
    hasClock: true,
    encoder: "mp2",
    options: ["-ar", "44100"],
    frameMs: 130,
    isPadded: true,
  },
  { name: "a.aac", encoder: "aac", options: ["-f", "adts"], frameMs: 130, isStream: true },
  { name: "cbr.mp3", encoder: "libmp3lame", options: ["-b:a", "32k"], frameMs: 80, isStream: true },
  { name: "vbr.mp3", encoder: "libmp3lame", options: ["-q:a", "5"], frameMs: 80, isStream: true },
  { name: "plain.mp3", encoder: "libmp3lame", options: ["-write_xing", "0"], frameMs: 130, isStream: true },
  { name: "a.flac", encoder: "flac", frameMs: 40, isStream: true },
  { name: "a.wv", encoder: "wavpack", options: ["-frame_size", "16000"], isStream: true, frameMs: 40 },
  { name: "a.tta", encoder: "tta", isPadded: true, isStream: true, frameMs: 40 },
  { name: "a.ac3", encoder: "ac3", frameMs: 80, isStream: true },
];

/** What writers leave that cannot go back to write a length. */
const LIVE: readonly Container[] = [
  { name: "piped.wav", encoder: "pcm_s16le", options: ["-f", "wav"], isLive: true, hasNoEnd: true },
  { name: "piped.au", encoder: "pcm_s16be", isLive: true, options: ["-f", "au"], hasNoEnd: true },
  {
    name: "piped.asf",
    hasClock: true,
    encoder: "wmav2",
    options: ["-f", "asf"],
    isLive: true,
    frameMs: 150,
    isPadded: true,
    isStream: true,
  },
  { name: "piped.avi", encoder: "pcm_s16le", options: ["-f", "avi"], isLive: true, frameMs: 100 },
  {
    name: "piped.mp4",
    hasClock: true,
    encoder: "aac",
    options: ["-f", "mp4", ...FRAGMENTS],
    isLive: true,
    frameMs: 130,
  },
  {
    name: "piped.flv",
    hasClock: true,
    encoder: "aac",
    options: ["-ar", "44100", "-f", "flv"],
    isLive: true,
    frameMs: 130,
  },
  {
    name: "piped.webm",
    hasClock: true,
    encoder: "libopus",
    options: ["-f", "webm", "-live", "1"],
    isLive: true,
    frameMs: 40,
  },
  { name: "piped.flac", encoder: "flac", options: ["-f", "flac"], isLive: true, frameMs: 40, isStream: true },
];

export const CONTAINERS: readonly Container[] = [
  ...SAMPLES.map((container) => ({ ...container, isGrowing: true })),
  ...OTHERS,
  ...LIVE,
];

/** Makes a recording of one channel at 16 kHz (or as the options say). */
export function makeRecording(
  folder: string,
  container: Container,
  seconds: number,
  ...more: string[]
): Buffer {
  const { name, encoder, options = [], isLive = false } = container;
  const output = isLive ? ["-flush_packets", "1"] : [];
  const format = { name, encoder, options: [...options, ...output, ...more], channels: 1, toleranceMs: 0 };
  const bytes = readFileSync(encodeFormat(folder, makeWav({ seconds }), format, isLive));
  return container.make?.(bytes) ?? bytes;
}

/** An ID3 tag of 33,000 bytes, most of which are as even as those of a picture. */
export function longTag(): Buffer {
  const head = Buffer.from([0x49, 0x44, 0x33, 3, 0, 0, 0, 2, 1, 0x5e]);
  return Buffer.concat([head, evenBytes(32_990)]);
}

/** Bytes like those of encrypted or compressed data. */
export function evenBytes(count: number): Buffer {
  const random = seededRandom(7);
  return Buffer.from(Array.from({ length: count }, () => Math.floor(random() * 256)));
}

/** An APE tag with head and foot, and an ID3v1 tag, as players write both. */
export function endTags(): Buffer {
  const ape = (flags: number) => {
    const bytes = Buffer.alloc(32);
    bytes.write("APETAGEX");
    for (const [index, value] of [2000, 36, 0, flags].entries()) bytes.writeUInt32LE(value, 8 + 4 * index);
    return bytes;
  };
  const old = Buffer.alloc(128);
  old.write("TAGtitle");
  return Buffer.concat([ape(0xa0000000), Buffer.alloc(4), ape(0x80000000), old]);
}
