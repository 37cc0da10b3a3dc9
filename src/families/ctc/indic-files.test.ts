import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { filesOf } from "../../services/models/model-files.ts";
import { writeIndic } from "../../testing/makers/indic-maker.ts";
import { ctcModel } from "../../testing/makers/onnx-makers.ts";
import { FAMILIES } from "../families.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-indic-"));
const published = join(folder, "Published");
const family = FAMILIES.of("indic_ctc");
let copies = 0;

beforeAll(() => writeIndic(join(published, "assets")));
afterAll(() => rmSync(folder, { recursive: true }));

type Lists = { vocab: Record<string, unknown[]>; masks: Record<string, unknown[]> };

/** Makes a copy of the published folder, with something changed. */
function changed(change: (assets: string) => void): string {
  const copy = join(folder, `copy-${copies++}`);
  cpSync(published, copy, { recursive: true });
  change(join(copy, "assets"));
  return copy;
}

/** Makes a copy whose tokens or masks are different. */
const withLists = (change: (lists: Lists) => void) => () =>
  changed((assets) => {
    const [vocab, masks] = [join(assets, "vocab.json"), join(assets, "language_masks.json")];
    const lists: Lists = {
      vocab: JSON.parse(readFileSync(vocab, "utf8")),
      masks: JSON.parse(readFileSync(masks, "utf8")),
    };
    change(lists);
    writeFileSync(vocab, JSON.stringify(lists.vocab));
    writeFileSync(masks, JSON.stringify(lists.masks));
  });

const withFile = (name: string, content: string | Uint8Array) => () =>
  changed((assets) => writeFileSync(join(assets, name), content));
const without = (name: string) => () => changed((assets) => rmSync(join(assets, name)));

test("the repository's folder is found, with its files, languages and token spans", () => {
  const found = FAMILIES.given(published);
  expect(found?.family.name).toBe("indic_ctc");
  expect(found?.model).toMatchObject({ id: "published", isPart: false });
  const files = filesOf(family, found?.model.files() ?? []);
  expect(Object.keys(files).filter((key) => !key.startsWith("weights:"))).toEqual([
    ...["model", "head", "tokens", "spans"],
  ]);
  expect(Object.keys(files).filter((key) => key.startsWith("weights:")).length).toBeGreaterThan(70);
  const { languages, decoding } = family.describe(files, {});
  expect(languages.map(({ code, modes }) => [code, modes])).toEqual([
    ["hi", ["native"]],
    ["en", ["native"]],
  ]);
  expect(languages[1]?.tokenSpan?.first).toBe((languages[0]?.tokenSpan?.last ?? 0) + 1);
  expect(decoding).toEqual({ unknownToken: "<unk>" });
  expect(() => family.describe(files, { languages: [{ code: "ta" }] })).toThrow(
    "The model has no tokens of ta. It has those of hi, en.",
  );
});

