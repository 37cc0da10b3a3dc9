import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** The recordings of `models/samples` and what is said in them. */

const FOLDER = resolve(import.meta.dir, "../../models/samples");

export type Said = { language: string; channel: number; start: number; end: number; text: string };

export const samplePath = (name: string): string => join(FOLDER, name);

export function sampleBytes(name: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(readFileSync(samplePath(name)));
}

/** What is said in a sample, in order of time. */
export function saidIn(name: string): Said[] {
  const [, ...lines] = readFileSync(join(FOLDER, "transcripts.tsv"), "utf8").trimEnd().split("\n");
  return lines
    .map((line) => line.split("\t"))
    .filter(([file]) => file === name)
    .map(([, language = "", channel, start, end, , text = ""]) => ({
      language,
      channel: Number(channel),
      start: Number(start),
      end: Number(end),
      text,
    }))
    .sort((a, b) => a.start - b.start);
}

const HEADER_BYTES = 44;

/** The sound of a 16-bit PCM WAV file. */
export function pcmOf(name: string): Uint8Array<ArrayBuffer> {
  const bytes = sampleBytes(name);
  const length = new DataView(bytes.buffer).getUint32(HEADER_BYTES - 4, true);
  return bytes.slice(HEADER_BYTES, HEADER_BYTES + length);
}

/** One 16 kHz mono WAV file of samples of that format, one after the other, the whole so many times. */
export function concatenated(names: readonly string[], times: number): Uint8Array<ArrayBuffer> {
  const round = names.map(pcmOf);
  const roundBytes = round.reduce((sum, { length }) => sum + length, 0);
  const file = new Uint8Array(HEADER_BYTES + roundBytes * times);
  const first = names[0];
  if (first === undefined) throw new Error("nothing to concatenate");
  file.set(sampleBytes(first).subarray(0, HEADER_BYTES));
  const view = new DataView(file.buffer);
  view.setUint32(4, file.length - 8, true);
  view.setUint32(HEADER_BYTES - 4, roundBytes * times, true);
  let at = HEADER_BYTES;
  for (let time = 0; time < times; time++) {
    for (const pcm of round) {
      file.set(pcm, at);
      at += pcm.length;
    }
  }
  return file;
}
