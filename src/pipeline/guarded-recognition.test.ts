import { describe, expect, test } from "bun:test";
import type { ChunkRegion } from "../domain/chunk.ts";
import type { ModelDecoding } from "../domain/model.ts";
import type { RecognizedSegment } from "../domain/recognition.ts";
import type { ModelFamily } from "../families/contract.ts";
import { nemoCtcFamily } from "../families/ctc/family.ts";
import { whisperFamily, whisperSettings } from "../families/whisper/family.ts";
import type { WhisperSettings } from "../families/whisper/settings.ts";
import { type GuardTask, type Recognize, recognizeGuarded } from "./guarded-recognition.ts";

const SECOND = 16_000;
const HINDI = "यह एक साधारण वाक्य है";
/** 23 letters, which take 3 s. */
const SENTENCE = "उनके घर के पास एक बहुत पुराना पेड़ और कुआँ है";
const LOOP = Array(20).fill("बहुत अच्छा").join(" ");
const LATIN = "in the wrong script";

const task = (decoding: ModelDecoding = {}, family: ModelFamily = whisperFamily): GuardTask => ({
  family,
  model: { languages: [{ code: "hi", name: "Hindi", modes: ["native", "codemix", "verbatim"] }], decoding },
  request: { language: "hi", mode: "native", channelMode: "mix" },
  durationMs: 60_000,
});
const chunkOf = (...regions: ChunkRegion[]) => ({ regions, channel: 0 });
const TEN_SECONDS = chunkOf({ startSample: SECOND, endSample: 11 * SECOND });

const segment = (text: string, more: Partial<RecognizedSegment> = {}): RecognizedSegment => ({
  startMs: 0,
  endMs: 10_000,
  text,
  language: "hi",
  confidence: 0.9,
  noSpeechProbability: 0.01,
  ...more,
});

/** Returns the texts one after the other, and records the calls. */
function scripted(...answers: RecognizedSegment[][]) {
  const asked: { regions: readonly ChunkRegion[]; settings: WhisperSettings }[] = [];
  const decode: Recognize = async (regions, settings) => {
    asked.push({ regions, settings: settings as WhisperSettings });
    const answer = answers[asked.length - 1];
    if (!answer) throw new Error(`decode ${asked.length} was not expected`);
    return { segments: answer };
  };
  return { decode, asked };
}

