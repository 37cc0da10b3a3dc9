import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { RecognizedSegment, RecognizedWord } from "../domain/recognition.ts";
import { MODES } from "../domain/transcription.ts";
import { whisperFamily } from "../families/whisper/family.ts";
import { packChunks } from "../testing/makers/pack-chunks.ts";
import { expectWordsOf, timedWords, wordLines } from "../testing/makers/timed-words.ts";
import { layoutChunk } from "./chunk-audio.ts";
import { chunkLimits } from "./chunks.ts";
import { recognizeGuarded } from "./guarded-recognition.ts";
import { joinSpeakers } from "./speakers.ts";
import { assembleResult, type LooseSegment, stitchChunk } from "./stitch.ts";
import { wordSegments } from "./worded.ts";

/** Tests the words of segments on their way from the recognizer to the result. */

const region = (startS: number, endS: number) => ({
  startSample: Math.round(startS * SAMPLE_RATE_HZ),
  endSample: Math.round(endS * SAMPLE_RATE_HZ),
});
const word = (text: string, startMs: number, endMs: number): RecognizedWord => ({
  ...{ text, startMs, endMs, confidence: 0.9 },
});
/** A segment that begins and ends with its words. */
const recognized = (...words: RecognizedWord[]): RecognizedSegment => ({
  startMs: words[0]?.startMs ?? 0,
  endMs: words.at(-1)?.endMs ?? 0,
  text: words.map(({ text }) => text).join(" "),
  ...{ language: "en", confidence: 0.9, noSpeechProbability: 0, words },
});

