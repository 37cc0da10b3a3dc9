import { describe, expect, test } from "bun:test";
import { hasLoop, isNoSpeech, isSuspectedHallucination, removeLoops, speechCoverage } from "./guards.ts";

const HINDI =
  "भारत एक विशाल देश है जिसमें अनेक भाषाएँ बोली जाती हैं। यहाँ के लोग अलग अलग धर्मों को मानते हैं और मिलजुल कर रहते हैं। " +
  "हमारे देश की राजधानी नई दिल्ली है जो यमुना नदी के किनारे बसी हुई है। आज मौसम बहुत अच्छा है इसलिए हम सब बाहर घूमने जा रहे हैं।";
const ENGLISH =
  "India is a vast country in which many languages are spoken. People here follow different religions and live " +
  "together. The weather is very good today and so we are all going out for a walk.";
const DIGITS = "zero one two three four five six seven eight nine".split(" ");

function digitString(count: number): string {
  let state = 7;
  const next = () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return DIGITS[Math.floor((state / 2_147_483_648) * 10)] ?? "";
  };
  return Array.from({ length: count }, next).join(" ");
}

const texts = (...list: string[]) => list.map((text) => ({ text }));

describe("hasLoop", () => {
  test("finds loops of words and letters in any script", () => {
    expect(hasLoop(texts("thank you for watching ".repeat(12)))).toBe(true);
    expect(hasLoop(texts("हम जा रहे हैं ".repeat(15)))).toBe(true);
    expect(hasLoop(texts("ആ".repeat(120)))).toBe(true);
  });

  test("believes the recognizer that has ended one", () => {
    expect(hasLoop([{ text: "हम जा रहे हैं", isCut: true }])).toBe(true);
  });

  test("leaves plain prose and digits alone", () => {
    for (const text of [HINDI, ENGLISH, "", digitString(80)]) expect(hasLoop(texts(text))).toBe(false);
  });
});

describe("removeLoops", () => {
  test("what people really say is kept, with doubled words and repeated digits", () => {
    for (const text of [
      "my ticket number is four four four",
      "zero zero zero zero zero zero one",
      "no no no no no",
      "thank you thank you thank you",
      "बार बार धीरे धीरे",
      HINDI,
      digitString(60),
      "2222222222222222222222222222",
    ]) {
      expect(removeLoops(texts(text))).toEqual({ segments: texts(text), isCut: false });
    }
  });

  test("a loop is cut to one occurrence, and its unfinished last repetition is removed as well", () => {
    const loop = `so ${"I am going to the market. ".repeat(4)}I am going`;
    expect(removeLoops(texts(loop))).toEqual({
      segments: texts("so I am going to the market."),
      isCut: true,
    });
    expect(removeLoops(texts(`${"हाँ ".repeat(14)}ठीक है`)).segments).toEqual(texts("हाँ ठीक है"));
  });

  test("of a loop over several segments the first is kept, and so are the words after it", () => {
    const { segments, isCut } = removeLoops(texts("hello", ...Array(6).fill("Thank you."), "goodbye then"));
    expect(isCut).toBe(true);
    expect(segments).toEqual(texts("hello", "Thank you.", "goodbye then"));
  });

  test("a loop of letters within a word is cut", () => {
    expect(removeLoops(texts(`न${"ना".repeat(30)} ठीक`)).segments[0]?.text.length).toBeLessThan(12);
    expect(removeLoops(texts("aaaaaaaaah")).isCut).toBe(false);
  });
});

describe("isSuspectedHallucination", () => {
  const facts = { text: "turn off the fan", confidence: 0.9, noSpeechProbability: 0.05, speechMs: 1_500 };

  test("certain words over speech are not suspected, nor are doubtful words over speech", () => {
    expect(isSuspectedHallucination(facts)).toBe(false);
    expect(isSuspectedHallucination({ ...facts, confidence: 0.3 })).toBe(false);
    expect(isSuspectedHallucination({ ...facts, text: "Thank you." })).toBe(false);
  });

  test("text of impossible speed and closing phrases are suspected", () => {
    expect(isSuspectedHallucination({ ...facts, text: ENGLISH, speechMs: 900 })).toBe(true);
    expect(isSuspectedHallucination({ ...facts, text: "Thanks for watching!", confidence: 0.5 })).toBe(true);
  });
});

test("a segment counts as no speech only when the model doubts both its words and the speech", () => {
  expect(isNoSpeech({ confidence: 0.3, noSpeechProbability: 0.8 })).toBe(true);
  expect(isNoSpeech({ confidence: 0.8, noSpeechProbability: 0.8 })).toBe(false);
  expect(isNoSpeech({ confidence: 0.3, noSpeechProbability: 0.3 })).toBe(false);
});

describe("speechCoverage", () => {
  const regions = [
    { startSample: 0, endSample: 80_000 },
    { startSample: 160_000, endSample: 240_000 },
  ];

  test("names the speech that no segment covers", () => {
    const segments = [
      { startMs: 0, endMs: 2_000 },
      { startMs: 1_500, endMs: 3_000 },
    ];
    expect(speechCoverage(regions, segments)).toEqual({
      speechMs: 10_000,
      coveredMs: 3_000,
      uncovered: [
        { startSample: 48_000, endSample: 80_000, isCutAtStart: true },
        { startSample: 160_000, endSample: 240_000 },
      ],
    });
  });

  test("a segment over silence covers only the speech within it, and short remainders are ignored", () => {
    const coverage = speechCoverage(regions, [{ startMs: 500, endMs: 14_500 }]);
    expect(coverage).toEqual({ speechMs: 10_000, coveredMs: 9_000, uncovered: [] });
  });
});
