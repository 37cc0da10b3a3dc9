import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CTC_METADATA, type CtcModelOptions, ctcModel } from "../../testing/makers/onnx-makers.ts";
import { RAW_CTC, TINY_CTC } from "../../testing/makers/tiny-ctc.ts";
import { checkCtcFiles, readTokens } from "./model-files.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-ctc-"));
afterAll(() => rmSync(folder, { recursive: true }));

const MODEL = join(TINY_CTC, "model.onnx");
const TOKENS = join(TINY_CTC, "tokens.txt");
let files = 0;

function file(content: Uint8Array | string): string {
  const path = join(folder, `file-${files++}`);
  writeFileSync(path, content);
  return path;
}

test("the tiny model says what it is, in a few milliseconds", () => {
  const info = checkCtcFiles(MODEL, TOKENS);
  expect(info).toMatchObject({ bins: 80, factor: 4, external: [] });
  expect(info.tokens).toHaveLength(91);
  expect(info.tokens.slice(0, 2)).toEqual(["<unk>", "▁a"]);
  expect(info.languages.size).toBe(0);
  const startedAt = performance.now();
  checkCtcFiles(MODEL, TOKENS);
  expect(performance.now() - startedAt).toBeLessThan(500);
});

test("a model that takes samples is one of Omnilingual", () => {
  const info = checkCtcFiles(join(RAW_CTC, "model.onnx"), join(RAW_CTC, "tokens.txt"));
  expect(info).toMatchObject({ family: "omnilingual_ctc", blank: 0, bins: 1, factor: 320 });
  expect(info.tokens.slice(0, 6)).toEqual(["<blk>", "<pad>", "</s>", "<unk>", "▁", "a"]);
  expect(() => checkCtcFiles(join(RAW_CTC, "model.onnx"), TOKENS)).toThrow(
    "it writes 63 tokens, and the list has 91",
  );
});

test("a model names the token spans of its languages", () => {
  const named = file(ctcModel({ metadata: { ...CTC_METADATA, languages: "hi:0-44, or:45-89" } }));
  expect(Object.fromEntries(checkCtcFiles(named, TOKENS).languages)).toEqual({
    hi: { first: 0, last: 44 },
    or: { first: 45, last: 89 },
  });
});

test("weights may be in plain files beside the model", () => {
  const bytes = { location: "weights.bin", offset: "64", length: "16" };
  writeFileSync(join(folder, "weights.bin"), new Uint8Array(80));
  for (const isNested of [false, true]) {
    expect(checkCtcFiles(file(ctcModel({ external: bytes, isNested })), TOKENS).external).toEqual([
      "weights.bin",
    ]);
  }
});

