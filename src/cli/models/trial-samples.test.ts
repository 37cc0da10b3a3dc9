import { expect, test } from "bun:test";
import { readSample, SAMPLES, wordsOf } from "./trial-samples.ts";

const SAMPLES_PER_MS = 16;
/** The sound of a word, and that before it, are so long. */
const WORD_MS = 200;
const BEFORE_MS = 100;
/** Where a word begins is known but for this. */
const UNSURE_MS = 30;
/** People say at most some eight words a second for a while. */
const SHORTEST_MS = 100;
/** A pause begins before a word that begins so long after the one before. */
const LONG_MS = 1_000;
/** How much louder a word is than a pause. */
const LOUDER = 3;

function loudness(pcm: Int16Array, fromMs: number, toMs: number): number {
  const part = pcm.subarray(fromMs * SAMPLES_PER_MS, toMs * SAMPLES_PER_MS);
  return Math.sqrt(part.reduce((sum, sample) => sum + sample * sample, 0) / part.length);
}

test.each(SAMPLES.map((sample) => [sample.language, sample] as const))(
  "the words of the sample in %s begin in its sound, one after the other",
  async (_, sample) => {
    const pcm = await readSample(sample.file);
    const words = wordsOf(sample);
    expect(sample.startsMs).toHaveLength(words.length);
    const quiet = loudness(pcm, 0, words[0]?.startMs ?? 0);
    for (const [index, { startMs }] of words.entries()) {
      const beforeMs = words[index - 1]?.startMs ?? Number.NEGATIVE_INFINITY;
      expect(startMs - beforeMs).toBeGreaterThanOrEqual(SHORTEST_MS);
      const own = loudness(pcm, startMs, startMs + WORD_MS);
      expect(own).toBeGreaterThan(LOUDER * quiet);
      if (startMs - beforeMs < LONG_MS) continue;
      const before = loudness(pcm, startMs - BEFORE_MS - UNSURE_MS, startMs - UNSURE_MS);
      expect(own).toBeGreaterThan(LOUDER * before);
    }
    const end = (words.at(-1)?.startMs ?? 0) + SHORTEST_MS;
    expect(end * SAMPLES_PER_MS).toBeLessThan(pcm.length);
  },
);
