import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { LANGUAGES } from "../domain/languages.ts";
import { MODES, type Mode } from "../domain/transcription.ts";
import { normalizeText } from "./unicode.ts";
import { applyWording, hasForeignScript, heldBackCharacter, promptFor, suppressPattern } from "./wording.ts";

type Pair = { raw: string } & Record<Mode, string>;

/** Recognized text, and the expected text of each mode. */
const PAIRS: Record<string, Pair[]> = {
  en: [
    {
      raw: " Um, I I was, uh, going to the the market.",
      native: "I was, going to the market.",
      codemix: "I was, going to the market.",
      verbatim: "Um, I I was, uh, going to the the market.",
    },
    {
      raw: "w-w-what is y- your number , please ?? [Music]",
      native: "what is your number, please?",
      codemix: "what is your number, please?",
      verbatim: "w-w-what is y- your number , please ?? [Music]",
    },
    {
      raw: "uh we re-read the e-email in the ER, hmm.",
      native: "we re-read the e-email in the ER.",
      codemix: "we re-read the e-email in the ER.",
      verbatim: "uh we re-read the e-email in the ER, hmm.",
    },
    {
      raw: "four four four five, no no no",
      native: "four four four five, no no no",
      codemix: "four four four five, no no no",
      verbatim: "four four four five, no no no",
    },
    { raw: "Umm... (coughs) um, ♪", native: "", codemix: "", verbatim: "Umm... (coughs) um, ♪" },
    {
      raw: "I have twenty five, no, 25 <unk> dollars [unknown] <|nospeech|>",
      native: "I have twenty five, no, 25 dollars",
      codemix: "I have twenty five, no, 25 dollars",
      verbatim: "I have twenty five, no, 25 dollars [unknown]",
    },
    {
      // "that that" and "had had" are correct grammar. "very very" is emphasis.
      raw: "I think that that is what he had had, very very good",
      native: "I think that that is what he had had, very very good",
      codemix: "I think that that is what he had had, very very good",
      verbatim: "I think that that is what he had had, very very good",
    },
  ],
  hi: [
    {
      raw: " उम्म, मेरा ऑर्डर नंबर  पाँच चार है |",
      native: "मेरा ऑर्डर नंबर पाँच चार है।",
      codemix: "मेरा order number पाँच चार है।",
      verbatim: "उम्म, मेरा ऑर्डर नंबर पाँच चार है |",
    },
    {
      raw: "मैं मैं कु-कुछ धीरे-धीरे बार बार बोल रहा हूँ ।",
      native: "मैं कुछ धीरे-धीरे बार बार बोल रहा हूँ।",
      codemix: "मैं कुछ धीरे-धीरे बार बार बोल रहा हूँ।",
      verbatim: "मैं मैं कु-कुछ धीरे-धीरे बार बार बोल रहा हूँ ।",
    },
    {
      raw: "हम्म हम २५ रुपये देंगे,फोन करो।।",
      native: "हम 25 रुपये देंगे, फोन करो॥",
      codemix: "हम 25 रुपये देंगे, phone करो॥",
      verbatim: "हम्म हम २५ रुपये देंगे,फोन करो।।",
    },
    {
      // A nukta before or after the vowel sign, and the single code point, are the same spelling.
      raw: "फ\u093Cोन फो\u093Cन \u095Eोन",
      native: "फ़ोन फ़ोन फ़ोन",
      codemix: "phone phone phone",
      verbatim: "फ़ोन फ़ोन फ़ोन",
    },
  ],
  ta: [
    {
      raw: "ம்ம், என் ஆர்டர் நம்பர் ௫ ஆகும் .",
      native: "என் ஆர்டர் நம்பர் 5 ஆகும்.",
      codemix: "என் order number 5 ஆகும்.",
      verbatim: "ம்ம், என் ஆர்டர் நம்பர் ௫ ஆகும் .",
    },
    {
      raw: "நான் நான் வ-வருகிறேன், அம்மா",
      native: "நான் வருகிறேன், அம்மா",
      codemix: "நான் வருகிறேன், அம்மா",
      verbatim: "நான் நான் வ-வருகிறேன், அம்மா",
    },
    {
      raw: "ஆர்டரை cancel செய்",
      native: "ஆர்டரை cancel செய்",
      codemix: "ஆர்டரை cancel செய்",
      verbatim: "ஆர்டரை cancel செய்",
    },
    {
      // The vowel of கொ as two signs and as one sign is the same spelling.
      raw: "கொடு கொடு [இசை] போன் பேங்க் ,டாக்டர்",
      native: "கொடு கொடு போன் பேங்க், டாக்டர்",
      codemix: "கொடு கொடு phone bank, doctor",
      verbatim: "கொடு கொடு [இசை] போன் பேங்க் ,டாக்டர்",
    },
  ],
  bn: [
    {
      raw: "উম্ম, আমার অর্ডার নম্বর ৪২ |",
      native: "আমার অর্ডার নম্বর 42।",
      codemix: "আমার order number 42।",
      verbatim: "উম্ম, আমার অর্ডার নম্বর ৪২ |",
    },
    {
      raw: "আমি আমি যা-যাচ্ছি, হঠাত্\u200D আস্তে আস্তে",
      native: "আমি যাচ্ছি, হঠাৎ আস্তে আস্তে",
      codemix: "আমি যাচ্ছি, হঠাৎ আস্তে আস্তে",
      verbatim: "আমি আমি যা-যাচ্ছি, হঠাৎ আস্তে আস্তে",
    },
  ],
  te: [
    {
      raw: "హ్మ్ నేను నేను ఆర్డర్ నంబర్ ౪౨ చెప్పాను .",
      native: "నేను ఆర్డర్ నంబర్ 42 చెప్పాను.",
      codemix: "నేను order number 42 చెప్పాను.",
      verbatim: "హ్మ్ నేను నేను ఆర్డర్ నంబర్ ౪౨ చెప్పాను .",
    },
  ],
  mr: [
    {
      raw: "उम मी मी ऑर्डर नंबर सांगतो |",
      native: "मी ऑर्डर नंबर सांगतो।",
      codemix: "मी order number सांगतो।",
      verbatim: "उम मी मी ऑर्डर नंबर सांगतो |",
    },
  ],
  gu: [
    {
      raw: "હું હું ફોન કરું છું ૩ વાર",
      native: "હું ફોન કરું છું 3 વાર",
      codemix: "હું phone કરું છું 3 વાર",
      verbatim: "હું હું ફોન કરું છું ૩ વાર",
    },
  ],
  kn: [
    {
      raw: "ಹ್ಮ್ ನಾನು ಫೋನ್ ಮಾಡಿದೆ",
      native: "ನಾನು ಫೋನ್ ಮಾಡಿದೆ",
      codemix: "ನಾನು phone ಮಾಡಿದೆ",
      verbatim: "ಹ್ಮ್ ನಾನು ಫೋನ್ ಮಾಡಿದೆ",
    },
  ],
  pa: [
    {
      raw: "ਉਮ ਮੈਂ ਮੈਂ ਫੋਨ ਕੀਤਾ |",
      native: "ਮੈਂ ਫੋਨ ਕੀਤਾ।",
      codemix: "ਮੈਂ phone ਕੀਤਾ।",
      verbatim: "ਉਮ ਮੈਂ ਮੈਂ ਫੋਨ ਕੀਤਾ |",
    },
  ],
  or: [
    {
      raw: "ମୁଁ ମୁଁ ଫୋନ କଲି |",
      native: "ମୁଁ ଫୋନ କଲି।",
      codemix: "ମୁଁ phone କଲି।",
      verbatim: "ମୁଁ ମୁଁ ଫୋନ କଲି |",
    },
  ],
  as: [
    {
      raw: "মই মই ফোন কৰিছিলোঁ ৫ বাৰ",
      native: "মই ফোন কৰিছিলোঁ 5 বাৰ",
      codemix: "মই phone কৰিছিলোঁ 5 বাৰ",
      verbatim: "মই মই ফোন কৰিছিলোঁ ৫ বাৰ",
    },
  ],
  ne: [
    {
      raw: "म म फोन नम्बर दिन्छु ।",
      native: "म फोन नम्बर दिन्छु।",
      codemix: "म phone number दिन्छु।",
      verbatim: "म म फोन नम्बर दिन्छु ।",
    },
  ],
  ml: [
    {
      raw: "ഹ്മ്മ് എന്\u200D ഫോണ്\u200D, അമ്മ",
      native: "എൻ ഫോൺ, അമ്മ",
      codemix: "എൻ phone, അമ്മ",
      verbatim: "ഹ്മ്മ് എൻ ഫോൺ, അമ്മ",
    },
  ],
  ur: [
    {
      raw: "ہممم میرا فون نمبر ۵ ہے ۔",
      native: "میرا فون نمبر 5 ہے۔",
      codemix: "میرا phone number 5 ہے۔",
      verbatim: "ہممم میرا فون نمبر ۵ ہے ۔",
    },
  ],
};

