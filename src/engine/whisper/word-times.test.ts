import { expect, test } from "bun:test";
import { join } from "node:path";
import { samplePath, utterancesIn } from "../../e2e/samples.ts";
import { askWhisperChild } from "../../testing/programs/ask-whisper-child.ts";
import type { Outcome } from "../../testing/programs/whisper-test-child.ts";
import type { WhisperOptions } from "./whisper-model.ts";
import type { WhisperSegment } from "./whisper-segments.ts";

/** Times of words, with whisper.cpp and the demonstration model. `scripts/bench/whisper-words.ts` measures how exact they are. */

const DEMO = join(import.meta.dirname, "../../../models/demo.bin");
/** Recordings of 16 kHz by their languages. */
const SAMPLES = { en: ["01-en", "04-en", "14-en-hesitation"], hi: ["02-hi", "13-hi-noise"] };
const ALL = [...SAMPLES.en, ...SAMPLES.hi];
const LIMIT_MS = 120_000;
/** A word may begin so long before its speech, and end so long behind it. */
const TOLERANCE_MS = 200;

type Asked = { precision?: "exact"; options: Partial<WhisperOptions>[] };

/** Returns what is recognized in each recording with each set of options. */
async function recognize(
  asked: Asked,
  language: keyof typeof SAMPLES,
  samples = SAMPLES[language],
): Promise<WhisperSegment[][][]> {
  const audio = samples.map((name) => ({ path: samplePath(name) }));
  const options = asked.options.map((each) => ({ ...each, language }));
  const request = { ...asked, models: [DEMO], audio, options };
  const rounds = await askWhisperChild<Outcome[][]>("transcribeEach", request, LIMIT_MS);
  const found = rounds.map(([outcome]) => {
    if (!outcome || !("value" in outcome)) throw new Error(outcome?.message);
    return outcome.value as WhisperSegment[];
  });
  return samples.map((_, n) => found.slice(n * options.length, (n + 1) * options.length));
}

const withoutWords = (segments: readonly WhisperSegment[]) =>
  segments.map(({ text, tokens, confidence }) => ({ text, tokens, confidence }));

/** Words in order and within their segments, whose characters are those of the text. */
function expectOrder(segments: readonly WhisperSegment[]): void {
  let before = 0;
  for (const { text, words = [], startMs, endMs } of segments) {
    expect(words.map((word) => word.text).join("")).toBe(text.replace(/\s/gu, ""));
    expect(words[0]?.startMs ?? 0).toBeGreaterThanOrEqual(startMs);
    expect(words.at(-1)?.endMs ?? 0).toBeLessThanOrEqual(endMs);
    for (const word of words) {
      expect(word.startMs).toBeGreaterThanOrEqual(before);
      expect(word.endMs).toBeGreaterThanOrEqual(word.startMs);
      expect(word.confidence).toBeWithin(0, 1.000001);
      expect(word.text).toBe(word.text.trim());
      before = word.endMs;
    }
  }
}

/** Returns the middle of each pause between utterances, milliseconds. */
const middlesOfPauses = (speech: readonly { start: number; end: number }[]): number[] =>
  speech.slice(1).map(({ start }, n) => 500 * (start + (speech[n]?.end ?? 0)));

const SETTINGS: [string, Asked["precision"], Partial<WhisperOptions>][] = [
  ["greedy", undefined, {}],
  ["whisper.cpp's own code", "exact", {}],
  ["beams", undefined, { strategy: { name: "beam", beamSize: 3, bestOf: 3 } }],
  ["a prompt", undefined, { initialPrompt: "नमस्ते hello" }],
  ["a model without timestamps", undefined, { timestamps: false }],
  [
    "attempts at several temperatures, of which the best failed one is used",
    undefined,
    { strategy: { name: "greedy", bestOf: 3 }, temperatureIncrement: 0.5, logprobThreshold: 0 },
  ],
];
test.each(SETTINGS)(
  "%s: words have times within the speech, and the text is the same as without",
  async (_, precision, options) => {
    const asked = { options: [options, { ...options, words: true }], ...(precision ? { precision } : {}) };
    const sounds = [...(await recognize(asked, "en")), ...(await recognize(asked, "hi"))];
    // The demonstration model was trained with timestamps, and without them its heads do not follow all texts.
    const mayLack = options.timestamps === false ? 2 : 0;
    const untimed = sounds.filter(([, found = []]) => found.every(({ words }) => words === undefined));
    expect(untimed.length).toBeLessThanOrEqual(mayLack);
    for (const [n, [without = [], found = []]] of sounds.entries()) {
      const speech = utterancesIn(ALL[n] ?? "");
      // Beams are drawn by chance.
      if (options.strategy?.name !== "beam") expect(withoutWords(found)).toEqual(withoutWords(without));
      expect(without.some(({ words }) => words !== undefined)).toBe(false);
      if (mayLack > 0 && found.every(({ words }) => words === undefined)) continue;
      expectOrder(found);
      const words = found.flatMap((segment) => segment.words ?? []);
      expect(words.length).toBeGreaterThan(0);
      const first = Math.min(...speech.map(({ start }) => 1000 * start));
      const last = Math.max(...speech.map(({ end }) => 1000 * end));
      expect(words[0]?.startMs ?? 0).toBeWithin(first - TOLERANCE_MS, first + TOLERANCE_MS);
      expect(words.at(-1)?.endMs ?? 0).toBeLessThanOrEqual(last + TOLERANCE_MS);
      for (const middle of middlesOfPauses(speech))
        expect(words.filter(({ startMs, endMs }) => startMs <= middle && endMs >= middle)).toEqual([]);
    }
  },
  LIMIT_MS,
);

test(
  "heads that look anywhere give no times",
  async () => {
    const options = [{ words: true, alignmentHeads: [[0, 1] as const] }];
    const [[found = []] = []] = await recognize({ options }, "hi", ["02-hi"]);
    expect(found.length).toBeGreaterThan(0);
    expect(found.map(({ words }) => words)).toEqual(found.map(() => undefined));
  },
  LIMIT_MS,
);

/** The shortest words of these recordings have three letters, of some 60 ms each. */
const LEAST_WORD_MS = 60;

test(
  "words take the time of their letters, also where heads leave one early for the next",
  async () => {
    const asked = { options: [{ words: true }] };
    const sounds = [...(await recognize(asked, "en")), ...(await recognize(asked, "hi"))];
    const words = sounds.flatMap(([found = []]) => found.flatMap((segment) => segment.words ?? []));
    expect(words.length).toBeGreaterThan(0);
    expect(words.filter(({ startMs, endMs }) => endMs - startMs < LEAST_WORD_MS)).toEqual([]);
  },
  LIMIT_MS,
);
