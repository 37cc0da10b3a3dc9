import { describe, expect, test } from "bun:test";
import { makeSentencePieces, type SpmChanges } from "../testing/makers/punctuation-maker.ts";
import { openSentencePieces } from "./sentencepiece.ts";

const WORDS = ["hello", "here", "नमस्ते"];

function idsOf(word: string): string[] {
  const { bytes, pieces } = makeSentencePieces(WORDS);
  const opened = openSentencePieces(bytes);
  return opened.encode(word).map(({ id }) => pieces[id] ?? "");
}

/** As release 0.2.3 of SentencePiece's own library divides them. */
test.each([
  ["hello", ["▁hel", "lo"]],
  ["here", ["▁here"]],
  ["नमस्ते", ["▁नमस", "्ते"]],
  ["lo", ["▁", "lo"]],
  ["hex", ["▁", "h", "e", "<unk>"]],
  ["xyz", ["▁", "<unk>"]],
  ["xhello", ["▁", "<unk>", "h", "e", "l", "lo"]],
])("%s is divided as SentencePiece does", (word, expected) => {
  expect(idsOf(word)).toEqual(expected);
});

test("the texts of the pieces are the word without the mark of a new one", () => {
  const opened = openSentencePieces(makeSentencePieces(WORDS).bytes);
  for (const word of ["hello", "hexx", "नमस्ते", "x"])
    expect(
      opened
        .encode(word)
        .map(({ text }) => text)
        .join(""),
    ).toBe(word);
  expect([opened.begin, opened.end]).toEqual([1, 2]);
});

test("a long word takes time in proportion to its length", () => {
  const opened = openSentencePieces(makeSentencePieces(WORDS).bytes);
  expect(opened.encode("hello".repeat(20_000)).length).toBeGreaterThan(20_000);
});

describe("models of another form", () => {
  test.each<[SpmChanges, RegExp]>([
    [{ model_type: 2 }, /model_type is not unigram/],
    [{ byte_fallback: true }, /byte_fallback is true/],
    [{ add_dummy_prefix: false }, /add_dummy_prefix is false/],
  ])("%j are refused by the name of the setting", (changes, reason) => {
    expect(() => openSentencePieces(makeSentencePieces(WORDS, changes).bytes)).toThrow(reason);
  });

  test("a piece of any length is refused", () => {
    const { bytes } = makeSentencePieces(["x".repeat(5_000)]);
    expect(() => openSentencePieces(bytes)).toThrow(/piece of more than 1024 bytes/);
  });

  test("bytes that are no model are refused", () => {
    const { bytes } = makeSentencePieces(WORDS);
    for (const broken of [new Uint8Array(), bytes.subarray(0, -1), new Uint8Array(64).fill(255)])
      expect(() => openSentencePieces(broken)).toThrow(/not a SentencePiece model/);
  });
});