/** Marks that end a sentence, with a language that has them and one of its words. */
const SENTENCE_MARKS = [
  ...[".", "?", "!"].map((mark) => ({ mark, language: "en", word: "yes" })),
  ...["।", "॥", "?", "!"].map((mark) => ({ mark, language: "hi", word: "हाँ" })),
  ...["।", "॥"].map((mark) => ({ mark, language: "bn", word: "হ্যাঁ" })),
  ...["۔", "؟", "!"].map((mark) => ({ mark, language: "ur", word: "ہاں" })),
  ...["۔", "؟"].map((mark) => ({ mark, language: "sd", word: "ها" })),
  ...["\u1C7E", "\u1C7F", "?", "!"].map((mark) => ({ mark, language: "sat", word: "ᱦᱮᱸ" })),
  ...["\uABEB", "\uAAF0", "\uAAF1"].map((mark) => ({ mark, language: "mni", word: "ꯍꯣꯏ" })),
];

describe("a mark that ends a sentence", () => {
  for (const { mark, language, word } of SENTENCE_MARKS) {
    test(`${language} ${mark} has a space only behind it`, () => {
      const native = (text: string) => applyWording(text, { language, mode: "native" });
      expect(native(`${word} ${mark} ${word} , ${mark}`)).toBe(`${word}${mark} ${word}${mark}`);
      expect(native(`${mark} ${word}`)).toBe(word);
      if (mark !== ".") expect(native(`${word}${mark}${word}`)).toBe(`${word}${mark} ${word}`);
      expect(applyWording(`${word} ${mark}`, { language, mode: "verbatim" })).toBe(`${word} ${mark}`);
    });
  }

  test("moves from a removed hesitation to the word before it", () => {
    for (const { mark, language, word } of SENTENCE_MARKS) {
      const hesitation = { en: "um", hi: "उम्म", bn: "উম্ম", ur: "ہممم", sd: "ہممم", sat: "ᱩᱢ", mni: "ꯎꯝ" }[
        language
      ];
      const text = applyWording(`${word}, ${hesitation}${mark}`, { language, mode: "native" });
      expect(text).toBe(`${word}${mark}`);
    }
  });
});

