import { readFileSync } from "node:fs";
import { deflateSync } from "node:zlib";
import { RAW_EXTENSIONS, type RawFormat, rawFormatOfName } from "../../domain/raw-formats.ts";
import {
  ENCODED_FORMATS,
  type EncodedFormat,
  encodeFormat,
  makeWav,
  seededRandom,
  systemEncoders,
} from "./audio-makers.ts";
import { CONTAINERS, makeRecording } from "./containers.ts";
import { type Edit, edited } from "./edit-lists.ts";

/** Makes damaged recordings of every format, the same for the same number, for the scripts that fuzz decoding. */

export type Random = () => number;
/** An undamaged recording. The duration is absent when it is longer than any limit. */
export type Seed = {
  name: string;
  bytes: Uint8Array;
  durationMs?: number;
  channels?: number;
  /** What its sender says of a file without a signature. */
  format?: RawFormat;
};
export type Case = { label: string; bytes: Uint8Array; format: RawFormat | undefined };
type Mutation = { name: string; apply: (bytes: Uint8Array, random: Random) => Uint8Array };

export const below = (random: Random, bound: number) => Math.floor(random() * Math.max(1, bound));

/** Chooses a position in a file. Half of the time it is near the start, where headers are and damage has most effect. */
function place(bytes: Uint8Array, random: Random): number {
  return below(random, random() < 0.5 ? Math.min(bytes.length, 512) : bytes.length);
}

const MUTATIONS: readonly Mutation[] = [
  {
    name: "flipped bits",
    apply(bytes, random) {
      const out = bytes.slice();
      for (let count = 1 + below(random, 64); count > 0; count -= 1) {
        const at = place(out, random);
        out[at] = (out[at] ?? 0) ^ (1 << below(random, 8));
      }
      return out;
    },
  },
  {
    name: "extreme numbers",
    apply(bytes, random) {
      const out = bytes.slice();
      const view = new DataView(out.buffer);
      const values = [0, 1, 0x7f_ff_ff_ff, 0x80_00_00_00, 0xff_ff_ff_ff, 0xff_ff_ff_fe, 0x10_00_00_00];
      for (let count = 1 + below(random, 6); count > 0; count -= 1) {
        const at = Math.min(place(out, random), out.length - 4);
        view.setUint32(at, values[below(random, values.length)] ?? 0, random() < 0.5);
      }
      return out;
    },
  },
  { name: "cut off", apply: (bytes, random) => bytes.slice(0, below(random, bytes.length)) },
  { name: "beginning lost", apply: (bytes, random) => bytes.slice(below(random, bytes.length)) },
  {
    name: "range of noise",
    apply(bytes, random) {
      const out = bytes.slice();
      const start = place(out, random);
      const end = Math.min(out.length, start + 1 + below(random, 4096));
      for (let at = start; at < end; at += 1) out[at] = below(random, 256);
      return out;
    },
  },
  {
    name: "range repeated",
    apply(bytes, random) {
      const start = place(bytes, random);
      const end = Math.min(bytes.length, start + 1 + below(random, 8192));
      return joined(bytes.subarray(0, end), bytes.subarray(start, end), bytes.subarray(end));
    },
  },
  {
    name: "range lost",
    apply(bytes, random) {
      const start = place(bytes, random);
      return joined(bytes.subarray(0, start), bytes.subarray(start + 1 + below(random, 2048)));
    },
  },
  {
    name: "padded",
    apply(bytes, random) {
      const padding = new Uint8Array(1 + below(random, 16_384));
      if (random() < 0.5) for (let at = 0; at < padding.length; at += 1) padding[at] = below(random, 256);
      return random() < 0.5 ? joined(bytes, padding) : joined(padding, bytes);
    },
  },
];

/** Makes one file from two: the container of one kind over the data of another. */
function spliced(seeds: readonly Seed[], first: Seed, random: Random): Uint8Array {
  const second = seeds[below(random, seeds.length)] ?? first;
  const at = place(first.bytes, random);
  return joined(first.bytes.subarray(0, at), second.bytes.subarray(below(random, second.bytes.length)));
}

/** Appends one whole file to another, as `cat` does. */
function chained(seeds: readonly Seed[], first: Seed, random: Random): Uint8Array {
  const second = random() < 0.5 ? first : (seeds[below(random, seeds.length)] ?? first);
  return joined(first.bytes, second.bytes);
}

