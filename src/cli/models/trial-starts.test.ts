import { expect, test } from "bun:test";
import type { InstalledModel } from "../../domain/model.ts";
import { SAMPLES, type Sample, wordsOf } from "./trial-samples.ts";
import { correctStarts } from "./trial-starts.ts";

const model = { decoding: {} } as InstalledModel;
const [person] = SAMPLES;

type Heard = {
  /** How late each word is, of a model without a correction. */
  lateMs: (index: number) => number;
  /** How much earlier a correction makes words. Left out: by what is asked for. */
  effect?: number;
  samples?: readonly Sample[];
  /** How many words are heard at all. */
  words?: number;
  confidence?: number;
  isTooSlow?: boolean;
};

/** Hears each word of a sample, later than it was said, and corrects starts by whole frames of 20 ms. */
async function correct({ lateMs, effect = 1, words, confidence = 0.9, isTooSlow, samples }: Heard) {
  const earlier = ({ decoding }: InstalledModel, ms: number) => {
    return Math.abs(ms) < 20
      ? undefined
      : { maxChunkMs: (decoding.maxChunkMs ?? 0) + 20 * Math.round(ms / 20) };
  };
  const hear = async ({ decoding }: InstalledModel, sample: Sample) => {
    if (isTooSlow && decoding.maxChunkMs !== undefined) return undefined;
    const heard = wordsOf(sample)
      .slice(0, words)
      .map(({ text, startMs }, index) => {
        const at = startMs + lateMs(index) - effect * (decoding.maxChunkMs ?? 0);
        return { text, startMs: at, endMs: at + 50, confidence };
      });
    return [{ startMs: 0, endMs: 11_000, text: "", language: sample.language, confidence, words: heard }];
  };
  return correctStarts(model, samples ?? [person], hear, earlier);
}

const SCENARIOS: [string, Heard, number | undefined][] = [
  ["words that are 120 ms late come earlier", { lateMs: () => 120 }, 120],
  ["words that are early come later", { lateMs: () => -65 }, -60],
  ["a few words that are far away change nothing", { lateMs: (index) => (index < 5 ? 900 : 42) }, 40],
  ["those of both samples count", { lateMs: () => 40, samples: SAMPLES }, 40],
  ["less than a frame is nothing", { lateMs: () => 19 }, undefined],
  ["a correction that does half is followed by others", { lateMs: () => 120, effect: 0.5 }, 220],
  ["a correction that does too much is followed by one back", { lateMs: () => 100, effect: 1.5 }, 60],
  ["a correction without effect is not used", { lateMs: () => 120, effect: 0 }, undefined],
  ["a correction that makes it worse is not used", { lateMs: () => 60, effect: -1 }, undefined],
  ["five words are too few", { lateMs: () => 120, words: 5 }, undefined],
  ["six are enough", { lateMs: () => 120, words: 6 }, 120],
  ["words in doubt do not count", { lateMs: () => 120, confidence: 0.3 }, undefined],
  ["nothing is used that was not measured to its end", { lateMs: () => 120, isTooSlow: true }, undefined],
  ["there is nothing where no sample was understood", { lateMs: () => 120, samples: [] }, undefined],
];
test.each(SCENARIOS)("starts of words: %s", async (_, heard, expected) => {
  const decoding = await correct(heard);
  expect(decoding?.maxChunkMs).toBe(expected as number);
});