describe("applyWording", () => {
  for (const [language, pairs] of Object.entries(PAIRS)) {
    for (const pair of pairs) {
      for (const mode of MODES) {
        test(`${language} ${mode}: ${pair.raw}`, () => {
          const expected = pair[mode].normalize("NFC");
          expect(applyWording(pair.raw, { language, mode })).toBe(expected);
          expect(applyWording(expected, { language, mode })).toBe(expected);
        });
      }
    }
  }
});

test("applied twice, the wording stage changes nothing more", () => {
  const words = fc.constantFrom(
    ...["um", "the", "the", "w-what", "y- your", "[Music]", "order", "ER", ",", "??", "…", "।", "|", "25"],
    ...["उम्म", "मैं", "मैं", "कु-कुछ", "ऑर्डर", "२५", "फो\u093Cन", "धीरे-धीरे", "-", "(", ")", "♪", "क\u200D", "।।"],
  );
  const anything = fc.oneof(
    fc.array(words, { maxLength: 12 }).map((list) => list.join(" ")),
    fc.string(),
  );
  fc.assert(
    fc.property(anything, fc.constantFrom(...MODES), (text, mode) => {
      const once = applyWording(text, { language: "hi", mode });
      expect(applyWording(once, { language: "hi", mode })).toBe(once);
    }),
    { numRuns: 2_000 },
  );
});

describe("normalizeText", () => {
  test("joiners are kept where they have a meaning and removed elsewhere", () => {
    expect(normalizeText("क्\u200Dष क्\u200Cष", "hi")).toBe("क्\u200Dष क्\u200Cष");
    expect(normalizeText("\u200Dक\u200D मक\u200Cान\u200C", "hi")).toBe("क मकान");
    expect(normalizeText("র\u200D্যাম", "bn")).toBe("র\u200D্যাম");
  });

  test("vowels made of parts are composed, and doubled marks and invisible characters are removed", () => {
    expect(normalizeText("अाज\uFEFF कीी\u200B  कॆॆ\u00A0अॉ", "hi")).toBe("आज की कॆ ऑ");
    expect(normalizeText("அ\u0BC6\u0BBE கொ", "ta")).toBe("அ\u0BCA கொ");
  });

  test("Arabic letters become those of Urdu, and are kept in Sindhi", () => {
    expect(normalizeText("كتاب هي ﻛﺘﺎب", "ur")).toBe("کتاب ہی کتاب");
    expect(normalizeText("هي", "sd")).toBe("هي");
  });
});

