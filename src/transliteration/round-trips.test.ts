import { describe, expect, test } from "bun:test";
import { LANGUAGES } from "../domain/languages.ts";
import { ALPHABETS } from "./alphabets.ts";
import { applyScript, normalizeForScripts } from "./apply-script.ts";
import { convertBrahmic } from "./brahmic.ts";
import { BRAHMIC_SCRIPTS, type BrahmicScript, isBrahmic } from "./brahmic-letters.ts";
import { scriptsFor } from "./offered.ts";
import { codeOfScript } from "./script-codes.ts";

/** Tests `applyScript`: between scripts the way back gives the same text. */

/** Returns the text in a script, or the reason why not. */
function inScript(text: string, language: string, script: string): string {
  const written = applyScript(normalizeForScripts(text, language), { language, script });
  return "refusal" in written ? written.refusal : written.text;
}

/** Returns the text in another script and back. */
function thereAndBack(text: string, language: string, there: string, home: string): string {
  return inScript(inScript(text, language, there), language, home);
}

/** Draws numbers from 0 up to a bound, the same ones in each run. */
function drawing(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
}

const CONSONANT = /^\p{Lo}$/u;
const SIGN = /^\p{M}$/u;

/** Reports whether a letter is a vowel of its own, which has no sign: a sign would make another letter of it. */
function isVowel(letter: string): boolean {
  const place = (letter.codePointAt(0) ?? 0) % 0x80;
  return place < 0x15 || place > 0x5f || letter === "ৎ";
}

/** Makes words of an alphabet: consonants with and without signs and viramas, vowels, marks. */
function wordsOf(alphabet: string, count: number): string {
  const draw = drawing(count);
  const letters = [...alphabet.normalize("NFC")];
  // An aytham of Tamil is not doubled.
  const bases = letters.filter((letter) => CONSONANT.test(letter) && letter !== "ஃ");
  const signs = letters.filter((letter) => SIGN.test(letter) && !/[़਼়଼]/u.test(letter));
  const words = Array.from({ length: count }, () => {
    let word = "";
    for (let left = 1 + draw(5); left > 0; left--) {
      const base = bases[draw(bases.length)] ?? "";
      word += base;
      if (!isVowel(base) && draw(3) > 0) word += signs[draw(signs.length)];
    }
    return word;
  });
  return words.join(" ").normalize("NFC");
}

/** Puts each letter apart, and a sign behind the consonant before it. */
function onBases(letters: string): string {
  let base = [...letters].find((letter) => CONSONANT.test(letter) && !isVowel(letter)) ?? "";
  const apart: string[] = [];
  for (const letter of letters) {
    if (CONSONANT.test(letter) && !isVowel(letter)) base = letter;
    apart.push(SIGN.test(letter) ? base + letter : letter);
  }
  return apart.join(" ").normalize("NFC");
}

const OFFERED = LANGUAGES.flatMap(({ code, scripts: [home] }) =>
  scriptsFor(code)
    .filter((script) => script.length === 4 && script !== codeOfScript(home))
    .map((script) => [code, codeOfScript(home), script] as const),
);

/** Arabic letters are tried with whole syllables below. */
const BRAHMIC_OFFERED = OFFERED.filter(
  ([code, , script]) => ALPHABETS[code] !== undefined && script !== "arab",
);

describe("every letter that a language needs comes back", () => {
  test.each(BRAHMIC_OFFERED)("%s from %s to %s", (code, home, script) => {
    const letters = onBases((ALPHABETS[code] ?? "").normalize("NFC"));
    expect(thereAndBack(letters, code, script, home)).toBe(thereAndBack(letters, code, "native", "native"));
  });
});

describe("random words of the alphabet come back", () => {
  test.each(BRAHMIC_OFFERED)("%s from %s to %s", (code, home, script) => {
    const words = wordsOf(ALPHABETS[code] ?? "", 2_000);
    const normalized = normalizeForScripts(words, code);
    expect(thereAndBack(normalized, code, script, home)).toBe(normalized);
  });
});

