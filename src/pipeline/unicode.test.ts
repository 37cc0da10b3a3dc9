import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { SCRIPTS } from "../domain/languages.ts";
import { MODES } from "../domain/transcription.ts";
import { normalizeText } from "./unicode.ts";
import { applyWording } from "./wording.ts";

/** Reports whether a mark has canonical combining class 9 (virama): it comes after class 8 and before class 10. */
function isVirama(mark: string): boolean {
  const after8 = `${mark}\u3099`.normalize("NFD") === `\u3099${mark}` && mark !== "\u3099";
  const before10 = `\u05B0${mark}`.normalize("NFD") === `${mark}\u05B0` && mark !== "\u05B0";
  return after8 && before10;
}

const viramas = Array.from({ length: 0x1_4000 }, (_, code) => code)
  .filter((code) => code < 0xd800 || code > 0xdfff)
  .map((code) => String.fromCodePoint(code))
  .filter((character) => /\p{M}/u.test(character) && isVirama(character));

/** Words whose letters take another form without the joiner, by language, each once with what it says. */
const WORDS = [
  ["kn", "ರ\u200D್ಯಾಂಕ್", "rank: ra stays whole before ya"],
  ["kn", "ರ\u200D್ಯಾಲಿ", "rally"],
  ["kn", "ರ\u200C್ಯಾಪ್", "rap, written with the non-joiner"],
  ["or", "ର\u200D\u0B4Dୟ", "ra with ya-phala"],
  ["or", "ର\u200C\u0B4Dୟ", "the same with the non-joiner"],
  ["bn", "র\u200D্যাম", "RAM: ra with ya-phala"],
  ["as", "ৰ\u200D্যাম", "the same with the Assamese ra"],
  ["hi", "र\u200D्य", "ra whole before ya"],
  ["mr", "दर\u200D्या", "valleys, joiner before the virama"],
  ["mr", "दर्\u200Dया", "valleys, joiner after the virama"],
  ["ne", "गर\u200C्यो", "did"],
  ["hi", "ड\u093C\u200D्य", "a joiner behind a nukta"],
  ["gu", "ર\u200D્ય", "ra whole"],
  ["pa", "ਕ\u200D੍ਰ", "ra below"],
  ["ta", "க\u200C்ஷ", "no conjunct"],
  ["te", "ర\u200D్య", "ra whole"],
  ["ml", "ക\u200D്ര", "the older form of the conjunct"],
  ["ml", "ക\u200C്ര", "no conjunct"],
] as const;

describe("joiners at a virama", () => {
  test("there are viramas of all scripts of the languages", () => {
    expect(viramas.length).toBeGreaterThan(60);
    const ofIndia = "\u094D\u09CD\u0A4D\u0ACD\u0B4D\u0BCD\u0C4D\u0CCD\u0D4D\uAAF6\uABED";
    for (const virama of ofIndia) expect(viramas).toContain(virama);
  });

  test("are kept before every virama of Unicode, and after it where a letter follows", () => {
    for (const virama of viramas) {
      for (const joiner of ["\u200C", "\u200D"]) {
        for (const text of [`क${joiner}${virama}य`, `क${virama}${joiner}य`, `क${joiner}${virama}`]) {
          expect(normalizeText(text, "hi")).toBe(text.normalize("NFC"));
        }
        expect(normalizeText(`क${joiner}य क${virama}${joiner}`, "hi")).toBe(`कय क${virama}`);
      }
    }
  });

  for (const [language, word, what] of WORDS) {
    test(`${language} ${what}: the code points of ${word} do not change in any mode`, () => {
      const expected = word.normalize("NFC");
      for (const mode of MODES) {
        expect(applyWording(word, { language, mode })).toBe(expected);
        expect(applyWording(`${word} ${word}.`, { language, mode })).toBe(`${expected} ${expected}.`);
      }
    });
  }

  test("are parts of words, also where a word is cut off", () => {
    const native = (text: string) => applyWording(text, { language: "kn", mode: "native" });
    expect(native("ರ\u200D್ಯಾ-ರ\u200D್ಯಾಂಕ್")).toBe("ರ\u200D್ಯಾಂಕ್");
    expect(native("ಕ್\u200Dಯ-ಯಾರು")).toBe("ಕ್\u200Dಯ-ಯಾರು");
  });
});

test("normalized twice, a text changes no more", () => {
  const part = fc.constantFrom(
    ..."कରರഅরা\u093C\u0B4D\u0CCD\u094D\u09CD\u0D4D\u200C\u200D\u0945\u0905\u09CE\u09A4नണ -ا\u0640\u00AD\uFEFF",
  );
  const text = fc.oneof(
    fc.array(part, { maxLength: 12 }).map((parts) => parts.join("")),
    fc.string({ unit: "binary" }),
  );
  fc.assert(
    fc.property(text, fc.constantFrom("hi", "kn", "ml", "bn", "ur"), (raw, language) => {
      const once = normalizeText(raw, language);
      expect(normalizeText(once, language)).toBe(once);
    }),
    { numRuns: 3_000 },
  );
});

test("a doubled vowel sign of any script is one", () => {
  const signs = [
    ...["ি", "ी", "ી", "ੀ", "ೀ", "ീ", "ꯤ", "ୀ", "ீ", "ీ"].map((sign) => `x${sign}`),
    // Alphabets have letters instead.
    ...["ᱤ", "i", "ی"],
  ];
  const isIn = (script: string, text: string) => new RegExp(`\\p{Script=${script}}$`, "u").test(text);
  expect(SCRIPTS.filter((script) => !signs.some((text) => isIn(script, text)))).toEqual([]);
  for (const text of signs.filter((one) => one.startsWith("x"))) {
    expect(normalizeText(text + text.slice(1), "hi")).toBe(text);
  }
});
