import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "protobufjs";
import { type Graph, portOf, tensorOf, writeOnnx } from "./onnx-graph.ts";

/**
 * Makes models of punctuation in the layout of the package `punctuators`: a net, a SentencePiece model and `config.yaml`. The net is
 * small and its answers are known: a word of `marks` has its mark where a word of `starters`, or the end, follows. So it needs the
 * words around, as real ones do.
 */
export type PunctuationWords = {
  /** Words with the labels that may be behind them. */
  marks: Readonly<Record<string, string>>;
  /** Words that begin a sentence. They get a capital, where their script has one. */
  starters: readonly string[];
};

export const POST_LABELS = [
  "<NULL>",
  ".",
  ",",
  "?",
  "？",
  "，",
  "。",
  "、",
  "・",
  "।",
  "؟",
  "،",
  ";",
  "።",
  "፣",
  "፧",
];
export const PUNCTUATION_CONFIG = `languages: [
  "bn", "en", "gu", "hi", "kn", "ml", "mr", "or", "pa", "ta", "te"
]

max_length: 128

pre_labels: [
  "<NULL>",
  "¿",
]

post_labels: [
${POST_LABELS.map((label) => `  "${label}",`).join("\n")}
]
`;

/** Words for tests in English, Hindi and Tamil. */
export const SAMPLE_WORDS: PunctuationWords = {
  marks: { here: ".", है: "।", हैं: ".", now: "?", well: ",", வணக்கம்: "。", seven: ".", five: "," },
  starters: ["what", "he", "यह", "वह", "அவர்", "then", "seven", "three"],
};

const CAPITALS = 16;
const SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"];
const SPECIAL_TYPES = [2, 3, 3, 3];

const SPM = parse(
  `syntax = "proto2";
message Piece { optional string piece = 1; optional float score = 2; optional int32 type = 3; }
message Trainer { optional int32 model_type = 3; optional bool split_by_whitespace = 22; optional bool byte_fallback = 35; }
message Normalizer { optional string name = 1; optional bytes map = 2; optional bool add_dummy_prefix = 3; }
message Model { repeated Piece pieces = 1; optional Trainer trainer = 2; optional Normalizer normalizer = 3; }`,
  { keepCase: true },
).root.lookupType("Model");

/** Fields of a SentencePiece model that tests change. */
export type SpmChanges = { model_type?: number; byte_fallback?: boolean; add_dummy_prefix?: boolean };

/** Makes a SentencePiece model of the type unigram. Words are two pieces where they have more than four characters. */
export function makeSentencePieces(
  words: readonly string[],
  { model_type = 1, byte_fallback = false, add_dummy_prefix = true }: SpmChanges = {},
): { bytes: Uint8Array; pieces: string[] } {
  const halves = words.flatMap((word) => {
    const characters = [...word];
    const middle = characters.length > 4 ? 3 : characters.length;
    return [`▁${characters.slice(0, middle).join("")}`, characters.slice(middle).join("")];
  });
  const letters = [...new Set(words.flatMap((word) => [...word]))];
  const normal = [...new Set([...halves, "▁", ...letters])].filter((piece) => piece !== "");
  const pieces = [...SPECIAL, ...normal];
  const message = {
    pieces: pieces.map((piece, index) => ({
      piece,
      // Long pieces are more probable than their letters.
      score: index < SPECIAL.length ? 0 : [...piece].length === 1 ? -20 : -1 - index / 100,
      type: SPECIAL_TYPES[index] ?? 1,
    })),
    trainer: { model_type, split_by_whitespace: true, byte_fallback },
    normalizer: { name: "identity", add_dummy_prefix },
  };
  return { bytes: SPM.encode(SPM.fromObject(message)).finish(), pieces };
}

const INT64 = 7;
const BOOL = 9;

/** Makes the net for the pieces of a tokenizer. */
export function makePunctuationNet(pieces: readonly string[], { marks, starters }: PunctuationWords): Graph {
  const idOf = new Map(pieces.map((piece, id) => [piece, id]));
  const count = pieces.length;
  const post = new BigInt64Array(count);
  const begins = new BigInt64Array(count);
  const capitals = new BigInt64Array(count * CAPITALS);
  const halves = (word: string) => {
    const characters = [...word];
    const middle = characters.length > 4 ? 3 : characters.length;
    return { first: `▁${characters.slice(0, middle).join("")}`, last: characters.slice(middle).join("") };
  };
  for (const [word, label] of Object.entries(marks)) {
    const { first, last } = halves(word);
    post[idOf.get(last === "" ? first : last) ?? 0] = BigInt(POST_LABELS.indexOf(label));
  }
  for (const word of starters) {
    const id = idOf.get(halves(word).first) ?? 0;
    begins[id] = 1n;
    capitals[id * CAPITALS + 1] = 1n;
  }
  begins[SPECIAL.indexOf("</s>")] = 1n;
  const node = (
    op_type: string,
    input: string[],
    output: string,
    attribute: Graph["node"][number]["attribute"] = [],
  ) => ({
    ...{ op_type, input, output: [output], attribute },
  });
  const axis = (i: number) => [{ name: "axis", type: 2, i }];
  const to = (i: number) => [{ name: "to", type: 2, i }];
  return {
    name: "punctuation",
    input: [portOf("input_ids", INT64, ["B", "T"])],
    output: [
      portOf("pre_preds", INT64, ["B", "T"]),
      portOf("post_preds", INT64, ["B", "T"]),
      portOf("cap_preds", BOOL, ["B", "T", CAPITALS]),
      portOf("seg_preds", BOOL, ["B", "T"]),
    ],
    initializer: [
      tensorOf("post", [count], post),
      tensorOf("begins", [count], begins),
      tensorOf("none", [count], new BigInt64Array(count)),
      tensorOf("capitals", [count, CAPITALS], capitals),
      tensorOf("from", [1], BigInt64Array.of(1n)),
      tensorOf("to", [1], BigInt64Array.of(1_000_000n)),
      tensorOf("along", [1], BigInt64Array.of(1n)),
      tensorOf("pad", [1, 1], BigInt64Array.of(3n)),
    ],
    node: [
      node("Gather", ["none", "input_ids"], "pre_preds"),
      node("Slice", ["input_ids", "from", "to", "along"], "shifted"),
      node("Concat", ["shifted", "pad"], "next", axis(1)),
      node("Gather", ["begins", "next"], "next_begins"),
      node("Gather", ["post", "input_ids"], "may_have"),
      node("Mul", ["may_have", "next_begins"], "post_preds"),
      node("Gather", ["capitals", "input_ids"], "letters"),
      node("Cast", ["letters"], "cap_preds", to(BOOL)),
      node("Cast", ["post_preds"], "seg_preds", to(BOOL)),
    ],
  };
}

export function packNet(graph: Graph): Uint8Array {
  return writeOnnx({ ir_version: 8, graph, opset_import: [{ domain: "", version: 13 }] });
}

/** Writes the files of a model into a folder, which it makes. */
export function writePunctuationModel(folder: string, words: PunctuationWords = SAMPLE_WORDS): void {
  mkdirSync(folder, { recursive: true });
  const { bytes, pieces } = makeSentencePieces([
    ...new Set([...Object.keys(words.marks), ...words.starters]),
  ]);
  writeFileSync(join(folder, "spe_unigram_lowercase.model"), bytes);
  writeFileSync(join(folder, "punct_cap_seg.onnx"), packNet(makePunctuationNet(pieces, words)));
  writeFileSync(join(folder, "config.yaml"), PUNCTUATION_CONFIG);
  writeFileSync(join(folder, "LICENSE"), "A licence for tests.\n");
}
