import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Graph, portOf } from "../testing/makers/onnx-graph.ts";
import {
  makePunctuationNet,
  makeSentencePieces,
  PUNCTUATION_CONFIG,
  packNet,
  SAMPLE_WORDS,
  writePunctuationModel,
} from "../testing/makers/punctuation-maker.ts";
import { findPcsFiles, readPcsFiles } from "./pcs-files.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-punctuation-"));
  writePunctuationModel(folder);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const at = (name: string) => join(folder, name);
const read = () => readPcsFiles(findPcsFiles(folder));

test("a folder of the published layout is read", () => {
  expect(findPcsFiles(folder).licences).toEqual(["LICENSE"]);
  const { config } = read();
  expect(config.maxLength).toBe(128);
  expect(config.languages).toContain("hi");
  expect(config.preLabels).toEqual([undefined, "¿"]);
  expect(config.postLabels[9]).toBe("।");
});

describe("another layout is refused by name", () => {
  const configs: [string, (config: string) => string, RegExp][] = [
    ["no max_length", (text) => text.replace("max_length: 128", ""), /config.yaml: max_length is not/],
    ["a large max_length", (text) => text.replace("128", "1000000"), /max_length is not a whole number/],
    [
      "no post_labels",
      (text) => text.replace("post_labels", "labels"),
      /config.yaml: post_labels is not a list/,
    ],
    ["labels that are no texts", (text) => text.replace('"¿"', "1"), /pre_labels is not a list/],
    ["no languages", (text) => text.replace("languages", "codes"), /languages is not a list/],
    [
      "a language that no terminal should show",
      (text) => text.replace('"bn"', '"\\e[31mbn"'),
      /languages has something that is no code/,
    ],
    ["no YAML", () => "a: [1\nb: }", /config.yaml: it is not valid YAML/],
    ["no settings", () => "12", /config.yaml: it has no settings/],
    ["a large file", () => `# ${"x".repeat(70_000)}`, /config.yaml: /],
  ];
  test.each(configs)("a configuration with %s", (_, change, reason) => {
    writeFileSync(at("config.yaml"), change(PUNCTUATION_CONFIG));
    expect(read).toThrow(reason);
  });

  const nets: [string, (graph: Graph) => void, RegExp][] = [
    [
      "another input",
      (graph) => Object.assign(graph, { input: [portOf("ids", 7, ["B", "T"])] }),
      /only input is not input_ids/,
    ],
    [
      "two inputs",
      (graph) => void graph.input.push(portOf("mask", 7, ["B", "T"])),
      /only input is not input_ids/,
    ],
    [
      "an input of floats",
      (graph) => Object.assign(graph, { input: [portOf("input_ids", 1, ["B", "T"])] }),
      /input_ids has the wrong/,
    ],
    [
      "three outputs",
      (graph) => void graph.output.pop(),
      /outputs are pre_preds, post_preds, cap_preds, and not/,
    ],
    [
      "scores",
      (graph) => void graph.output.splice(1, 1, portOf("post_preds", 1, ["B", "T"])),
      /post_preds has the wrong type/,
    ],
    [
      "flat capitals",
      (graph) => void graph.output.splice(2, 1, portOf("cap_preds", 9, ["B", "T"])),
      /cap_preds has 2 dimensions/,
    ],
  ];
  test.each(nets)("a net with %s", (_, change, reason) => {
    const graph = makePunctuationNet(makeSentencePieces(["here"]).pieces, SAMPLE_WORDS);
    change(graph);
    writeFileSync(at("punct_cap_seg.onnx"), packNet(graph));
    expect(read).toThrow(reason);
  });

  const folders: [string, () => void, RegExp][] = [
    ["no net", () => rmSync(at("punct_cap_seg.onnx")), /has no net \(\*\.onnx\)/],
    ["two nets", () => copyFileSync(at("punct_cap_seg.onnx"), at("b.onnx")), /has several net/],
    ["no tokenizer", () => rmSync(at("spe_unigram_lowercase.model")), /has no SentencePiece model/],
    ["no configuration", () => rmSync(at("config.yaml")), /has no config.yaml/],
    [
      "half a net",
      () => truncateSync(at("punct_cap_seg.onnx"), 200),
      /the net: The file is not a complete ONNX model/,
    ],
    [
      "a text as a tokenizer",
      () => writeFileSync(at("spe_unigram_lowercase.model"), "ten"),
      /SentencePiece model: it is not/,
    ],
  ];
  test.each(folders)("a folder with %s", (_, change, reason) => {
    change();
    expect(read).toThrow(reason);
  });
});

test("an empty file of a licence is kept, and nothing else is taken for one", () => {
  writeFileSync(at("README.md"), readFileSync(at("LICENSE")));
  expect(findPcsFiles(folder).licences).toEqual(["LICENSE"]);
});