describe("stitched", () => {
  // Laid out with 400 ms between regions: 0–2000, 2400–5400, 5800–6800. The detected speech begins and ends 300 ms inside each region.
  const regions = [region(10, 12), region(60, 63), region(600, 601)];
  const options = { regions, durationMs: 700_000 };

  test("words are divided between segments by their own times", () => {
    const segments = stitchChunk(
      [recognized(word("a", 1_000, 1_200), word("bbbbbbbbbbbb", 1_300, 1_600), word("c", 3_000, 3_400))],
      options,
    );
    expect(segments.map(({ text, words }) => [text, wordLines(words)])).toEqual([
      ["a bbbbbbbbbbbb", ["a@11000-11200", "bbbbbbbbbbbb@11300-11600"]],
      ["c", ["c@60600-61000"]],
    ]);
    for (const segment of segments) expectWordsOf(segment);
  });

  test("of a word over a pause, the part with more of it is kept", () => {
    const [segment] = stitchChunk([recognized(word("long", 1_400, 2_600), word("b", 2_700, 2_900))], options);
    expect(segment).toMatchObject({ text: "long" });
    expect(wordLines(segment?.words)).toEqual(["long@11400-11700"]);
  });

  test("words in the silence before speech begin with their segment", () => {
    const [segment] = stitchChunk([recognized(word("a", 0, 600), word("b", 700, 900))], options);
    expect(segment?.startMs).toBe(10_150);
    expect(wordLines(segment?.words)).toEqual(["a@10150-10600", "b@10700-10900"]);
  });

  test("a word that ends before speech was found keeps its time, at the beginning and behind a pause", () => {
    const found = [
      recognized(word("a", 0, 140), word("b", 700, 900), word("c", 2_420, 2_520), word("d", 3_000, 3_300)),
    ];
    const segments = stitchChunk(found, options);
    expect(segments.map(({ text, startMs }) => [text, startMs])).toEqual([
      ["a b", 10_000],
      ["c d", 60_020],
    ]);
    expect(segments.flatMap(({ words }) => wordLines(words) ?? [])).toEqual([
      ...["a@10000-10140", "b@10700-10900"],
      ...["c@60020-60120", "d@60600-60900"],
    ]);
  });

  test("so does one that begins after speech was found", () => {
    const [segment] = stitchChunk([recognized(word("a", 700, 900), word("b", 1_850, 1_980))], options);
    expect(segment?.endMs).toBe(11_980);
    expect(wordLines(segment?.words)).toEqual(["a@10700-10900", "b@11850-11980"]);
  });

  test("segments after the end of the recording join the last one with their words", () => {
    const [segment, ...others] = stitchChunk(
      [
        recognized(word("a", 500, 900)),
        recognized(word("b", 1_950, 2_000)),
        recognized(word("c", 2_000, 2_000)),
      ],
      { regions: [region(10, 12)], durationMs: 11_950 },
    );
    expect([segment, ...others].map((each) => each?.text)).toEqual(["a b c"]);
    for (const each of [segment, ...others]) if (each) expectWordsOf(each);
  });

  test("any words of any chunk are those of their segments' texts", () => {
    const regionsOf = fc.array(fc.tuple(fc.nat(3_000), fc.integer({ min: 200, max: 4_000 })), {
      minLength: 1,
      maxLength: 5,
    });
    const steps = fc.array(
      fc.tuple(fc.nat(900), fc.nat(900), fc.constantFrom("a", "bb", "我去", "क्या", ",")),
      { minLength: 1, maxLength: 12 },
    );
    fc.assert(
      fc.property(regionsOf, steps, fc.nat(3), (gaps, words, cut) => {
        let atMs = 0;
        const some = gaps.map(([gap, length]) => {
          const from = atMs + gap + 1;
          atMs = from + length;
          return region(from / 1000, atMs / 1000);
        });
        let spokenMs = 0;
        const said = words.map(([gap, length, text]) => {
          const startMs = spokenMs + gap;
          spokenMs = startMs + length;
          return word(text, startMs, spokenMs);
        });
        const found = [said.slice(0, cut), said.slice(cut)].filter((list) => list.length > 0);
        const segments = stitchChunk(
          found.map((list) => recognized(...list)),
          { regions: some, durationMs: atMs },
        );
        // A segment may be shorter than it has words.
        for (const segment of segments) if (segment.words) expectWordsOf(segment);
        expect(segments.map(({ text }) => text).join(" ")).toBe(said.map(({ text }) => text).join(" "));
      }),
      { numRuns: 1_000 },
    );
  });

  test("in an hour of speech with pauses, words keep their times: nothing adds up", () => {
    const spoken: RecognizedWord[] = [];
    const speech = Array.from({ length: 1_200 }, (_, n) => {
      const startS = 3 * n + 0.001 * ((n * 7_919) % 900);
      const endS = startS + 1 + 0.0007 * ((n * 104_729) % 1_000);
      spoken.push(word(`w${n}`, startS * 1000 + 301.3, endS * 1000 - 320.7));
      return region(startS, endS);
    });
    const found: LooseSegment[] = [];
    for (const { regions: own } of packChunks(speech, chunkLimits(30_000))) {
      const layout = layoutChunk(own);
      const inChunk = (ms: number) => {
        const sample = (ms * SAMPLE_RATE_HZ) / 1000;
        const slice = layout.slices.findLast(({ sourceStartSample }) => sourceStartSample <= sample);
        return (
          ((sample - (slice?.sourceStartSample ?? 0) + (slice?.targetStartSample ?? 0)) * 1000) /
          SAMPLE_RATE_HZ
        );
      };
      const [startMs, endMs] = [(own[0]?.startSample ?? 0) / 16, (own.at(-1)?.endSample ?? 0) / 16];
      const words = spoken.filter((each) => each.startMs >= startMs && each.endMs <= endMs);
      const moved = words.map((each) => ({
        ...each,
        startMs: inChunk(each.startMs),
        endMs: inChunk(each.endMs),
      }));
      found.push(...stitchChunk([recognized(...moved)], { regions: own, durationMs: 3_605_000 }));
    }
    const words = found.flatMap((segment) => segment.words ?? []);
    expect(words).toHaveLength(spoken.length);
    for (const [index, { text, startMs, endMs }] of words.entries()) {
      const truth = spoken[index];
      expect(text).toBe(truth?.text ?? "");
      expect(Math.abs(startMs - (truth?.startMs ?? 0))).toBeLessThanOrEqual(1);
      expect(Math.abs(endMs - (truth?.endMs ?? 0))).toBeLessThanOrEqual(1);
    }
  });
});

