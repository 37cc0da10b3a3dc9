import { expect, test } from "bun:test";
import fc from "fast-check";
import { LANGUAGES } from "../domain/languages.ts";
import { MODES } from "../domain/transcription.ts";
import { expectWordsOf, timedWords, wordLines } from "../testing/makers/timed-words.ts";
import type { LooseSegment } from "./stitch.ts";
import { wordsOfText } from "./timed-words.ts";
import { wordSegments } from "./worded.ts";
import { applyWording } from "./wording.ts";
import { wordingOf } from "./wording-tables.ts";

function segmentOf(text: string, language: string): LooseSegment {
  const words = wordsOfText(timedWords(text), text);
  const endMs = Math.max(20, ...(words ?? []).map((word) => Math.ceil(word.endMs)));
  return { startMs: 0, endMs, text, language, confidence: 0.9, ...(words ? { words } : {}) };
}

const SCENARIOS: [language: string, mode: (typeof MODES)[number], text: string, words: string[]][] = [
  [
    "hi",
    "codemix",
    "उम्म, मेरा ऑर्डर नंबर पाँच |",
    ["मेरा@100-180", "order@200-280", "number@300-380", "पाँच।@400-480"],
  ],
  ["hi", "codemix", "फ़ोन उम्म करो", ["phone@0-80", "करो@200-280"]],
  ["hi", "native", "मैं मैं कु- कुछ बार बार", ["मैं@100-180", "कुछ@300-380", "बार@400-480", "बार@500-580"]],
  ["hi", "verbatim", "मैं मैं कु- कुछ २५", ["मैं@0-80", "मैं@100-180", "कु-@200-280", "कुछ@300-380", "२५@400-480"]],
  [
    "hi",
    "native",
    "हम २५ रुपये देंगे,फो\u093Cन <unk> करो",
    ["हम@0-80", "25@100-180", "रुपये@200-280", "देंगे,@300-340", "फ़ोन@340-380", "करो@500-580"],
  ],
  [
    "en",
    "native",
    "Um, I I was, uh, going [door slams] to the the market .",
    ["I@200-280", "was,@300-380", "going@500-580", "to@800-880", "the@1000-1080", "market.@1100-1180"],
  ],
  ["ur", "codemix", "فون کا کا نمبر", ["phone@0-80", "کا@200-280", "number@300-380"]],
];
test.each(SCENARIOS)("%s, %s: words keep their times in %s", (language, mode, text, words) => {
  const [worded] = wordSegments([segmentOf(text, language)], mode);
  expect(wordLines(worded?.words)).toEqual(words);
});

const EXTRAS = [
  ...[
    "um",
    "I",
    "I",
    "the",
    "the",
    "w-what",
    "y-",
    "your",
    "[Music]",
    "(coughs)",
    "♪",
    "ER",
    "25",
    "২৫",
    "२५",
    "<unk>",
    "<|nospeech|>",
  ],
  ...[
    ",",
    "??",
    "…",
    "।",
    "|",
    "||",
    "।।",
    "-",
    "–",
    "%",
    '"',
    "؟",
    "۔",
    "फो\u093Cन",
    "क्\u200Dष",
    "क\u200D",
    "कीी",
    "धीरे-धीरे",
    "बार",
    "बार",
  ],
  ...[
    "كتاب",
    "هي",
    "ﻛﺘﺎب",
    "我今天去学校。",
    "ผมไปโรงเรียน",
    "今日は学校に行きました、",
    "a,b",
    "न्‍",
    "\u200B",
    "\uFEFFa",
    "e\u0301",
  ],
];

test("in all languages and modes the words of a worded segment are those of its text, in order of time", () => {
  const language = fc.constantFrom(...LANGUAGES);
  const worded = language.chain(({ code, nativeName, scripts }) => {
    const {
      neverDoubled = [],
      loanWords = {},
      codemixPrompt = "",
      ownSentence = "",
    } = wordingOf(code, scripts);
    const fillers = ["उम्म", "উম্ম", "ہممم", "உம்ம்", "ᱩᱢ", "ꯎꯝ", "ઉમ", "ਉਮ", "ଉମ", "ఉమ్", "ಉಮ್", "മ്മ്"];
    const own = [
      nativeName,
      ...neverDoubled,
      ...Object.keys(loanWords),
      ...`${codemixPrompt} ${ownSentence}`.split(" "),
    ];
    const word = fc.oneof(
      fc.constantFrom(...own),
      fc.constantFrom(...own, ...fillers),
      fc.constantFrom(...EXTRAS),
      fc.string({ unit: "grapheme", maxLength: 6 }),
    );
    const doubled = fc
      .tuple(word, fc.constantFrom(1, 1, 1, 2, 3))
      .map(([one, times]) => Array(times).fill(one));
    const text = fc
      .array(doubled, { minLength: 1, maxLength: 14 })
      .chain((words) =>
        fc.constantFrom(" ", " ", "  ", "\n").map((space) => words.flat().join(space).trim()),
      );
    return fc.record({ text, code: fc.constant(code), mode: fc.constantFrom(...MODES) });
  });
  let withWords = 0;
  fc.assert(
    fc.property(worded, ({ text, code, mode }) => {
      const segment = segmentOf(text, code);
      const [found] = wordSegments([segment], mode);
      expect(found?.text ?? "").toBe(applyWording(text, { language: code, mode }));
      if (!segment.words || !found) return;
      expectWordsOf(found);
      withWords++;
    }),
    { numRuns: 4_000 },
  );
  expect(withWords).toBeGreaterThan(3_000);
}, 60_000);

test("a segment without words has none, and one that is only a hesitation is gone", () => {
  const segment = { startMs: 0, endMs: 900, text: "um yes", language: "en", confidence: 0.9 };
  expect(wordSegments([segment, segmentOf("um", "en")], "native")).toEqual([{ ...segment, text: "yes" }]);
});
