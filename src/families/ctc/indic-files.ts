import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type { ModelFiles, TokenSpan } from "../../domain/model.ts";
import { fileOf } from "../../domain/model.ts";
import { ONNX_FLOAT, type OnnxFile, readOnnxFile } from "../../lib/onnx-file.ts";
import { readRegularFile } from "../../lib/regular-file.ts";
import {
  about,
  CTC_FAMILIES,
  type CtcModelInfo,
  checkExternal,
  checkFeatures,
  isPort,
  MAX_TOKENS_BYTES,
} from "./model-files.ts";

/** The files of an IndicConformer by their roles, besides its weights. */
export type IndicRole = "model" | "head" | "tokens" | "spans";

/**
 * The names under which the files are published. First those of AI4Bharat's repository
 * (`ai4bharat/indic-conformer-600m-multilingual`, folder `assets`), then those of its repackaging for Vernacula
 * (`christopherthompson81/indicconformer-600m-onnx`).
 */
export const INDIC_LAYOUTS: readonly Readonly<Record<IndicRole, string>>[] = [
  {
    model: "encoder.onnx",
    head: "ctc_decoder.onnx",
    tokens: "vocab.json",
    spans: "language_masks.json",
  },
  {
    model: "encoder-model.onnx",
    head: "ctc_decoder-model.onnx",
    tokens: "vocab.txt",
    spans: "language_spans.json",
  },
];
/** The folder of AI4Bharat's repository that has the files. */
export const INDIC_FOLDER = "assets";

/** Masks are a list of 5,633 truth values for each of 22 languages. */
const MAX_SPANS_BYTES = 16 * 1024 * 1024;
/** What NeMo's preprocessor of these models makes. */
const BINS = 80;
const BLANK_TEXT = "<blk>";
const LANGUAGE = /^[a-z]{2,3}$/;

/**
 * Checks the files of an IndicConformer as its maker publishes them, without native code: the encoder and the CTC head as
 * two ONNX files, the tokens of each language, and which outputs of the head are those of a language. The last output is
 * the blank, which all languages share.
 *
 * @throws Error with the file and the reason why it cannot be used
 */
export function checkIndicFiles(files: ModelFiles): CtcModelInfo {
  const [modelPath, headPath] = [fileOf(files, "model"), fileOf(files, "head")];
  const [tokensPath, spansPath] = [fileOf(files, "tokens"), fileOf(files, "spans")];
  const encoder = about(modelPath, () => readOnnxFile(modelPath));
  const bins = about(modelPath, () => checkEncoder(encoder));
  const head = about(headPath, () => readOnnxFile(headPath));
  const scores = about(headPath, () => checkHead(head, encoder));
  const { languages, outputs } = about(spansPath, () =>
    readSpans(readJson(spansPath, MAX_SPANS_BYTES), scores),
  );
  const tokens = about(tokensPath, () => readVocabulary(tokensPath, languages, outputs));
  const external = new Map<string, number>();
  for (const [path, file] of [
    [modelPath, encoder],
    [headPath, head],
  ] as const) {
    for (const [name, bytes] of file.external) {
      about(path, () => checkExternal(join(dirname(path), name), bytes));
      external.set(name, bytes);
    }
  }
  return {
    family: CTC_FAMILIES.indic,
    ...{ tokens, blank: outputs - 1, bins, languages, external: [...external.keys()] },
  };
}

/** @returns the number of mel bins */
function checkEncoder(file: OnnxFile): number {
  const bins = checkFeatures(file, BINS);
  if (bins !== BINS) throw new Error(`it reads ${bins} mel bins; IndicConformer reads ${BINS}`);
  const [encoded] = file.outputs;
  if (!isPort(encoded, ONNX_FLOAT, 3)) {
    throw new Error("its first output is not batch × numbers × frames of floats");
  }
  return bins;
}

/** @returns the number of outputs where the file says it */
function checkHead({ inputs, outputs }: OnnxFile, encoder: OnnxFile): number | undefined {
  const [encoded] = inputs;
  const [scores] = outputs;
  if (inputs.length !== 1 || !isPort(encoded, ONNX_FLOAT, 3)) {
    throw new Error("its only input is not batch × numbers × frames of floats, which the encoder makes");
  }
  const [made, read] = [encoder.outputs[0]?.shape[1], encoded.shape[1]];
  if (typeof made === "number" && typeof read === "number" && made !== read) {
    throw new Error(`it reads ${read} numbers for a frame, and the encoder makes ${made}`);
  }
  if (!isPort(scores, ONNX_FLOAT, 3)) throw new Error("its output is not batch × frames × tokens of floats");
  const count = scores.shape[2];
  return typeof count === "number" ? count : undefined;
}

function readJson(path: string, maxBytes: number): Record<string, unknown> {
  const text = readRegularFile(path, maxBytes);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("it is not JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Error("it is not an object with an entry for each language");
  }
  return value as Record<string, unknown>;
}