describe("guarded", () => {
  const chunk = { regions: [region(0, 10)], channel: 0 };
  const request = { language: "hi", mode: "native", channelMode: "mix" } as const;
  const task = {
    family: whisperFamily,
    model: {
      languages: [{ code: "hi", name: "Hindi", modes: ["native" as const] }],
      decoding: { unknownToken: "<unk>" },
    },
    request,
    durationMs: 10_000,
  };
  const said = (text: string, more: Partial<RecognizedSegment> = {}): RecognizedSegment => ({
    ...{ startMs: 0, endMs: 10_000, text, language: "hi", confidence: 0.9, words: timedWords(text) },
    ...more,
  });
  async function guarded(segment: RecognizedSegment, timestamps: "word" | "segment" = "word") {
    const asked: (boolean | undefined)[] = [];
    const text = await recognizeGuarded(
      { ...task, request: { ...request, timestamps } },
      chunk,
      async (_, settings) => {
        asked.push(settings.words);
        return { segments: [segment] };
      },
    );
    return { ...text, asked };
  }

  test("words are asked for where the request asks for them, in all attempts", async () => {
    const loop = said(Array(20).fill("बहुत अच्छा").join(" "));
    const { segments, asked } = await guarded(loop);
    expect(asked.length).toBeGreaterThan(1);
    expect(new Set(asked)).toEqual(new Set([true]));
    expect(segments.map(({ words }) => wordLines(words))).toEqual([["बहुत@0-80", "अच्छा@100-180"]]);
    const without = await guarded(loop, "segment");
    expect(new Set(without.asked)).toEqual(new Set([undefined]));
    expect(without.segments.every((segment) => !("words" in segment))).toBe(true);
  });

  test("words follow into other letters, and unknown tokens are no words", async () => {
    const { segments } = await guarded(said("میرا نام <unk> राम ہے"));
    expect(segments[0]?.text).toBe("मेरा नाम राम है");
    expect(wordLines(segments[0]?.words)).toEqual(["मेरा@0-80", "नाम@100-180", "राम@300-380", "है@400-480"]);
  });

  test("words that are not those of the text are none, and so are missing ones", async () => {
    for (const words of [timedWords("और कुछ"), []]) {
      const { segments } = await guarded(said("यह ठीक है", { words }));
      expect(segments).toMatchObject([{ text: "यह ठीक है" }]);
      expect(segments[0]).not.toHaveProperty("words");
    }
  });
});

describe("assembled", () => {
  const input = { gaps: [], warnings: [], durationMs: 60_000, channels: 1 };
  const segment = (startMs: number, endMs: number, text: string): LooseSegment => ({
    ...{ startMs, endMs, text, language: "en", confidence: 0.9, words: timedWords(text, startMs) },
  });

  test("a result says where words have no times, if they were asked for", () => {
    const { words: _, ...without } = segment(5_000, 6_000, "c");
    const segments = [segment(0, 1_000, "a b"), without];
    for (const [timestamps, warnings] of [
      ["word", ["word_times_missing"]],
      ["segment", []],
      ["none", []],
    ] as const) {
      const result = assembleResult({ ...input, segments, request: { channelMode: "mix", timestamps } });
      expect(result.warnings).toEqual([...warnings]);
    }
    const whole = {
      ...input,
      segments: segments.slice(0, 1),
      request: { channelMode: "mix", timestamps: "word" },
    } as const;
    expect(assembleResult(whole).warnings).toEqual([]);
    expect(assembleResult({ ...whole, segments: [] }).warnings).toEqual(["no_speech"]);
  });

  test("segments that are joined or end earlier have words that fit", () => {
    const { segments } = assembleResult({
      ...input,
      segments: [segment(0, 300, "a b c"), segment(0, 200, "d"), segment(250, 900, "e f")],
      request: { channelMode: "mix", timestamps: "word" },
    });
    expect(segments.map(({ text }) => text)).toEqual(["a b c d", "e f"]);
    for (const each of segments) expectWordsOf(each);
  });
});