describe("guarded recognition", () => {
  test("text without faults is recognized once", async () => {
    const { decode, asked } = scripted([segment(HINDI)]);
    const { segments, warnings } = await recognizeGuarded(task(), TEN_SECONDS, decode);
    expect(segments.map(({ text }) => text)).toEqual([HINDI]);
    expect(warnings).toEqual([]);
    expect(asked.length).toBe(1);
  });

  test("a translation is judged as English: its own letters are right, those that were spoken are not", async () => {
    const request = { language: "hi", mode: "native", channelMode: "mix", task: "translate" } as const;
    const english =
      "this is an ordinary sentence, and it is long enough to fill all of the ten seconds even of slow speech";
    const right = scripted([segment(english)]);
    const good = await recognizeGuarded({ ...task(), request }, TEN_SECONDS, right.decode);
    expect(good.segments.map(({ text, language }) => [text, language])).toEqual([[english, "en"]]);
    expect([good.warnings, right.asked.length]).toEqual([[], 1]);
    expect(right.asked[0]?.settings).toMatchObject({ language: "hi", translates: true });
    const wrong = scripted([segment(HINDI)], [segment(HINDI)]);
    expect((await recognizeGuarded({ ...task(), request }, TEN_SECONDS, wrong.decode)).warnings).toEqual([
      "script_mismatch",
    ]);
    expect(wrong.asked[1]?.settings).toMatchObject({ temperature: 0.4, translates: true });
  });

  test("a text that the recognizer ended because it repeated itself counts as a loop", async () => {
    const cut = scripted([segment("बहुत अच्छा", { isCut: true })], [segment("बहुत", { isCut: true })]);
    const marked = await recognizeGuarded(task(), TEN_SECONDS, cut.decode);
    expect(marked.warnings).toEqual(["repetition_removed"]);
    expect(marked.segments.map(({ text }) => text)).toEqual(["बहुत अच्छा"]);
    const better = scripted([segment("बहुत अच्छा", { isCut: true })], [segment(HINDI)]);
    expect((await recognizeGuarded(task(), TEN_SECONDS, better.decode)).warnings).toEqual([]);
  });

  test("a loop is recognized once more with other settings, and the better text is kept", async () => {
    const { decode, asked } = scripted([segment(LOOP)], [segment(HINDI)]);
    const { segments, warnings } = await recognizeGuarded(task(), TEN_SECONDS, decode);
    expect(segments.map(({ text }) => text)).toEqual([HINDI]);
    expect(warnings).toEqual([]);
    expect(asked.map(({ settings }) => settings.temperature)).toEqual([0, 0.4]);
  });

  test("a loop that occurs again is cut to one occurrence and marked", async () => {
    const { decode, asked } = scripted([segment(LOOP)], [segment(LOOP)]);
    const { segments, warnings } = await recognizeGuarded(task(), TEN_SECONDS, decode);
    expect(segments.map(({ text }) => text)).toEqual(["बहुत अच्छा"]);
    expect(warnings).toEqual(["repetition_removed"]);
    expect(asked.length).toBe(2);
  });

  test("a second attempt without any text does not replace the first", async () => {
    const { decode } = scripted([segment(LATIN)], []);
    const { segments } = await recognizeGuarded(task(), TEN_SECONDS, decode);
    expect(segments.map(({ text }) => text)).toEqual([LATIN]);
  });

  test("text in a wrong script is recognized once more, then marked", async () => {
    const better = scripted([segment(LATIN)], [segment(HINDI)]);
    expect((await recognizeGuarded(task(), TEN_SECONDS, better.decode)).warnings).toEqual([]);
    const same = scripted([segment(LATIN)], [segment(LATIN)]);
    const marked = await recognizeGuarded(task(), TEN_SECONDS, same.decode);
    expect(marked.warnings).toEqual(["script_mismatch"]);
    expect(same.asked.length).toBe(2);
  });

  test("speech without text is recognized once more by itself, and its text has the right times", async () => {
    const first = [segment(HINDI, { endMs: 4_000 })];
    const second = [segment("और यह बाकी था", { startMs: 0, endMs: 5_900 })];
    const { decode, asked } = scripted(first, second);
    const { segments } = await recognizeGuarded(task(), TEN_SECONDS, decode);
    expect(asked[1]?.regions).toEqual([
      { startSample: 5 * SECOND, endSample: 11 * SECOND, isCutAtStart: true },
    ]);
    // The region was cut out of continuous speech, so it has no padding there and its text begins at the cut.
    expect(segments.map(({ startMs, text }) => [startMs, text])).toEqual([
      [1_150, HINDI],
      [5_000, "और यह बाकी था"],
    ]);
    expect(segments[1]?.endMs).toBe(10_800);
  });

  test("speech that still has no text is recognized once more with other settings, and then named", async () => {
    const { decode, asked } = scripted([segment(HINDI, { endMs: 4_000 })], [], []);
    const { segments, doubts } = await recognizeGuarded(task(), TEN_SECONDS, decode);
    expect(segments.length).toBe(1);
    expect(asked.map(({ settings }) => settings.temperature)).toEqual([0, 0, 0.4]);
    expect(doubts.unrecognized).toEqual([{ startMs: 5_000, endMs: 11_000 }]);
  });

  test("what a second cut leaves is recognized in a third one", async () => {
    const { decode, asked } = scripted(
      [segment(HINDI, { endMs: 3_000 })],
      [segment(HINDI, { endMs: 3_000 })],
      [segment("और यह बाकी था", { endMs: 3_900 })],
    );
    const { segments, doubts } = await recognizeGuarded(task(), TEN_SECONDS, decode);
    expect(asked.map(({ regions }) => regions[0]?.startSample)).toEqual([1, 4, 7].map((s) => s * SECOND));
    expect(segments.map(({ text }) => text)).toEqual([HINDI, HINDI, "और यह बाकी था"]);
    expect(doubts.unrecognized).toEqual([]);
  });

  test("attempts end with the chunk's budget, whatever is left", async () => {
    const found = [segment(HINDI, { endMs: 2_000 })];
    const efforts: (number | undefined)[] = [];
    const costly: Recognize = async (_, { effort }) => {
      efforts.push(effort?.most);
      return { segments: found, effort: 1 };
    };
    const { doubts } = await recognizeGuarded(task(), TEN_SECONDS, costly);
    expect(efforts).toEqual([2.5, 1.5, 0.5]);
    expect(doubts.unrecognized).toEqual([{ startMs: 7_000, endMs: 11_000 }]);
  });

  test("a segment that is stretched over a lost sentence is recognized again by itself", async () => {
    const { decode, asked } = scripted(
      [segment(HINDI, { endMs: 4_000 }), segment(SENTENCE, { startMs: 4_000 })],
      [segment(SENTENCE, { endMs: 2_500 }), segment(HINDI, { startMs: 2_500, endMs: 5_900 })],
    );
    const { segments } = await recognizeGuarded(task(), TEN_SECONDS, decode);
    expect(asked[1]?.regions.map(({ startSample }) => startSample)).toEqual([5 * SECOND]);
    expect(segments.map(({ text }) => text)).toEqual([HINDI, SENTENCE, HINDI]);
  });

  test("a segment with few letters stays when another attempt does not find more", async () => {
    const slow = segment(SENTENCE);
    const { decode, asked } = scripted(
      [segment(HINDI, { endMs: 4_000 }), { ...slow, startMs: 4_000 }],
      [{ ...slow, endMs: 2_000 }],
    );
    const { segments, doubts } = await recognizeGuarded(task(), TEN_SECONDS, decode);
    expect(asked.length).toBe(2);
    expect(segments.map(({ startMs, text }) => [startMs, text])).toEqual([
      [1_150, HINDI],
      [5_000, SENTENCE],
    ]);
    expect(doubts.unrecognized).toEqual([]);
  });

  test("doubtful text is left out and named, or kept and named", async () => {
    const sure = segment(HINDI, { endMs: 5_000 });
    const unsure = segment(HINDI, { startMs: 5_000, confidence: 0.2 });
    for (const keepsDoubtful of [false, true]) {
      const { decode, asked } = scripted([sure, unsure]);
      const { segments, doubts } = await recognizeGuarded({ ...task(), keepsDoubtful }, TEN_SECONDS, decode);
      expect(segments.map(({ confidence }) => confidence)).toEqual(keepsDoubtful ? [0.9, 0.2] : [0.9]);
      expect(doubts.unrecognized).toEqual([{ startMs: 6_000, endMs: 10_800 }]);
      expect(asked.length).toBe(1);
    }
  });

  test("text that the model takes for no speech is dropped, however unsure it is, and is never kept as doubtful", async () => {
    const sure = segment(HINDI, { endMs: 5_000 });
    for (const confidence of [0.2, 0.35]) {
      const invented = segment(HINDI, { startMs: 5_000, confidence, noSpeechProbability: 0.9 });
      const { decode, asked } = scripted([sure, invented], [], []);
      const kept = { ...task(), keepsDoubtful: true };
      const { segments, warnings } = await recognizeGuarded(kept, TEN_SECONDS, decode);
      expect(segments.map((one) => one.confidence)).toEqual([0.9]);
      expect(warnings).toEqual(["suspected_hallucination"]);
      expect(asked.length).toBe(3);
    }
  });

  test("the languages that may be spoken have the codes of the manifest", async () => {
    const spokenLanguages = [
      { language: "hi", probability: 0.6 },
      { language: "cy", probability: 0.2 },
    ];
    const languages = [{ code: "mai", name: "Maithili", modes: ["native" as const], decoderLanguage: "hi" }];
    const { decode } = scripted([segment(HINDI, { spokenLanguages })]);
    const request = { ...task().request, language: "mai" };
    const asked = { ...task(), request, model: { languages, decoding: {} } };
    const { doubts } = await recognizeGuarded(asked, TEN_SECONDS, decode);
    expect(doubts.languages.map(({ language }) => language)).toEqual(["mai", "cy"]);
  });

  test("a chunk without any text is recognized once more with other settings", async () => {
    const { decode, asked } = scripted([], [segment(HINDI)]);
    expect((await recognizeGuarded(task(), TEN_SECONDS, decode)).segments.length).toBe(1);
    expect(asked[1]?.settings.temperature).toBe(0.4);
    expect(asked[1]?.regions).toEqual(TEN_SECONDS.regions);
  });

  test("more words than fit the time are marked, and kept", async () => {
    const { decode } = scripted(
      [segment(`${HINDI} ${HINDI.replaceAll(" ", "")}`.repeat(1), { endMs: 300 })],
      [],
      [],
    );
    const { warnings, segments } = await recognizeGuarded(task(), TEN_SECONDS, decode);
    expect(warnings).toContain("suspected_hallucination");
    expect(segments.length).toBe(1);
  });

  test("letters and code of the model become those of the language, before the script is judged", async () => {
    const { decode, asked } = scripted([segment("یہاں کیا ہے؟", { language: "ur" })]);
    const { segments, warnings } = await recognizeGuarded(task(), TEN_SECONDS, decode);
    expect(segments.map(({ language, text }) => [language, text])).toEqual([["hi", "यहाँ क्या है?"]]);
    expect({ warnings, calls: asked.length }).toEqual({ warnings: [], calls: 1 });
  });

  test("the token for unknown words is left out", async () => {
    const { decode } = scripted([segment(`${HINDI} <?> <?>`)]);
    const { segments } = await recognizeGuarded(task({ unknownToken: "<?>" }), TEN_SECONDS, decode);
    expect(segments[0]?.text).toBe(HINDI);
  });

  test.each([
    { family: whisperFamily, floor: 0.4 },
    { family: nemoCtcFamily, floor: 0.6 },
  ])("without one, the floor of the family counts: $floor", async ({ family, floor }) => {
    for (const [confidence, count] of [
      [floor - 0.01, 0],
      [floor, 1],
    ] as const) {
      const { decode } = scripted([segment(HINDI, { confidence })]);
      const { segments } = await recognizeGuarded(task({}, family), TEN_SECONDS, decode);
      expect(segments.length).toBe(count);
    }
  });

  test("text below the manifest's minimum confidence is left out", async () => {
    const unsure = { ...segment(HINDI), confidence: 0.59 };
    const sure = { ...segment(HINDI), confidence: 0.6 };
    const heard = async (first: typeof sure) => {
      const { decode, asked } = scripted([first]);
      const { segments } = await recognizeGuarded(task({ unknownBelow: 0.6 }), TEN_SECONDS, decode);
      // Speech that the model does not know is not recognized a second time.
      expect(asked.length).toBe(1);
      return segments.length;
    };
    expect(await heard(unsure)).toBe(0);
    expect(await heard(sure)).toBe(1);
  });

  test("a failure of the engine is passed on to the caller", async () => {
    const decode: Recognize = () => Promise.reject(new Error("crashed"));
    await expect(recognizeGuarded(task(), TEN_SECONDS, decode)).rejects.toThrow("crashed");
  });
});

