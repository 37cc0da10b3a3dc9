import hindiFile from "../../../models/samples/02-hi.wav" with { type: "file" };
import speechFile from "../../../models/trial/jfk.wav" with { type: "file" };
import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import type { ReferenceWord } from "../../pipeline/word-starts.ts";

/** A recording for the trial of models. */
export type Sample = {
  language: string;
  /** Who speaks: a person, or a synthetic voice where no recording of a person may be carried. */
  voice: "person" | "synthetic";
  /** Path of a WAV file: 16 kHz, mono, 16 bit. */
  file: string;
  said: string;
  /** When each word of that begins, milliseconds. */
  startsMs: readonly number[];
};

/** One of a language, in the order in which they are tried: people first. */
export const SAMPLES: readonly [Sample, ...Sample[]] = [
  {
    ...{ language: "en", voice: "person", file: speechFile },
    said: "and so my fellow americans ask not what your country can do for you ask what you can do for your country",
    // Read from the spectrogram. A word that begins with a stop begins where the sound before it ends.
    startsMs: [
      ...[325, 560, 980, 1260, 1600, 3290, 3970, 5410, 5620, 5860, 6430],
      ...[6670, 6910, 7090, 8190, 8620, 8860, 9170, 9410, 9620, 9770, 9990],
    ],
  },
  {
    ...{ language: "hi", voice: "synthetic", file: hindiFile, said: "अभी दस बजे और दस मिनट हैं" },
    // As the same voice of espeak-ng says them, with the sentence as long as here.
    startsMs: [300, 533, 733, 1095, 1242, 1444, 1692],
  },
];

/** Returns the words of a sample with the times at which they begin. */
export const wordsOf = ({ said, startsMs }: Sample): ReferenceWord[] =>
  said.split(" ").map((text, index) => ({ text, startMs: startsMs[index] as number, channel: 0 }));

const PAUSE_SECONDS = 0.5;

/** Reads the samples of one of our own WAV files: 16 kHz, mono, 16 bit. */
export async function readSample(path: string): Promise<Int16Array<ArrayBuffer>> {
  const bytes = Buffer.from(await Bun.file(path).arrayBuffer());
  const start = bytes.indexOf("data") + 8;
  const pcm = new Int16Array(Math.floor((bytes.length - start) / 2));
  for (let n = 0; n < pcm.length; n++) pcm[n] = bytes.readInt16LE(start + 2 * n);
  return pcm;
}

/**
 * Fills a chunk with speech, again and again with a pause.
 *
 * @param longestMs longest chunk, milliseconds
 */
export function repeatSpeech(speech: Int16Array, longestMs: number): Int16Array {
  const period = speech.length + PAUSE_SECONDS * SAMPLE_RATE_HZ;
  const longest = Math.floor((longestMs / 1000) * SAMPLE_RATE_HZ);
  const times = Math.floor(longest / period);
  if (times === 0) return speech.slice(0, longest);
  const chunk = new Int16Array(times * period);
  for (let n = 0; n < times; n++) chunk.set(speech, n * period);
  return chunk;
}

/** Makes the same soft noise each time. */
export function makeNoise(samples: number): Int16Array {
  const pcm = new Int16Array(samples);
  let state = 1;
  for (let i = 0; i < samples; i++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    pcm[i] = ((state >> 16) % 1000) - 500;
  }
  return pcm;
}