/**
 * Reads which outputs belong to which language: masks, or first output and number. Each output but the last one, the
 * blank, belongs to one language.
 *
 * @param scores the number of outputs, where the head says it
 */
function readSpans(
  entries: Record<string, unknown>,
  scores: number | undefined,
): { languages: Map<string, TokenSpan>; outputs: number } {
  const languages = new Map<string, TokenSpan>();
  let outputs = scores;
  for (const [code, entry] of Object.entries(entries)) {
    if (!LANGUAGE.test(code)) throw new Error(`${JSON.stringify(code)} is not the code of a language`);
    if (Array.isArray(entry)) {
      outputs ??= entry.length;
      if (entry.length !== outputs) {
        throw new Error(`the mask of ${code} has ${entry.length} values, and there are ${outputs} outputs`);
      }
      languages.set(code, spanOfMask(code, entry));
    } else languages.set(code, spanOfRange(code, entry));
  }
  if (languages.size === 0) throw new Error("it names no language");
  const spans = [...languages].sort(([, a], [, b]) => a.first - b.first);
  let next = 0;
  for (const [code, { first, last }] of spans) {
    if (first < next) throw new Error(`the outputs of ${code} belong to another language, too`);
    if (first > next) throw new Error(`the output ${next} belongs to no language`);
    next = last + 1;
  }
  if (outputs !== undefined && next !== outputs - 1) {
    throw new Error(`its languages have ${next} outputs, and the head has ${outputs - 1} besides the blank`);
  }
  return { languages, outputs: next + 1 };
}

/** A mask is true for the outputs of a language, which follow each other, and for the last one, the blank. */
function spanOfMask(code: string, mask: readonly unknown[]): TokenSpan {
  if (mask.some((value) => typeof value !== "boolean")) {
    throw new Error(`the mask of ${code} has other values than true and false`);
  }
  if (mask.at(-1) !== true)
    throw new Error(`the mask of ${code} leaves the last output out, which is the blank`);
  const first = mask.indexOf(true);
  const last = mask.lastIndexOf(true, mask.length - 2);
  if (last < 0 || mask.slice(first, last + 1).includes(false)) {
    throw new Error(`the mask of ${code} is not one row of outputs and the blank`);
  }
  return { first, last };
}

function spanOfRange(code: string, entry: unknown): TokenSpan {
  const { start, length } = (entry ?? {}) as { start?: unknown; length?: unknown };
  const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;
  if (!isCount(start) || !isCount(length) || length === 0) {
    throw new Error(`the entry of ${code} is neither a mask nor a start and a length`);
  }
  return { first: start, last: start + length - 1 };
}

/** @returns the texts of all outputs */
function readVocabulary(path: string, languages: ReadonlyMap<string, TokenSpan>, outputs: number): string[] {
  const isList = path.endsWith(".txt");
  const tokens = isList ? listedTokens(path, outputs) : tokensByLanguage(path, languages, outputs);
  for (const [output, token] of tokens.entries()) {
    if (typeof token !== "string" || token === "" || /\s/u.test(token)) {
      throw new Error(`the token ${output} is ${JSON.stringify(token)}`);
    }
  }
  return [...tokens, BLANK_TEXT];
}

function listedTokens(path: string, outputs: number): string[] {
  const lines = readRegularFile(path, MAX_TOKENS_BYTES).split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  if (lines.length !== outputs - 1) {
    throw new Error(`it has ${lines.length} tokens, and the head has ${outputs - 1} besides the blank`);
  }
  return lines;
}

/** The published lists have one token more than a language has outputs, at the place of the blank. It is not used. */
function tokensByLanguage(
  path: string,
  languages: ReadonlyMap<string, TokenSpan>,
  outputs: number,
): string[] {
  const entries = readJson(path, MAX_TOKENS_BYTES);
  const stray = Object.keys(entries).find((code) => !languages.has(code));
  if (stray !== undefined) throw new Error(`it has tokens of ${stray}, which has no outputs`);
  const tokens = new Array<string>(outputs - 1);
  for (const [code, { first, last }] of languages) {
    const own = entries[code];
    if (!Array.isArray(own)) throw new Error(`it has no list of tokens of ${code}`);
    const count = last - first + 1;
    if (own.length !== count && own.length !== count + 1) {
      throw new Error(`it has ${own.length} tokens of ${code}, and the head has ${count} outputs for it`);
    }
    for (let n = 0; n < count; n++) tokens[first + n] = own[n];
  }
  return tokens;
}

/** Finds the folder with the files, and the names that they have; undefined: there is none, not even a part of it. */
export function findIndicFolder(
  path: string,
): { folder: string; names: Readonly<Record<IndicRole, string>>; missing: string[] } | undefined {
  for (const folder of [path, join(path, INDIC_FOLDER)]) {
    for (const names of INDIC_LAYOUTS) {
      if (!existsSync(join(folder, names.model))) continue;
      const missing = Object.values(names).filter((name) => !existsSync(join(folder, name)));
      return { folder, names, missing };
    }
  }
  return undefined;
}
