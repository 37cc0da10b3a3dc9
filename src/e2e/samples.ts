import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

/**
 * The recordings of `models/samples` and their transcripts, by the number and kind at the beginning of their file names,
 * such as `01-en`. All that tests expect of a recording comes from its file and from `transcripts.tsv`, so that
 * both can be exchanged without an edit here.
 */

const ROOT = resolve(import.meta.dir, "../..");
const FOLDER = join(ROOT, "models/samples");
/** The system's ffmpeg, which `scripts/test.sh` installs. */
const FFMPEG = Bun.which("ffmpeg") ?? "ffmpeg";

/** Number of words that the demonstration model may get wrong when it recognizes a whole recording at once. */
const MOST_WORD_ERRORS: Readonly<Record<string, number>> = { "03-mixed": 2 };
/** Removed in all modes except `verbatim`. */
const HESITATIONS = new Set(["um", "uh", "hmm", "उम", "हम्म"]);

type SampleMode = "native" | "codemix" | "verbatim";

export type Utterance = {
  language: string;
  channel: number;
  /** Seconds. */
  start: number;
  end: number;
  voice: string;
  text: string;
};

type Row = Utterance & { file: string; codemix: string };

const rows: readonly Row[] = readFileSync(join(FOLDER, "transcripts.tsv"), "utf8")
  .split("\n")
  .slice(1)
  .filter((line) => line !== "")
  .map((line) => {
    const [file = "", language = "", channel, start, end, voice = "", text = "", codemix = ""] =
      line.split("\t");
    const times = { start: Number(start), end: Number(end) };
    return { file, language, channel: Number(channel), ...times, voice, text, codemix };
  });

function rowsOf(name: string): Row[] {
  const found = rows.filter(({ file }) => file.startsWith(`${name}.`));
  if (found.length === 0) throw new Error(`models/samples/transcripts.tsv has no recording ${name}`);
  return found;
}

/** The names of all recordings, such as `01-en`. */
export const sampleNames: readonly string[] = [
  ...new Set(rows.map(({ file }) => file.replace(/\.\w+$/, ""))),
];

export const samplePath = (name: string): string => join(FOLDER, rowsOf(name)[0]?.file ?? "");

/** The file as it is, WAV or FLAC. */
export function sampleBytes(name: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(readFileSync(samplePath(name)));
}

/** Returns the utterances of a sample in the wording of a mode, in order of time. */
export function utterancesIn(name: string, mode: SampleMode = "native"): Utterance[] {
  const written = ({ text, codemix }: Row) => {
    if (mode === "verbatim") return text;
    const words = (mode === "codemix" && codemix !== "" ? codemix : text).split(" ");
    return words.filter((word) => !HESITATIONS.has(word)).join(" ");
  };
  return rowsOf(name)
    .map((row) => ({ ...row, text: written(row) }))
    .sort((a, b) => a.start - b.start);
}

/** Returns all words of a sample in the wording of a mode. */
export const wordsIn = (name: string, mode?: SampleMode): string =>
  utterancesIn(name, mode)
    .map(({ text }) => text)
    .join(" ");

export const mostWordErrors = (name: string): number => MOST_WORD_ERRORS[name] ?? 0;

type Format = { rateHz: number; channels: number };

const WAV_HEADER_BYTES = 44;

export function formatOf(name: string): Format {
  const bytes = sampleBytes(name);
  const view = new DataView(bytes.buffer);
  if (!samplePath(name).endsWith(".flac")) {
    return { rateHz: view.getUint32(24, true), channels: view.getUint16(22, true) };
  }
  // STREAMINFO, RFC 9639 section 8.2: 20 bits of rate, 3 of channels minus one.
  const packed = view.getUint32(18);
  return { rateHz: packed >>> 12, channels: ((packed >>> 9) & 7) + 1 };
}

/** Returns the audio of a sample: 16-bit PCM, channels interleaved. */
export function pcmOf(name: string): Uint8Array<ArrayBuffer> {
  const path = samplePath(name);
  if (path.endsWith(".flac")) {
    const input = ["-nostdin", "-loglevel", "error", "-i", `file:${path}`];
    const decoded = Bun.spawnSync([FFMPEG, ...input, "-c:a", "pcm_s16le", "-f", "s16le", "pipe:1"]);
    if (!decoded.success) throw new Error(`${name}: ${decoded.stderr}`);
    return new Uint8Array(decoded.stdout);
  }
  const bytes = sampleBytes(name);
  const length = new DataView(bytes.buffer).getUint32(WAV_HEADER_BYTES - 4, true);
  return bytes.slice(WAV_HEADER_BYTES, WAV_HEADER_BYTES + length);
}

export function secondsOf(name: string): number {
  const { rateHz, channels } = formatOf(name);
  return pcmOf(name).length / (2 * channels * rateHz);
}

/** Makes a WAV file of 16-bit PCM from parts. */
export function wavFile(parts: readonly Uint8Array[], { rateHz, channels }: Format): Uint8Array<ArrayBuffer> {
  const bytes = parts.reduce((sum, { length }) => sum + length, 0);
  const file = new Uint8Array(WAV_HEADER_BYTES + bytes);
  const view = new DataView(file.buffer);
  const name = (at: number, text: string) => file.set(new TextEncoder().encode(text), at);
  name(0, "RIFF");
  view.setUint32(4, file.length - 8, true);
  name(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, channels, true);
  view.setUint32(24, rateHz, true);
  view.setUint32(28, rateHz * channels * 2, true);
  view.setUint16(32, channels * 2, true);
  view.setUint16(34, 16, true);
  name(36, "data");
  view.setUint32(WAV_HEADER_BYTES - 4, bytes, true);
  let at = WAV_HEADER_BYTES;
  for (const part of parts) {
    file.set(part, at);
    at += part.length;
  }
  return file;
}

/** Makes one WAV file of samples of the same format, one after the other, and repeats the whole. */
export function concatenated(names: readonly string[], times: number): Uint8Array<ArrayBuffer> {
  const [first] = names;
  if (first === undefined) throw new Error("nothing to concatenate");
  const round = names.map(pcmOf);
  return wavFile(Array.from({ length: times }, () => round).flat(), formatOf(first));
}
