import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { extractNativeFiles, type NativeFiles } from "../native/native-files.ts";
import {
  makePunctuationNet,
  makeSentencePieces,
  POST_LABELS,
  PUNCTUATION_CONFIG,
  packNet,
  writePunctuationModel,
} from "../testing/makers/punctuation-maker.ts";
import { applyMarks } from "./apply-marks.ts";
import { findPcsFiles } from "./pcs-files.ts";
import { openPunctuator, type Punctuator } from "./pcs-model.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-punctuation-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const { signal } = new AbortController();
let files: NativeFiles;
let punctuator: Punctuator;
beforeAll(async () => {
  files = await extractNativeFiles("");
  writePunctuationModel(join(folder, "good"));
  punctuator = await openPunctuator(files, findPcsFiles(join(folder, "good")));
}, 60_000);

async function marked(text: string, language: string): Promise<string> {
  const words = text.split(" ");
  const marks = await punctuator.punctuate(words, signal);
  return words.map((word, index) => applyMarks(word, marks[index] ?? {}, language)).join(" ");
}

/** The net was made so; onnxruntime 1.32 and SentencePiece 0.2.3 give the same labels for the first text. */
test.each([
  ["well what is here he is now", "en", "well, What is here. He is now?"],
  ["यह घर है वह हैं यह", "hi", "यह घर है। वह हैं। यह"],
  ["அவர் வணக்கம் அவர் வணக்கம்", "ta", "அவர் வணக்கம். அவர் வணக்கம்."],
  ["X 12 😀 here zz NOW", "en", "X 12 😀 here zz NOW?"],
  ["here", "en", "here."],
])("%s in %s", async (text, language, expected) => {
  expect(await marked(text, language)).toBe(expected);
});

test("a long text has the marks that each of its parts has, at the borders of runs too", async () => {
  const words = Array.from({ length: 1_000 }, (_, index) => ["then", "here", "what"][index % 3] ?? "");
  const marks = await punctuator.punctuate(words, signal);
  expect(marks.map(({ after }) => after === ".")).toEqual(words.map((word) => word === "here"));
  expect(await punctuator.punctuate([], signal)).toEqual([]);
});

test("a run ends when it is aborted", async () => {
  const words = Array.from({ length: 200_000 }, () => "here");
  const stop = new AbortController();
  const running = punctuator.punctuate(words, stop.signal);
  stop.abort(new Error("enough"));
  await expect(running).rejects.toThrow("enough");
}, 60_000);

describe("a net that does not keep its word is refused when it is loaded", () => {
  const words = { marks: { here: "." }, starters: ["a"] };
  test.each<[string, (graph: ReturnType<typeof makePunctuationNet>) => void, string, RegExp]>([
    [
      "labels that config.yaml has not",
      () => {},
      PUNCTUATION_CONFIG.replace(/post_labels: \[[^\]]*/, 'post_labels: ["<NULL>"'),
      /label \d+, and config.yaml has 1/,
    ],
    [
      "operators that there are not",
      (graph) => void Object.assign(graph.node[0] ?? {}, { op_type: "Punctuate" }),
      PUNCTUATION_CONFIG,
      /Punctuate/,
    ],
  ])("%s", async (name, change, config, reason) => {
    const bad = join(folder, name);
    writePunctuationModel(bad);
    const { bytes, pieces } = makeSentencePieces(["here", "a"]);
    const graph = makePunctuationNet(pieces, words);
    // Every token has the last label.
    const post = graph.initializer?.find((tensor) => tensor.name === "post");
    if (post)
      post.raw_data = new Uint8Array(BigInt64Array.from(pieces, () => BigInt(POST_LABELS.length - 1)).buffer);
    change(graph);
    writeFileSync(join(bad, "spe_unigram_lowercase.model"), bytes);
    writeFileSync(join(bad, "punct_cap_seg.onnx"), packNet(graph));
    writeFileSync(join(bad, "config.yaml"), config);
    await expect(openPunctuator(files, findPcsFiles(bad))).rejects.toThrow(reason);
  });
});
