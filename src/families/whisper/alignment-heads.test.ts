import { expect, test } from "bun:test";
import {
  alignmentOf,
  chooseHeads,
  movedDelayMs,
  needsMeasuring,
  type OwnAlignment,
  publishedHeads,
} from "./alignment-heads.ts";

const shape = (textLayers: number, width: number, vocab: number) => ({
  ...{ textLayers, width, vocab, audioLayers: textLayers, textHeads: width / 64 },
});

test.each([
  [shape(4, 384, 51864), 8],
  [shape(4, 384, 51865), 6],
  [shape(6, 512, 51864), 5],
  [shape(6, 512, 51865), 8],
  [shape(12, 768, 51864), 19],
  [shape(12, 768, 51865), 10],
  [shape(24, 1024, 51864), 18],
  [shape(24, 1024, 51865), 6],
  [shape(32, 1280, 51865), 23],
  [shape(32, 1280, 51866), 10],
  [shape(4, 1280, 51866), 6],
])("%o has %d published heads, which it has", (of, count) => {
  const heads = publishedHeads(of) ?? [];
  expect(new Set(heads.map(String)).size).toBe(count);
  expect(alignmentOf(of).alignmentHeads).toEqual(heads);
  for (const [layer, head] of heads) {
    expect(layer).toBeLessThan(of.textLayers);
    expect(head).toBeLessThan(of.textHeads);
  }
});

test("another shape has the heads of its upper layers", () => {
  expect(publishedHeads(shape(2, 128, 51865))).toBeUndefined();
  expect(alignmentOf(shape(2, 128, 51865)).alignmentHeads).toEqual([
    [1, 0],
    [1, 1],
  ]);
  expect(alignmentOf(shape(3, 64, 51865)).alignmentHeads).toEqual([
    [1, 0],
    [2, 0],
  ]);
});

test("heads are measured where it is not known when they look at a token", () => {
  expect(needsMeasuring(shape(6, 512, 51865))).toBe(false);
  expect(needsMeasuring(shape(12, 768, 51865))).toBe(true);
  expect(needsMeasuring(shape(3, 128, 51865))).toBe(true);
});

test("the heads of a manifest take the place of those of the shape, and so does their delay", () => {
  const base = shape(6, 512, 51865);
  const own = [[1, 2] as const];
  expect(alignmentOf(base, { alignmentHeads: own })).toEqual({ alignmentHeads: own, alignmentDelay: 0 });
  expect(alignmentOf(base, { alignmentHeads: own, alignmentDelayMs: 65 }).alignmentDelay).toBe(3);
  expect(alignmentOf(base).alignmentDelay).toBe(-2);
  expect(alignmentOf(base, { alignmentDelayMs: 0 })).toEqual({
    ...{ alignmentHeads: publishedHeads(base) ?? [], alignmentDelay: 0 },
  });
  expect(alignmentOf(shape(4, 384, 51864)).alignmentDelay).toBe(6);
});

test.each<[string, OwnAlignment, number, number | undefined]>([
  ["a delay of the shape and what words are late", {}, 42, 0],
  ["and what they are early", {}, -95, -140],
  ["a delay of the manifest", { alignmentDelayMs: 100 }, 20, 120],
  ["heads of the manifest, which have none", { alignmentHeads: [[1, 2]] }, 130, 140],
  ["less than a frame", {}, 19, undefined],
  ["as much as there may be", { alignmentDelayMs: 900 }, 5_000, 1_000],
  ["as little as there may be", {}, -5_000, -1_000],
])("a corrected delay is made of %s", (_, own, lateMs, expected) => {
  expect(movedDelayMs(shape(6, 512, 51865), own, lateMs)).toBe(expected as number);
});

test.each<[string, number[], number[]]>([
  ["the best ones", [0.02, 0.9, 0.2, 0.8], [1, 3]],
  ["none where none follows the text", [0.1, 0.02, 0.44], []],
  ["one, where it alone does", [0.1, 0.56, 0.44], [1]],
  [
    "at most twenty",
    Array.from({ length: 24 }, (_, i) => 0.9 - i / 100),
    Array.from({ length: 20 }, (_, i) => i),
  ],
  ["none of none", [], []],
])("of the measured heads are chosen: %s", (_, shares, chosen) => {
  const measured = shares.map((share, head) => ({ layer: 1, head, share }));
  expect(chooseHeads(measured)).toEqual(chosen.map((head) => [1, head]));
});
