import { expect, test } from "bun:test";
import { wordSpans } from "../lib/word-spans.ts";
import type { LooseSegment } from "../pipeline/stitch.ts";
import { leaveSegments, segmentWriter, type WrittenForm } from "./written-form.ts";

/** Makes a segment whose words take a second each. */
function segmentOf(text: string, language = "hi"): LooseSegment {
  const words = wordSpans(text).map((span, index) => ({
    text: span.text,
    startMs: index * 1_000,
    endMs: (index + 1) * 1_000,
    confidence: 0.9,
  }));
  return { startMs: 0, endMs: words.length * 1_000, text, language, confidence: 0.9, words };
}

const writeSegments = async (segments: readonly LooseSegment[], form: WrittenForm) =>
  (await segmentWriter(form))(segments);

const seconds = (segment: LooseSegment | undefined) =>
  segment?.words?.map(({ text, startMs, endMs }) => `${text} ${startMs / 1_000}-${endMs / 1_000}`);

const CASES: readonly (readonly [language: string, spoken: string, words: readonly string[]])[] = [
  [
    "hi",
    "उसे बारह लाख पचास हज़ार रुपये, दो दिन में दिए",
    ["उसे 0-1", "₹12,50,000, 1-6", "दो 6-7", "दिन 7-8", "में 8-9", "दिए 9-10"],
  ],
  ["en", "come at quarter to ten please", ["come 0-1", "at 1-2", "9:45 2-5", "please 5-6"]],
  [
    "en",
    "he has twenty five cows and thirty goats",
    ["he 0-1", "has 1-2", "25 2-4", "cows 4-5", "and 5-6", "30 6-7", "goats 7-8"],
  ],
];
test.each(CASES)("%s: figures have the time of their words: %s", async (language, spoken, words) => {
  const [segment] = await writeSegments([segmentOf(spoken, language)], { numerals: "written" });
  expect(seconds(segment)).toEqual([...words]);
});

test("words of another script keep their times", async () => {
  const [segment] = await writeSegments([segmentOf("नमस्ते, मेरा नाम राम है।")], { script: "latin" });
  expect(seconds(segment)).toEqual(["namaste, 0-1", "mera 1-2", "naam 2-3", "ram 3-4", "hai. 4-5"]);
  expect(segment?.nativeText).toBe("नमस्ते, मेरा नाम राम है।");
});

test("text that would lose something stays as it is, without a native text", async () => {
  const spoken = segmentOf("پنجابی بولی", "pa");
  expect(await writeSegments([spoken], { script: "guru" })).toEqual([spoken]);
  expect(await writeSegments([spoken], { script: null, numerals: null })).toEqual([spoken]);
  expect(await segmentWriter({ script: null })).toBe(leaveSegments);
});