describe("with speakers", () => {
  const segment: LooseSegment = {
    ...{ startMs: 0, endMs: 4_000, text: "how are you? fine, thanks", language: "en", confidence: 0.9 },
    words: [
      ...[word("how", 100, 300), word("are", 300, 500), word("you?", 500, 900)],
      ...[word("fine,", 1_700, 2_400), word("thanks", 2_400, 3_900)],
    ],
  };
  const turn = (startMs: number, endMs: number, speaker: number) => ({ startMs, endMs, speaker });
  const lines = (turns: ReturnType<typeof turn>[]) =>
    joinSpeakers([segment], [turns]).map((part) => {
      expectWordsOf(part);
      return [part.startMs, part.endMs, part.speaker, part.text];
    });

  test("a segment is divided at the word in whose middle another speaks", () => {
    expect(lines([turn(0, 1_200, 0), turn(1_300, 4_000, 1)])).toEqual([
      [0, 1_250, "speaker_1", "how are you?"],
      [1_250, 4_000, "speaker_2", "fine, thanks"],
    ]);
    // The turn ends within a word, whose middle is the other speaker's.
    expect(lines([turn(0, 1_900, 0), turn(1_900, 4_000, 1)])).toEqual([
      [0, 1_700, "speaker_1", "how are you?"],
      [1_700, 4_000, "speaker_2", "fine, thanks"],
    ]);
  });

  test("a back-channel does not divide it, and neither does a turn without a word", () => {
    expect(lines([turn(0, 1_000, 0), turn(1_000, 1_400, 1), turn(1_400, 4_000, 0)])).toHaveLength(1);
    expect(lines([turn(0, 950, 0), turn(950, 1_600, 1), turn(1_600, 4_000, 0)])).toHaveLength(1);
  });
});

test("whatever a recognizer says, the words of the result are those of its text, in order of time", async () => {
  const spelled = [
    "उम्म",
    "मैं",
    "मैं",
    "कु-",
    "कुछ",
    "ऑर्डर",
    "२५",
    "।",
    ",",
    "<unk>",
    "[Music]",
    "میرا",
    "ہے۔",
    "बार",
    "我去",
    "फो\u093Cन",
  ];
  const found = fc.array(
    fc.tuple(fc.constantFrom(...spelled), fc.nat(700), fc.integer({ min: 0, max: 500 })),
    { minLength: 1, maxLength: 16 },
  );
  const turns = fc.array(fc.tuple(fc.integer({ min: 1, max: 1_500 }), fc.nat(2)), { maxLength: 12 });
  let timed = 0;
  await fc.assert(
    fc.asyncProperty(
      found,
      turns,
      fc.constantFrom(...MODES),
      fc.boolean(),
      async (list, lengths, mode, isWrong) => {
        let atMs = 0;
        const words = list.map(([text, gap, length]) => {
          const startMs = atMs + gap;
          atMs = startMs + length;
          return word(text, startMs, atMs);
        });
        const segment = recognized(...words);
        const request = { language: "hi", mode, channelMode: "mix", timestamps: "word" } as const;
        const regions = [region(0, 2), region(2.5, 4), region(9, 9 + Math.max(1, atMs) / 1000)];
        const { segments } = await recognizeGuarded(
          {
            family: whisperFamily,
            model: {
              languages: [{ code: "hi", name: "Hindi", modes: [...MODES] }],
              decoding: { unknownToken: "<unk>" },
            },
            ...{ request, durationMs: 60_000 },
          },
          { regions, channel: 0 },
          async () => ({ segments: [isWrong ? { ...segment, words: words.slice(1) } : segment] }),
        );
        let turnMs = 0;
        const spoken = lengths.map(([length, speaker]) => {
          const startMs = turnMs;
          turnMs += length;
          return { startMs, endMs: turnMs, speaker };
        });
        const worded = wordSegments(segments, mode);
        const result = assembleResult({
          ...{
            segments: joinSpeakers(worded, [spoken]),
            gaps: [],
            warnings: [],
            durationMs: 60_000,
            channels: 1,
            request,
          },
        });
        for (const each of result.segments) if (each.words) expectWordsOf(each);
        timed += result.segments.filter((each) => each.words).length;
        const isMissing = result.segments.some((each) => !each.words);
        expect(result.warnings.includes("word_times_missing")).toBe(isMissing);
        // Segments of several attempts may overlap, so the parts of one can come between those of another.
        const sorted = (text: string) => text.split(" ").sort().join(" ");
        expect(sorted(result.text)).toBe(sorted(worded.map(({ text }) => text).join(" ")));
      },
    ),
    { numRuns: 600 },
  );
  expect(timed).toBeGreaterThan(400);
}, 60_000);