export function joined(...parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

const further = (name: string, encoder: string, ...options: string[]): EncodedFormat => ({
  name,
  encoder,
  options,
  channels: 2,
  toleranceMs: 150,
});
const TWO_TRACKS = ["-map", "0:a", "-map", "0:a"];
const mpeg4 = ["-f", "lavfi", "-i", "testsrc=size=64x48:rate=5:duration=3", "-c:v", "mpeg4", "-shortest"];
/** Makes 3 s of sound whose second half has later time stamps. A jump counts when a second of sound agrees with it. */
const GAPPED_SECONDS = 3;
const gap = (seconds: number) => ["-af", `asetpts=PTS+gte(T\\,1.5)*${seconds}/TB`];
const GAPS: Readonly<Record<string, number>> = { minute: 60, hour: 3600 };

/** Further containers and unusual forms in which recordings occur, besides `ENCODED_FORMATS`. */
const FURTHER_FORMATS: readonly EncodedFormat[] = [
  further("opus-only.opus", "libopus"),
  further("audio.mka", "libvorbis"),
  further("pcm.mka", "pcm_s16le"),
  further("aac.flv", "aac", "-ar", "44100"),
  further("mp3.flv", "libmp3lame", "-ar", "44100"),
  further("mp3.avi", "libmp3lame"),
  further("video.avi", "pcm_s16le", ...mpeg4),
  further("wmav1.asf", "wmav1"),
  further("video.wmv", "wmav2", ...mpeg4),
  further("a.ac3", "ac3"),
  further("a.eac3", "eac3"),
  further("a.wv", "wavpack"),
  further("a.tta", "tta"),
  further("mp2.mp2", "mp2"),
  further("mp2.ts", "mp2", "-f", "mpegts"),
  further("ac3.ts", "ac3", "-f", "mpegts"),
  further("video.ts", "aac", ...mpeg4, "-f", "mpegts"),
  further("flac.ogg", "flac"),
  further("flac.mkv", "flac"),
  further("fragments.mp4", "aac", "-movflags", "+frag_keyframe+empty_moov+default_base_moof"),
  further("mp3.mp4", "libmp3lame"),
  further("latm.loas", "aac", "-f", "latm"),
  further(
    "tagged.mp3",
    "libmp3lame",
    "-metadata",
    `title=${"recording ".repeat(200)}`,
    "-id3v2_version",
    "3",
  ),
  further("adpcm.aiff", "adpcm_ima_qt"),
  further("alaw.caf", "pcm_alaw"),
  further("tracks.mkv", "flac", ...TWO_TRACKS),
  further("tracks.mp4", "aac", ...TWO_TRACKS),
  further("tracks.ts", "mp2", ...TWO_TRACKS),
  further("tracks.ogg", "libopus", ...TWO_TRACKS),
  further("gap-of-a-minute.mka", "libopus", ...gap(60)),
  further("gap-of-an-hour.webm", "libopus", ...gap(3600)),
  further("gap-of-a-day.mkv", "pcm_s16le", ...gap(86_400)),
];

/** The first byte of a frame of AMR, and how many follow it. */
type AmrFrame = [head: number, bytes: number];
/** A descriptor of noise, and a frame without data, which phones send in pauses. */
const AMR_PAUSE: AmrFrame[] = [[0x44, 5], ...Array<AmrFrame>(7).fill([0x7c, 0])];

/** Makes an AMR file of a second. Its frames may be any bits (RFC 4867 section 5.3), so no encoder is needed. */
function makeAmr(magic: string, ...kinds: AmrFrame[]): Uint8Array {
  const random = seededRandom(kinds[0]?.[1] ?? 0);
  const frames = Array.from({ length: 50 }, (_, frame) => {
    const [head, bytes] = kinds[frame % kinds.length] ?? [0, 0];
    return Uint8Array.from({ length: 1 + bytes }, (_, at) => (at === 0 ? head : below(random, 256)));
  });
  return joined(new TextEncoder().encode(magic), ...frames);
}

/** The values that verification must find. Absent when the recording is longer than any limit. */
function expectedOf({ name, channels }: EncodedFormat): Pick<Seed, "durationMs" | "channels"> {
  const word = /^gap-of-an?-(\w+)/.exec(name)?.[1];
  if (word === undefined) return { durationMs: 1000, channels };
  const seconds = GAPS[word];
  return seconds === undefined ? {} : { durationMs: (GAPPED_SECONDS + seconds) * 1000, channels };
}

/** Makes undamaged recordings of about a second, one of each format that the system's ffmpeg can write. */
export function makeSeeds(folder: string): Seed[] {
  const encoders = systemEncoders();
  const source = makeWav({ seconds: 1, rateHz: 16_000, channels: 2 });
  const gapped = makeWav({ seconds: GAPPED_SECONDS, rateHz: 16_000, channels: 2 });
  const seeds: Seed[] = [
    { name: "own.wav", bytes: source, durationMs: 1000, channels: 2 },
    ...[
      { name: "own-nb.amr", bytes: makeAmr("#!AMR\n", [0x3c, 31]) },
      { name: "own-wb.amr", bytes: makeAmr("#!AMR-WB\n", [0x14, 32]) },
      { name: "pauses.amr", bytes: makeAmr("#!AMR\n", [0x3c, 31], ...AMR_PAUSE) },
      { name: "lost.amr", bytes: makeAmr("#!AMR-WB\n", [0x14, 32], [0x74, 0], [0x7c, 0]) },
    ].map((own) => ({ ...own, durationMs: 1000, channels: 1 })),
  ];
  for (const format of [...ENCODED_FORMATS, ...FURTHER_FORMATS]) {
    if (!encoders.has(format.encoder)) continue;
    // A plain array, because `slice` of a Buffer shares its memory and damage would accumulate.
    const bytes = new Uint8Array(
      readFileSync(encodeFormat(folder, format.name.startsWith("gap") ? gapped : source, format)),
    );
    seeds.push({ name: format.name, bytes, ...expectedOf(format) });
  }
  for (const container of CONTAINERS) {
    if (!encoders.has(container.encoder)) continue;
    const bytes = new Uint8Array(makeRecording(folder, container, 1));
    seeds.push({ name: container.name, bytes, durationMs: 1000, channels: 1 });
    if (container.name !== "end.m4a") continue;
    const edits: Edit[] = [
      { seconds: 0.25, from: 0 },
      { seconds: 0.5, from: "empty" },
      { seconds: 0.25, from: 0.5 },
    ];
    seeds.push({ name: "edits.m4a", bytes: new Uint8Array(edited(Buffer.from(bytes), edits, 1)) });
  }
  return seeds;
}

/** Makes recordings without a header. Their bytes may be any. */
export function makeRawSeeds(): Seed[] {
  const random = seededRandom(1);
  const names = RAW_EXTENSIONS.map((extension) => `call.${extension}`);
  return ["call.gsm", ...names].flatMap((name) => {
    const format = rawFormatOfName(name);
    const head = name === "call.gsm" ? 0xd0 : 0;
    const bytes = Uint8Array.from({ length: 33 * 60 }, (_, at) =>
      at % 33 === 0 ? head | below(random, 16) : below(random, 256),
    );
    return format ? [{ name, bytes, format }] : [];
  });
}

/** Makes a damaged recording, the same for the same seeds and numbers. */
export function makeCase(seeds: readonly Seed[], seed: number, index: number): Case {
  const random = seededRandom(seed * 1_000_003 + index);
  const origin: Seed = seeds[index % seeds.length] ?? { name: "none", bytes: new Uint8Array() };
  const kind = below(random, MUTATIONS.length + 2);
  const mutation = MUTATIONS[kind];
  const made = (what: string, bytes: Uint8Array): Case => ({
    label: `${origin.name}, ${what}`,
    bytes,
    format: origin.format,
  });
  if (mutation) return made(mutation.name, mutation.apply(origin.bytes, random));
  return kind === MUTATIONS.length
    ? made("spliced", spliced(seeds, origin, random))
    : made("chained", chained(seeds, origin, random));
}

const text = (value: string) => new TextEncoder().encode(value);

/** Makers of files that are not recordings. All of them must be refused. */
export const OTHER_FILES: readonly { name: string; make: (random: Random) => Uint8Array }[] = [
  { name: "plain text", make: (random) => text("The quick brown fox. ".repeat(1 + below(random, 500))) },
  { name: "JSON", make: (random) => text(JSON.stringify(Array.from({ length: 300 }, random))) },
  { name: "HTML", make: (random) => text(`<!doctype html><p>${"a".repeat(below(random, 4000))}</p>`) },
  { name: "zeros", make: (random) => new Uint8Array(1 + below(random, 20_000)) },
  { name: "PNG", make: makePng },
  {
    name: "gzip",
    make: (random) => Bun.gzipSync(Uint8Array.from({ length: 5000 }, () => below(random, 64))),
  },
  {
    name: "playlist",
    make: () => text("#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\nhttp://127.0.0.1/a.mp3\n"),
  },
  { name: "concat script", make: () => text("ffconcat version 1.0\nfile '/etc/passwd'\n") },
  { name: "subtitles", make: () => text("WEBVTT\n\n00:00.000 --> 00:02.000\nNo sound.\n") },
  {
    name: "random bytes",
    make: (random) => Uint8Array.from({ length: 1 + below(random, 20_000) }, () => below(random, 256)),
  },
];

/** Makes a real picture of a few hundred bytes. */
function makePng(random: Random): Uint8Array {
  const chunk = (name: string, data: Uint8Array) => {
    const named = joined(text(name), data);
    const numbers = new DataView(new ArrayBuffer(8));
    numbers.setUint32(0, data.length);
    numbers.setUint32(4, Bun.hash.crc32(named));
    const bytes = new Uint8Array(numbers.buffer);
    return joined(bytes.subarray(0, 4), named, bytes.subarray(4));
  };
  const side = 8 + below(random, 24);
  const head = Uint8Array.from([0, 0, 0, side, 0, 0, 0, side, 8, 0, 0, 0, 0]);
  const pixels = Uint8Array.from({ length: side * (side + 1) }, (_, at) =>
    at % (side + 1) === 0 ? 0 : below(random, 256),
  );
  const magic = Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const none = new Uint8Array();
  return joined(magic, chunk("IHDR", head), chunk("IDAT", deflateSync(pixels)), chunk("IEND", none));
}