describe("heldBackCharacter", () => {
  const isHeldBack = (character: string, language: string, mode: Mode) =>
    new RegExp(`^(?:${heldBackCharacter(language, mode)})$`, "u").test(character);

  test("native allows its own script only, with its marks and digits; codemix adds Latin, verbatim excludes digits", () => {
    const characters = ["क", "२", "़", "।", "a", "é", "ி", "и", "5", "۔", "、", "%", "?", " ", "\u200D"];
    const heldBack = (mode: Mode) => characters.filter((one) => isHeldBack(one, "hi", mode));
    expect(heldBack("native")).toEqual(["a", "é", "ி", "и", "۔", "、"]);
    expect(heldBack("codemix")).toEqual(["ி", "и", "۔", "、"]);
    expect(heldBack("verbatim")).toEqual(["२", "ி", "и", "5", "۔", "、", "%"]);
  });

  test("the scripts in which a model writes may be others, and unknown languages have none", () => {
    const pattern = new RegExp(`^(?:${heldBackCharacter("hi", "native", ["Arabic"])})$`, "u");
    expect(["ہ", "۔", " "].filter((one) => pattern.test(one))).toEqual([]);
    expect(["क", "a"].filter((one) => !pattern.test(one))).toEqual([]);
    expect(heldBackCharacter("xx", "native")).toBeUndefined();
  });
});

describe("suppressPattern", () => {
  const isSuppressed = (token: string, language: string, mode: Mode) =>
    new RegExp(`^(?:${suppressPattern(language, mode)})$`, "u").test(token);

  test("native allows its own script only, codemix adds Latin, verbatim excludes digits", () => {
    const tokens = [" order", " ऑर्डर", "ி", "है।", " 25", "२", "?", "\uFFFD", "\n", "и", "é", "़"];
    const suppressed = (mode: Mode) => tokens.filter((token) => isSuppressed(token, "hi", mode));
    expect(suppressed("native")).toEqual([" order", "ி", "и", "é"]);
    expect(suppressed("codemix")).toEqual(["ி", "и"]);
    expect(suppressed("verbatim")).toEqual(["ி", " 25", "२", "и"]);
    // Tokens with half a character, alone or beside whole characters, may become letters of the language.
    for (const token of ["\uFFFD", " \uFFFD\uFFFD", "\uFFFDक", "क\uFFFD"]) {
      for (const mode of MODES) expect(isSuppressed(token, "hi", mode)).toBe(false);
    }
    expect(isSuppressed("\uFFFDк", "hi", "codemix")).toBe(true);
    expect(isSuppressed(" मेरा", "en", "native")).toBe(true);
    expect(isSuppressed(" order", "en", "native")).toBe(false);
  });

  test("every language can be written with its own name in every mode", () => {
    for (const { code, nativeName } of LANGUAGES) {
      for (const mode of MODES) {
        expect(isSuppressed(nativeName, code, mode)).toBe(false);
        expect(applyWording(nativeName, { language: code, mode })).toBe(nativeName.normalize("NFC"));
      }
    }
    expect(suppressPattern("xx", "native")).toBeUndefined();
  });
});

test("a foreign script is detected, and digits and punctuation are not one", () => {
  expect(hasForeignScript("मेरा order है", "hi", "native")).toBe(true);
  expect(hasForeignScript("मेरा order है", "hi", "codemix")).toBe(false);
  expect(hasForeignScript("میرا", "hi", "codemix")).toBe(true);
  expect(hasForeignScript("मेरा 25, ठीक है।", "hi", "native")).toBe(false);
  expect(hasForeignScript("किताब", "ks", "native")).toBe(false);
});

test("only codemix has a prompt, which mixes scripts", () => {
  expect(promptFor("hi", "native")).toBeUndefined();
  expect(promptFor("en", "codemix")).toBeUndefined();
  for (const language of ["hi", "ta", "bn", "te", "mr", "gu", "kn", "ml", "pa", "ur", "or", "as", "ne"]) {
    const prompt = promptFor(language, "codemix") ?? "";
    expect(prompt).toMatch(/[a-z]{4}/);
    expect(hasForeignScript(prompt, language, "native")).toBe(true);
    expect(hasForeignScript(prompt, language, "codemix")).toBe(false);
    expect(applyWording(prompt, { language, mode: "codemix" })).toBe(prompt.normalize("NFC"));
  }
});