test("each syllable of Punjabi comes back from Arabic letters", () => {
  const consonants = [..."ਕਖਗਘਚਛਜਝਟਠਡਢਣਤਥਦਧਨਪਫਬਭਮਯਰਲਵਸਹੜ", "ਸ਼", "ਖ਼", "ਗ਼", "ਜ਼", "ਫ਼", "ਲ਼", "ਪ੍ਰ", "ਨ੍ਹ", "ਸ੍ਵ"];
  const rhymes = [
    "",
    "ਾ",
    "ਿ",
    "ੀ",
    "ੁ",
    "ੂ",
    "ੇ",
    "ੈ",
    "ੋ",
    "ੌ",
    "ੰ",
    "ਾਂ",
    "ਿੰ",
    "ੀਂ",
    "ੁੰ",
    "ੂੰ",
    "ੇਂ",
    "ੈਂ",
    "ੋਂ",
    "ੌਂ",
    "ੱਕਾ",
    "ਾਇਆ",
    "ੁਆਈ",
  ];
  const syllables = consonants.flatMap((consonant) => rhymes.map((rhyme) => consonant + rhyme));
  const words = [
    ...syllables,
    ...syllables.map((one) => `${one}ਲ`),
    ...syllables.map((one) => `ਅ${one}`),
    ...syllables.map((one) => `${one}ਵੋ`),
  ];
  const lost = words
    .map((word) => word.normalize("NFC"))
    .filter((word) => thereAndBack(word, "pa", "arab", "guru") !== word);
  expect(lost).toEqual([]);
});

test("every letter of each script's block comes back from every other one, or stays", () => {
  for (const from of BRAHMIC_SCRIPTS) {
    const letters = onBases(lettersOfBlock(from).join("")).split(" ");
    for (const to of BRAHMIC_SCRIPTS) {
      const options = { language: "sa", home: from };
      const lost = letters.filter(
        (letter) => convertBrahmic(convertBrahmic(letter, from, to, options), to, from, options) !== letter,
      );
      expect({ from, to, lost }).toEqual({ from, to, lost: [] });
    }
  }
});

function lettersOfBlock(script: BrahmicScript): string[] {
  const own = new RegExp(`^\\p{Script=${script}}$`, "u");
  return Array.from({ length: 0x500 }, (_, at) => String.fromCodePoint(0x0900 + at))
    .filter((letter) => own.test(letter))
    .map((letter) => letter.normalize("NFC"));
}