describe("refused by name, before native code sees it", () => {
  const cases: [name: string, make: () => string, reason: string][] = [
    ["no head", without("ctc_decoder.onnx"), "has encoder.onnx, but no ctc_decoder.onnx"],
    ["no tokens", without("vocab.json"), "but no vocab.json"],
    ["no masks", without("language_masks.json"), "but no language_masks.json"],
    ["a missing file of weights", without("inner.first.weight"), "there is no file"],
    ["a short file of weights", withFile("inner.first.weight", "short"), "has 5 bytes, and the model needs"],
    ["another encoder", withFile("encoder.onnx", ctcModel({ bins: 128 })), "it reads 128 mel bins"],
    ["an encoder that is a text", withFile("encoder.onnx", "no model"), "ONNX model"],
    ["a head that is a whole model", withFile("ctc_decoder.onnx", ctcModel()), "its only input is not batch"],
    ["tokens that are no JSON", withFile("vocab.json", "hi"), "vocab.json cannot be used: it is not JSON"],
    ["tokens as a list", withFile("vocab.json", "[]"), "not an object with an entry for each language"],
    ["masks that are no JSON", withFile("language_masks.json", "{"), "it is not JSON"],
    ["no language", withFile("language_masks.json", "{}"), "it names no language"],
    [
      "a code that is none",
      withLists(({ masks }) => {
        masks.Hindi = masks.hi ?? [];
      }),
      '"Hindi" is not the code of a language',
    ],
    ["a short mask", withLists(({ masks }) => masks.en?.pop()), "the mask of en has"],
    ["a mask of numbers", withLists(({ masks }) => masks.hi?.fill(1)), "other values than true and false"],
    [
      "a mask without the blank",
      withLists(({ masks }) => masks.hi?.splice(-1, 1, false)),
      "which is the blank",
    ],
    [
      "a mask with a hole",
      withLists(({ masks }) => masks.hi?.splice(3, 1, false)),
      "is not one row of outputs",
    ],
    ["a mask of the blank alone", withLists(({ masks }) => masks.hi?.fill(false, 0, -1)), "is not one row"],
    ["masks that overlap", withLists(({ masks }) => masks.en?.fill(true)), "belong to another language, too"],
    [
      "outputs of no language",
      withLists(({ masks, vocab }) => {
        masks.hi?.splice(0, 1, false);
        vocab.hi?.shift();
      }),
      "the output 0 belongs to no language",
    ],
    [
      "a language without tokens",
      withLists(({ vocab }) => delete vocab.en),
      "it has no list of tokens of en",
    ],
    [
      "tokens without outputs",
      withLists(({ vocab }) => (vocab.ta = ["a"])),
      "tokens of ta, which has no outputs",
    ],
    ["too few tokens", withLists(({ vocab }) => vocab.hi?.splice(0, 2)), "tokens of hi, and the head has"],
    ["too many tokens", withLists(({ vocab }) => vocab.hi?.push("x")), "tokens of hi, and the head has"],
    ["an empty token", withLists(({ vocab }) => vocab.hi?.splice(1, 1, "")), 'the token 1 is ""'],
    ["a token with a space", withLists(({ vocab }) => vocab.hi?.splice(1, 1, "a b")), 'the token 1 is "a b"'],
    ["a token that is a number", withLists(({ vocab }) => vocab.hi?.splice(1, 1, 7)), "the token 1 is 7"],
  ];
  test.each(cases)("%s", (_name, make, reason) => {
    const found = family.given(make());
    expect(found).toBeDefined();
    expect(() => found?.files()).toThrow(reason);
  });

  test("spans that are none, and a flat list of another length", () => {
    const repackaged = join(folder, "repackaged");
    writeIndic(repackaged, { layout: "vernacula" });
    expect(family.given(repackaged)?.files()).toHaveLength(5);
    const spans = readFileSync(join(repackaged, "language_spans.json"), "utf8");
    for (const [from, to, reason] of [
      ['"start":0', '"start":-1', "the entry of hi is neither a mask nor a start and a length"],
      ['"start":0', '"start":1', "the output 0 belongs to no language"],
      ['"length":', '"size":', "neither a mask nor"],
    ] as const) {
      writeFileSync(join(repackaged, "language_spans.json"), spans.replace(from, to));
      expect(() => family.given(repackaged)?.files()).toThrow(reason);
    }
    writeFileSync(join(repackaged, "language_spans.json"), spans);
    writeFileSync(join(repackaged, "vocab.txt"), "a\nb\n");
    expect(() => family.given(repackaged)?.files()).toThrow("it has 2 tokens, and the head has");
  });

  test("no folder, and a folder of another model", () => {
    expect(family.given(join(published, "assets/vocab.json"))).toBeUndefined();
    const empty = join(folder, "empty");
    mkdirSync(empty);
    expect(family.given(empty)).toBeUndefined();
  });
});
