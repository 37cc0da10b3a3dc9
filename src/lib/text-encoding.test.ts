import { describe, expect, test } from "bun:test";
import { LANGUAGES } from "../domain/languages.ts";
import { decodeText, TextEncodingError } from "./text-encoding.ts";

const utf8 = (text: string) => new TextEncoder().encode(text);
const utf16le = (text: string) => new Uint8Array(Buffer.from(text, "utf16le"));
const utf16be = (text: string) => new Uint8Array(Buffer.from(text, "utf16le").swap16());
const utf32le = (text: string) =>
  new Uint8Array(Uint32Array.from(text, (character) => character.codePointAt(0) ?? 0).buffer);

const TEXTS = [
  ...LANGUAGES.map(({ nativeName }) => nativeName),
  "मेरा काम नंबर पाँच है\r\n",
  "ನಮಸ್ಕಾರ\nರ\u200D್ಯಾಂಕ್",
  "file\ttranscript\na.wav\tकाम\n",
  "५",
  "",
];

describe("a text", () => {
  test("is read in UTF-8 and in UTF-16 with a byte order mark", () => {
    for (const text of TEXTS) {
      for (const bytes of [
        utf8(text),
        utf8(`\uFEFF${text}`),
        utf16le(`\uFEFF${text}`),
        utf16be(`\uFEFF${text}`),
      ]) {
        expect(decodeText(bytes)).toBe(text);
      }
    }
  });

  test("in UTF-16 without a mark is refused, also a single word", () => {
    const words = [
      "मेरा काम",
      "नमस्ते",
      "ਪੰਜਾਬੀ",
      "ଓଡ଼ିଆ",
      "తెలుగు",
      "தமிழ்",
      "ಕನ್ನಡ",
      "മലയാളം",
      "ꯃꯤꯇꯩ ꯂꯣꯟ",
      "a cafe\r\n",
    ];
    for (const word of words) {
      for (const bytes of [utf16le(word), utf16be(word)])
        expect(() => decodeText(bytes)).toThrow(TextEncodingError);
    }
  });

  test("of single letters in lines or cells is UTF-8", () => {
    for (const text of [
      "a\nb\nc\nd\n",
      "1\n2\n3\n4\n",
      "a\tb\tc\td\n",
      "yes no\n",
      "5\n",
      "\n\n\n\n\n\n\n\n",
    ])
      expect(decodeText(utf8(text))).toBe(text);
  });

  test("in any other encoding is refused, with what it is", () => {
    const others: [Uint8Array, string][] = [
      [Uint8Array.from([0x63, 0x61, 0x66, 0xe9]), "it is not in UTF-8"],
      // ISCII: "नमस्ते".
      [Uint8Array.from([0xc6, 0xcc, 0xd7, 0xe8, 0xc2, 0xe1]), "it is not in UTF-8"],
      [utf32le("\uFEFFकाम"), "UTF-32"],
      [Uint8Array.from([0, 0, 0xfe, 0xff, 0, 0, 0x09, 0x15]), "UTF-32"],
      [utf16le("\uFEFFकाम").subarray(0, 7), "damaged"],
      [Uint8Array.from([0xff, 0xfe, 0x00, 0xd8, 0x41, 0x00]), "damaged"],
      [utf8("RIFF\u0001\u0000 WAVE"), "control characters"],
    ];
    for (const [bytes, reason] of others) expect(() => decodeText(bytes)).toThrow(reason);
  });
});