/** Sentences, so that orthography as it is used is tried, too. */
const SENTENCES: readonly (readonly [language: string, text: string])[] = [
  ["as", "মই অসমীয়া ভাষা ভাল পাওঁ, ৰাজ্যৰ ৱাৰ্ড।"],
  ["bn", "বাংলা ভাষা, উৎসব, সৎ লোক, পড়া, গাঢ় রং, অর্থ।"],
  ["gu", "ગુજરાતી ઑફિસમાં કામ, મળવું, ઋતુ."],
  ["hi", "नमस्ते, ज़िंदगी में पढ़ाई ज़रूरी है; डॉक्टर हँसी, क्षण, ज्ञान, कृपा।"],
  ["kn", "ಕನ್ನಡ ಹಳೆಯ ಭಾಷೆ, ಋತು, ವೃತ್ತ."],
  ["kok", "कोंकणी भास, कळ, ऑफिस."],
  ["ml", "മലയാളം അവൻ എന്റെ വാഴ, അവർ എന്ന് പറഞ്ഞു, നിൽക്കുക, പൗരൻ, കൾ."],
  ["mni", "ꯃꯩꯇꯩꯂꯣꯟ ꯑꯁꯤ ꯏꯝꯐꯥꯜ ꯂꯥꯢꯔꯤꯛ ꯄꯨꯛꯅꯤꯡ ꯀ꯭ꯔꯤꯁ꯭ꯇꯥꯟ ꯌꯥꯝꯅꯥ ꯅꯨꯡꯉꯥꯏꯔꯦ ꯈꯨꯠ ꯱꯲꯳ ꯑꯩ ꯑꯣꯏꯕꯥ꯫"],
  ["mr", "मराठी ऑफिस, बँक, ॲप, कळ, दऱ्या, कॅमेरा."],
  ["ne", "नेपाली भाषा, राम्रो छ।"],
  ["or", "ଓଡ଼ିଆ ଭାଷା, ୱାଟ, ଗଢ଼ା, କଳା, ଯାଏ, ନୟନ।"],
  ["pa", "ਪੰਜਾਬੀ ਬੋਲੀ, ਅੱਖ, ਸਿੱਖ, ਜ਼ਮੀਨ, ਮੈਂ, ਵਿੱਚੋਂ, ਗਈ, ਆਇਆ, ਸਵੇਰ, ਪ੍ਰੀਤ, ਇੱਜ਼ਤ, ਸਿੰਘ, ਹਾਂ, ਕਵਿਤਾ?"],
  ["sa", "संस्कृतम्, रामः वनं गच्छति, सोऽहम्।"],
  ["sat", "ᱥᱟᱱᱛᱟᱲᱤ ᱯᱟᱹᱨᱥᱤ ᱵᱷᱟᱜᱮ ᱠᱚᱣᱟᱜᱼᱟ ᱚᱞ ᱪᱤᱠᱤ ᱥᱮᱸᱫᱽᱨᱟ ᱢᱟᱺᱢᱷᱟ ᱢᱦᱟ ᱑᱒᱾"],
  ["ta", "தமிழ் எழுத்து, ஒன்று, ஐந்து, பற்று, மழை, கண்ணன், அஃது, ஹஜ்."],
  ["te", "తెలుగు భాష, చెట్టు, ఋతువు, అంతఃపురం."],
];

describe("sentences come back", () => {
  test.each(SENTENCES)("of %s", (language, text) => {
    const home = LANGUAGES.find(({ code }) => code === language)?.scripts[0];
    if (!home) throw new Error(`no language ${language}`);
    const plain = inScript(text, language, "native");
    const scripts = OFFERED.filter(([code]) => code === language).map(([, , script]) => script);
    const back = scripts.map((script) => [script, thereAndBack(text, language, script, codeOfScript(home))]);
    expect(back).toEqual(scripts.map((script) => [script, plain]));
    expect(scripts.length).toBeGreaterThan(0);
    if (isBrahmic(home)) expect(ALPHABETS[language]).toBeDefined();
  });
});

test("Sindhi in Devanagari comes back from vocalised Arabic letters", () => {
  const text = inScript("सिन्धी ॿोली असां जो ॾींहुं पाणी घर", "sd", "arab");
  expect(text).toBe("سِنْڌِي ٻولِي اَساں جو ڏِين٘هُں پاڻِي گھَر");
});

describe("what would be guessed is refused with the reason", () => {
  test.each([
    ["ur", "latin", "سب", "Urdu is written in Arabic letters."],
    ["ks", "iso15919", "کٲشُر", "Kashmiri is written in Arabic letters."],
    ["sd", "deva", "سنڌي", "Sindhi is written in Arabic letters."],
    ["ks", "arab", "कॉशुर", "The text is in Devanagari"],
    ["hi", "arab", "सब", "Hindi is not written in this script."],
    ["hi", "taml", "सब", "does not have all letters of Hindi"],
    ["hi", "guru", "सब", "does not have all letters of Hindi: ऋ"],
    ["ta", "beng", "நான்", "does not have all letters of Tamil"],
    ["sat", "iso15919", "ᱚᱞ", "ISO 15919 has no letters for the script of Santali."],
    ["hi", "thai", "सब", "The script is native, latin, iso15919, or a code"],
    ["xx", "latin", "a", "The language xx is not known."],
    ["pa", "guru", "پنجابی بولی", "The text is in Arabic letters."],
    ["pa", "arab", "ਙਿਆਨ ੴ", "The text has letters or signs that Arabic letters cannot keep."],
  ])("%s in %s", (language, script, text, reason) => {
    expect(inScript(text, language, script)).toContain(reason);
  });
});