describe("a deterministic family", () => {
  const { secondAttempt: _none, ...deterministic } = whisperFamily;
  const guarded = (decode: Recognize, decoding: ModelDecoding = {}) =>
    recognizeGuarded(task(decoding, deterministic), TEN_SECONDS, decode);

  test.each([
    {
      name: "a loop is cut and marked",
      text: LOOP,
      kept: "बहुत अच्छा",
      warning: "repetition_removed" as const,
    },
    { name: "a wrong script is marked", text: LATIN, kept: LATIN, warning: "script_mismatch" as const },
  ])("is not asked twice for the same audio: $name at once", async ({ text, kept, warning }) => {
    const { decode, asked } = scripted([segment(text)]);
    const { segments, warnings } = await guarded(decode);
    expect(segments.map((found) => found.text)).toEqual([kept]);
    expect(warnings).toEqual([warning]);
    expect(asked.length).toBe(1);
  });

  test("recognizes a chunk without text only once, and again only a part without text", async () => {
    const silent = scripted([]);
    expect((await guarded(silent.decode)).segments).toEqual([]);
    expect(silent.asked.length).toBe(1);
    const partly = scripted([segment(HINDI, { endMs: 4_000 })], [segment("और", { endMs: 5_900 })]);
    expect((await guarded(partly.decode)).segments.length).toBe(2);
  });

  test("does not recognize a pause between its segments again, which Whisper does", async () => {
    const halves = (pauseMs: number) => [
      segment(HINDI, { endMs: 4_000 }),
      segment(HINDI, { startMs: 4_000 + pauseMs, endMs: 10_000 }),
    ];
    for (const [pauseMs, family, attempts] of [
      [1_900, deterministic, 1],
      [2_100, deterministic, 2],
      [1_900, whisperFamily, 3],
    ] as const) {
      const { decode, asked } = scripted(halves(pauseMs), [], []);
      await recognizeGuarded(task({}, family), TEN_SECONDS, decode);
      expect(asked.length).toBe(attempts);
    }
  });

  const samples = (from: number, to: number): ChunkRegion => ({
    startSample: from * SECOND,
    endSample: to * SECOND,
  });
  const TWO = [samples(0, 5), samples(6, 7.8)];
  const ONE = [samples(0, 10)];
  // Times of segments are those of the chunk's audio, in which 0.4 s of the pause between regions are left.
  const scenarios: {
    name: string;
    regions: ChunkRegion[];
    found: [fromS: number, toS: number][];
    again: [fromS: number, toS: number][];
  }[] = [
    { name: "a region without segments", regions: TWO, found: [[0, 5]], again: [[6, 7.8]] },
    {
      name: "the first region",
      regions: [samples(0, 1.8), samples(3, 8)],
      found: [[2.2, 7.2]],
      again: [[0, 1.8]],
    },
    {
      name: "nothing of a short region",
      regions: [samples(0, 5), samples(6, 6.9)],
      found: [[0, 5]],
      again: [],
    },
    {
      name: "a pause between segments",
      regions: ONE,
      found: [
        [0, 4],
        [5.9, 10],
      ],
      again: [],
    },
    {
      name: "a sentence between segments",
      regions: ONE,
      found: [
        [0, 4],
        [6.1, 10],
      ],
      again: [[4, 6.1]],
    },
    { name: "the head of a region", regions: ONE, found: [[1.5, 10]], again: [[0, 1.5]] },
    { name: "the tail of a region", regions: ONE, found: [[0, 8.5]], again: [[8.5, 10]] },
    { name: "no short edges", regions: ONE, found: [[0.9, 9.1]], again: [] },
    {
      name: "the tail before another region",
      regions: [samples(0, 5), samples(7, 10)],
      found: [
        [0, 3.5],
        [5.4, 8.4],
      ],
      again: [[3.5, 5]],
    },
  ];
  test.each(scenarios)("recognizes again: $name", async ({ regions, found, again }) => {
    const first = found.map(([from, to]) => segment(HINDI, { startMs: from * 1000, endMs: to * 1000 }));
    const { decode, asked } = scripted(first, []);
    await recognizeGuarded(task({}, deterministic), chunkOf(...regions), decode);
    const parts = asked.slice(1).flatMap(({ regions }) => regions);
    const seconds = parts.map(({ startSample, endSample }) => [startSample / SECOND, endSample / SECOND]);
    expect(seconds).toEqual(again);
  });

  test("loses no text although it has no probability of no speech", async () => {
    const { noSpeechProbability: _none, ...plain } = segment(HINDI, { confidence: 0.3 });
    const { decode } = scripted([plain]);
    const { segments } = await guarded(decode, { unknownBelow: 0.2 });
    expect(segments.map(({ text }) => text)).toEqual([HINDI]);
  });
});