describe("refused before native code sees it", () => {
  const without = (key: keyof typeof CTC_METADATA) =>
    Object.fromEntries(Object.entries(CTC_METADATA).filter(([name]) => name !== key));
  const whole = readFileSync(MODEL);
  const random = Uint8Array.from({ length: 5_000 }, (_, n) => (n * 7_919 + (n >> 3) * 131) & 0xff);
  const models: [name: string, bytes: Uint8Array | string, reason: string][] = [
    ["an empty file", "", "not an ONNX model"],
    ["a text", "This is not a model at all, it is a text.", "ONNX model"],
    ["random bytes", random, "ONNX model"],
    ["zeros", new Uint8Array(1_000), "not an ONNX model"],
    ["a cut file", whole.subarray(0, 3_000_000), "not a complete ONNX model"],
    ["a file without its last byte", whole.subarray(0, -1), "not a complete ONNX model"],
    ["a file with a byte more", Buffer.concat([whole, new Uint8Array(1)]), "not an ONNX model"],
  ];
  const options: [name: string, options: CtcModelOptions, reason: string][] = [
    ["no vocab_size", { metadata: without("vocab_size") }, "no vocab_size"],
    [
      "another vocab_size",
      { metadata: { ...CTC_METADATA, vocab_size: "91" } },
      "vocab_size is 91, and the list has 90",
    ],
    ["no factor", { metadata: without("subsampling_factor") }, "no subsampling_factor"],
    ["factor 0", { metadata: { ...CTC_METADATA, subsampling_factor: "0" } }, "subsampling_factor is 0"],
    [
      "a negative factor",
      { metadata: { ...CTC_METADATA, subsampling_factor: "-4" } },
      "subsampling_factor is -4",
    ],
    ["no normalization", { metadata: without("normalize_type") }, "normalize_type is missing"],
    [
      "other normalization",
      { metadata: { ...CTC_METADATA, normalize_type: "all_features" } },
      "has to be per_feature",
    ],
    [
      "language beyond the tokens",
      { metadata: { ...CTC_METADATA, languages: "hi:0-90" } },
      "names the language",
    ],
    ["no known number of bins", { bins: "bins" }, "number of mel bins is bins"],
    ["no bins", { bins: 0 }, "number of mel bins is 0"],
    ["too many bins", { bins: 4_096 }, "number of mel bins is 4096"],
    ["other outputs than tokens", { classes: 5_633 }, "it writes 5633 tokens, and the list has 91"],
    ["a length of another type", { lengthType: 6 }, "its inputs are not features"],
    ["weights of another size", { rawBytes: 15 }, "weights w have 15 bytes and not 16"],
    ["missing weights", { external: { location: "none.bin", length: "16" } }, "there is no file"],
    [
      "short weights",
      { external: { location: "short.bin", length: "16" } },
      "has 15 bytes, and the model needs 16",
    ],
    ["weights elsewhere", { external: { location: "../w.bin", length: "16" } }, "not a plain file name"],
    ["weights at a path", { external: { location: "/etc/passwd", length: "16" } }, "not a plain file name"],
    [
      "hidden weights elsewhere",
      { external: { location: "../w.bin" }, isNested: true },
      "not a plain file name",
    ],
    ["weights before the file", { external: { location: "short.bin", offset: "-5" } }, "wrong position"],
    [
      "fewer weights than their shape",
      { external: { location: "short.bin", length: "8" } },
      "wrong position",
    ],
  ];
  writeFileSync(join(folder, "short.bin"), new Uint8Array(15));
  for (const [name, bytes, reason] of [
    ...models,
    ...options.map(([name, more, reason]) => [name, ctcModel(more), reason] as const),
  ]) {
    test(name, () => {
      const path = file(bytes);
      expect(() => checkCtcFiles(path, TOKENS)).toThrow(path);
      expect(() => checkCtcFiles(path, TOKENS)).toThrow(reason);
    });
  }

  test("a model of another family", () => {
    const speech = join(import.meta.dir, "../../../node_modules/@ricky0123/vad-web/dist/silero_vad_v6.onnx");
    expect(() => checkCtcFiles(speech, TOKENS)).toThrow("its inputs are not features");
  });

  test("a path that is not a file", () => {
    expect(() => checkCtcFiles(join(folder, "none"), TOKENS)).toThrow("none");
    expect(() => checkCtcFiles(MODEL, join(folder, "none"))).toThrow("none");
    expect(() => checkCtcFiles(folder, TOKENS)).toThrow("not a regular file");
    symlinkSync("/dev/zero", join(folder, "zero"));
    expect(() => checkCtcFiles(join(folder, "zero"), TOKENS)).toThrow("not a regular file");
  });
});

describe("tokens.txt", () => {
  test("may have any order of lines and any of the blank's names", () => {
    expect(readTokens("<eps> 2\na 0\n▁b 1\n", "nemo_ctc")).toEqual({
      tokens: ["a", "▁b", "<eps>"],
      blank: 2,
    });
    // Only spaces and tabs separate. Other white space may be a token.
    expect(readTokens("\u3000 0\n<blk> 1\n", "nemo_ctc").tokens).toEqual(["\u3000", "<blk>"]);
    expect(readTokens("a 0\r\n<blank> 1\r\n", "nemo_ctc").tokens).toEqual(["a", "<blank>"]);
  });
  test("of an Omnilingual model may have a space, and the blank anywhere", () => {
    expect(readTokens("<s> 0\n  1\na 2\n", "omnilingual_ctc")).toEqual({
      tokens: ["<s>", "▁", "a"],
      blank: 0,
    });
    expect(readTokens("<s> 0\n<blk> 1\na 2\n", "omnilingual_ctc").blank).toBe(1);
    expect(() => readTokens("a 0\n<s> 1\n", "omnilingual_ctc")).toThrow("one token must be the blank");
    expect(() => readTokens("<blk> 0\n   1\n", "omnilingual_ctc")).toThrow("line 2 is not");
  });
  const refused: [text: string, reason: string][] = [
    ["", "line 1 is not"],
    ["a\n<blk> 1", "line 1 is not a token and its number"],
    ["a 0\n\n<blk> 1", "line 2 is not"],
    ["a b 0\n<blk> 1", "line 1 is not"],
    [" 0\n<blk> 1", "line 1 is not"],
    ["a 0\nb 2\n<blk> 3", "line 3 has the number 3 of 3 tokens"],
    ["a 0\nb 0\n<blk> 2", "line 2 has the number 0 again"],
    ["a 0\nb 1", "the last token must be the blank"],
    ["<blk> 0\na 1", "the last token must be the blank"],
    ["<eps> 0\na 1\n<blk> 2", "and no other"],
    ["<blk> 0", "it has no tokens"],
  ];
  for (const [text, reason] of refused) {
    test(`refused: ${reason} (${JSON.stringify(text)})`, () =>
      expect(() => readTokens(text, "nemo_ctc")).toThrow(reason));
  }
});
