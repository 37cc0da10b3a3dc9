import { describe, expect, test } from "bun:test";
import type { LetterWay } from "../domain/model.ts";
import { conversionOf } from "./letter-conversion.ts";
import { devanagariOfUrdu } from "./urdu-letters.ts";

const model = (letters?: LetterWay) => ({
  languages: [{ code: "hi", name: "Hindi", modes: ["native" as const], ...(letters ? { letters } : {}) }],
});

describe("devanagariOfUrdu", () => {
  test.each([
    ["یہاں کیا ہے؟", "यहाँ क्या है?"],
    ["مجھے پانی دو۔", "मुझे पानी दो।"],
    ["بھائی کا گھوڑا بھاگا", "भाई का घोड़ा भागा"],
    ["وہ ڈھول بجاتا تھا، اور ہم نہیں", "वह ढोल बजाता था, और हम नहीं"],
    ["آدمی ۱۲ آم لایا", "आदमी ۱۲ आम लाया"],
    ["پڑھنا", "पढ़ना"],
  ])("%s becomes %s", (urdu, hindi) => {
    expect(devanagariOfUrdu(urdu)).toBe(hindi);
  });

  test("letters of Arabic keyboards, joiners and marks of vowels change nothing", () => {
    expect(devanagariOfUrdu("هي كِتاب")).toBe(devanagariOfUrdu("ہی کتاب"));
    expect(devanagariOfUrdu("مل\u200Cکر")).toBe(devanagariOfUrdu("ملکر"));
  });

  test("other text stays, and no Arabic letter is left", () => {
    const mixed = "मेरा order 25 है, ठीक।";
    expect(devanagariOfUrdu(mixed)).toBe(mixed);
    const all = Array.from({ length: 0x700 - 0x600 }, (_, i) => String.fromCodePoint(0x600 + i));
    for (const text of [...all, all.join(""), all.join(" ")]) {
      expect(devanagariOfUrdu(text)).not.toMatch(/(?=\p{Script=Arabic})\p{L}/u);
    }
  });
});

test("the manifest chooses the scripts of Hindi, and other languages have no other script", () => {
  expect(conversionOf("hi", model())?.scripts).toEqual(["Devanagari", "Arabic"]);
  expect(conversionOf("hi", model("either"))?.scripts).toEqual(["Devanagari", "Arabic"]);
  expect(conversionOf("hi", model("other"))?.scripts).toEqual(["Arabic"]);
  expect(conversionOf("hi", model("own"))).toBeUndefined();
  expect(conversionOf("hi", model("prompted"))).toBeUndefined();
  expect(conversionOf("ur", model())).toBeUndefined();
});