describe("settings", () => {
  const { model, request } = task();

  test("are whisper's own values where the manifest has none", () => {
    const settings = whisperSettings(request, model);
    expect(settings).toMatchObject({
      language: "hi",
      strategy: { name: "greedy", bestOf: 1 },
      temperature: 0,
      temperatureIncrement: 0.2,
      entropyThreshold: 2.4,
      logprobThreshold: -1,
    });
  });

  test("are the manifest's values where it has any", () => {
    const whisper = { beamSize: 5, temperatureIncrement: 0, entropyThreshold: 0, acceptsPrompt: false };
    const decoding = { tuning: { whisper } };
    const settings = whisperSettings({ ...request, mode: "codemix" }, { ...model, decoding });
    expect(settings).toMatchObject({
      strategy: { name: "beam", beamSize: 5, bestOf: 5 },
      temperatureIncrement: 0,
      entropyThreshold: 0,
    });
    expect(settings.initialPrompt).toBeUndefined();
  });

  test("have a sentence in the language's own letters where the manifest says so", () => {
    const languages = [
      { code: "hi", name: "Hindi", modes: ["native" as const], letters: "prompted" as const },
    ];
    const prompted = { ...model, languages };
    expect(whisperSettings(request, model).initialPrompt).toBeUndefined();
    const { initialPrompt = "", heldBack = "" } = whisperSettings(request, prompted);
    expect(initialPrompt).toMatch(/^[\p{Script=Devanagari}\p{P}\s]+$/u);
    // Letters of Urdu are held back, which they are not otherwise.
    expect("م").toMatch(new RegExp(heldBack, "u"));
    expect("م").not.toMatch(new RegExp(whisperSettings(request, model).heldBack ?? "", "u"));
    const codemix = whisperSettings({ ...request, mode: "codemix" }, prompted).initialPrompt;
    expect(codemix).toMatch(/order/);
    const takesNone = { ...prompted, decoding: { tuning: { whisper: { acceptsPrompt: false } } } };
    expect(whisperSettings(request, takesNone).initialPrompt).toBeUndefined();
  });
});
