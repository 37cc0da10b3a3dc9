import { expect, test } from "bun:test";
import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import { recognizeUntimed } from "./untimed.ts";
import type { LoadedModel, WhisperOptions } from "./whisper-model.ts";

/**
 * Replaces whisper.cpp without timestamps: one segment for the whole audio, with a token for each tone. It ends the
 * text at the most tokens, as the library does.
 */
function scripted(calls: number[]): Pick<LoadedModel, "recognize"> {
  return {
    async recognize(samples, { maxTokens }) {
      calls.push(samples.length / SAMPLE_RATE_HZ);
      const count = Math.min(countTones(samples), maxTokens + 1);
      const tokens = Array.from({ length: count }, () => ({ id: 1, probability: 1 }));
      const words = tokens.map(() => "la").join(" ");
      return [
        {
          startMs: 0,
          endMs: 30_000,
          text: words,
          language: "hi",
          confidence: 1,
          noSpeechProbability: 0,
          tokens,
        },
      ];
    },
  };
}

/** Tones of 50 ms and pauses of 50 ms: ten syllables a second. */
function tones(seconds: number): Float32Array {
  return Float32Array.from({ length: seconds * SAMPLE_RATE_HZ }, (_, n) =>
    Math.floor(n / 800) % 2 === 0 ? 0.3 * Math.sin(n) : 0,
  );
}

/** Counts the tones by their beginnings, in steps of 5 ms. */
function countTones(samples: Float32Array): number {
  let count = 0;
  let wasOn = false;
  for (let at = 0; at < samples.length; at += 80) {
    const isOn = samples.subarray(at, at + 80).reduce((sum, sample) => sum + sample * sample, 0) > 0.05;
    if (isOn && !wasOn) count++;
    wasOn = isOn;
  }
  return count;
}

const OPTIONS = { maxTokens: 0 } as WhisperOptions;

test("short text is one segment with the times of its audio", async () => {
  const calls: number[] = [];
  const found = await recognizeUntimed(scripted(calls), tones(6), OPTIONS);
  expect(found.map(({ startMs, endMs }) => [startMs, endMs])).toEqual([[0, 6000]]);
  expect(calls).toEqual([6]);
});

test("fast speech with more text than fits is divided in pauses, and no word is lost", async () => {
  const calls: number[] = [];
  const samples = tones(29);
  const found = await recognizeUntimed(scripted(calls), samples, OPTIONS);
  const words = found.flatMap(({ text }) => text.split(" "));
  expect(words).toHaveLength(countTones(samples));
  expect(found.length).toBeGreaterThan(1);
  expect(found[0]?.startMs).toBe(0);
  expect(found.at(-1)?.endMs).toBe(29_000);
  for (const [index, { startMs }] of found.entries()) {
    if (index > 0) expect(startMs).toBe(found[index - 1]?.endMs ?? -1);
  }
});

test("a loop ends: audio of a few seconds is not divided", async () => {
  const calls: number[] = [];
  const looping: Pick<LoadedModel, "recognize"> = {
    async recognize(samples) {
      calls.push(samples.length / SAMPLE_RATE_HZ);
      const tokens = Array.from({ length: 201 }, () => ({ id: 1, probability: 1 }));
      return [
        { startMs: 0, endMs: 1, text: "la", language: "hi", confidence: 1, noSpeechProbability: 0, tokens },
      ];
    },
  };
  await recognizeUntimed(looping, tones(29), OPTIONS);
  expect(calls.length).toBeLessThan(40);
});
