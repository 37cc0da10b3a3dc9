import { describe, expect, test } from "bun:test";
import { type ChunkLanguages, mismatchedLanguages } from "./spoken-language.ts";

const chunk = (seconds: number, probabilities: Record<string, number>): ChunkLanguages => ({
  speechMs: seconds * 1000,
  languages: Object.entries(probabilities).map(([language, probability]) => ({ language, probability })),
});

/** Probabilities as Whisper base gives them for recordings of people. */
const ENGLISH = { en: 0.97, cy: 0.01, la: 0.01 };
const HINDI = { hi: 0.93, ur: 0.05, pa: 0.005 };
const HINDI_AS_URDU = { ur: 0.87, hi: 0.12 };
const HINDI_OR_URDU = { hi: 0.85, ur: 0.13, en: 0.013 };
const HINDI_AS_TURKISH = { tr: 0.56, ur: 0.08, ar: 0.06, hi: 0.05 };
const KANNADA = { mr: 0.54, kn: 0.32, si: 0.09 };
const GUJARATI = { mr: 0.86, gu: 0.14 };
const KANNADA_OF_NEWS = { mr: 0.44, kn: 0.39, si: 0.11 };
const GUJARATI_IN_DOUBT = { mr: 0.39, gu: 0.27, cs: 0.16 };
const ASSAMESE = { bn: 0.75, ne: 0.18, eu: 0.02, as: 0.013 };
/** A speaker whom base does not understand at all. */
const HINDI_AS_SWAHILI = { sw: 0.42, yo: 0.26, ms: 0.05 };

describe("another language than the one asked for", () => {
  for (const [asked, mode, chunks, isNamed] of [
    ["en", "native", [chunk(11, ENGLISH)], false],
    ["hi", "native", [chunk(11, ENGLISH)], true],
    ["hi", "codemix", [chunk(11, ENGLISH)], false],
    ["ta", "codemix", [chunk(11, HINDI)], true],
    ["en", "native", [chunk(7, HINDI), chunk(7, HINDI_AS_URDU)], true],
    ["en", "native", [chunk(30, HINDI)], true],
    ["gu", "native", [chunk(30, HINDI)], true],
    ["hi", "native", [chunk(12, HINDI_AS_URDU)], false],
    ["ta", "native", [chunk(5, HINDI_OR_URDU)], true],
    ["hi", "native", [chunk(5, HINDI_OR_URDU)], false],
    ["ur", "native", [chunk(5, HINDI_OR_URDU)], false],
    ["hi", "native", [chunk(5, HINDI_AS_TURKISH)], false],
    ["hi", "native", [chunk(5, HINDI_AS_TURKISH), chunk(25, HINDI)], false],
    ["kn", "native", [chunk(12, KANNADA)], false],
    ["gu", "native", [chunk(14, GUJARATI)], false],
    ["en", "native", [chunk(12, KANNADA_OF_NEWS)], true],
    ["hi", "native", [chunk(12, GUJARATI_IN_DOUBT)], true],
    ["hi", "native", [chunk(7, GUJARATI_IN_DOUBT)], false],
    ["hi", "native", [chunk(7, HINDI_AS_SWAHILI)], false],
    ["hi", "native", [chunk(7, HINDI_AS_SWAHILI), chunk(5, HINDI)], false],
    // Base cannot tell these from Marathi.
    ["mr", "native", [chunk(12, KANNADA_OF_NEWS)], false],
    ["mr", "native", [chunk(12, GUJARATI_IN_DOUBT)], false],
    ["as", "native", [chunk(13, ASSAMESE)], false],
    ["hi", "native", [chunk(13, ASSAMESE)], true],
    ["hi", "native", [chunk(2, ENGLISH)], false],
    ["hi", "native", [chunk(4, ENGLISH)], true],
    ["hi", "native", [chunk(30, {}), chunk(12, ENGLISH)], true],
    ["hi", "native", [chunk(30, {})], false],
    ["hi", "native", [], false],
  ] as const) {
    const spoken = chunks.map(({ speechMs, languages }) => {
      return `${languages.map(({ language }) => language).join("/") || "unknown"} ${speechMs / 1000} s`;
    });
    test(`${spoken.join(", ") || "nothing"} asked as ${asked}, ${mode}: ${isNamed ? "named" : "not named"}`, () => {
      expect(mismatchedLanguages({ language: asked, mode }, chunks) !== undefined).toBe(isNamed);
    });
  }

  test("the candidates are the means over the speech, the most probable first", () => {
    const candidates = mismatchedLanguages({ language: "ta", mode: "native" }, [
      chunk(30, { hi: 0.9, ur: 0.1 }),
      chunk(10, { hi: 0.5, ur: 0.5 }),
    ]);
    expect(candidates?.map(({ language }) => language)).toEqual(["hi", "ur"]);
    expect(candidates?.[0]?.probability).toBeCloseTo(0.8);
  });
});
