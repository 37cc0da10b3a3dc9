import { statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { TokenSpan } from "../../domain/model.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { ONNX_FLOAT, ONNX_INT64, type OnnxFile, type OnnxPort, readOnnxFile } from "../../lib/onnx-file.ts";
import { readRegularFile } from "../../lib/regular-file.ts";
import { asOwnerOf } from "../../lib/rights.ts";

/** What the files of a CTC model say. */
export type CtcModelInfo = {
  family: CtcFamilyName;
  /** Texts of the tokens by their numbers. `▁` begins a word. */
  tokens: string[];
  /** Number of the blank. */
  blank: number;
  /** Mel bins of a frame of features; 1 for a model that takes samples. */
  bins: number;
  /** Frames of features, of 10 ms each, or samples, for one frame of output; left out: the files do not say it. */
  factor?: number;
  /** Names of the files of weights beside the model. */
  external: string[];
  /** Token spans of languages by their codes, as the metadata's `languages` names them: `hi:1536-1791,ta:…`. */
  languages: Map<string, TokenSpan>;
};

/**
 * Families of CTC models. Their files distinguish them: those of NeMo take features, those of Omnilingual samples, and
 * IndicConformer has a net for the encoder and one for the head.
 */
export const CTC_FAMILIES = { nemo: "nemo_ctc", omnilingual: "omnilingual_ctc", indic: "indic_ctc" } as const;
export type CtcFamilyName = (typeof CTC_FAMILIES)[keyof typeof CTC_FAMILIES];

export const MAX_TOKENS_BYTES = 4 * 1024 * 1024;
const BLANKS = new Set(["<blk>", "<blank>", "<eps>"]);
/** In Omnilingual's own list the first token is the blank. */
const OMNILINGUAL_BLANK = "<s>";
/** Samples for one frame of an Omnilingual model: 20 ms. */
const OMNILINGUAL_FACTOR = 320;
const MAX_BINS = 256;
const MAX_FACTOR = 64;

/**
 * Checks the files of a CTC model as far as that is possible without native code, which would end the process for
 * many faults.
 *
 * @param modelPath an ONNX file; files of weights are beside it
 * @param tokensPath `TOKEN ID` on each line
 * @throws Error with the file and the reason why it cannot be used
 */
export function checkCtcFiles(modelPath: string, tokensPath: string): CtcModelInfo {
  const file = about(modelPath, () => readOnnxFile(modelPath));
  const family = takesSamples(file) ? CTC_FAMILIES.omnilingual : CTC_FAMILIES.nemo;
  const { tokens, blank } = about(tokensPath, () =>
    readTokens(readRegularFile(tokensPath, MAX_TOKENS_BYTES), family),
  );
  return about(modelPath, () => {
    const bins = family === CTC_FAMILIES.nemo ? checkFeatures(file) : 1;
    checkScores(file, tokens.length);
    const factor =
      family === CTC_FAMILIES.nemo ? checkMetadata(file.metadata, tokens.length) : OMNILINGUAL_FACTOR;
    for (const [name, bytes] of file.external) checkExternal(join(dirname(modelPath), name), bytes);
    const languages = readLanguages(file.metadata.get("languages") ?? "", tokens.length - 1);
    return { family, tokens, blank, bins, factor, external: [...file.external.keys()], languages };
  });
}

/** Adds the path to the message of an error, unless it names it already. */
export function about<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const message = errorMessage(error);
    throw new Error(message.includes(path) ? message : `${path} cannot be used: ${message}`, {
      cause: error,
    });
  }
}

/**
 * Reads `tokens.txt`. Each number from 0 must occur once. The blank is the last token of a NeMo model; of an Omnilingual
 * model it may be any, and a space may be a token.
 *
 * @throws Error with the line that is wrong
 */
export function readTokens(text: string, family: CtcFamilyName): { tokens: string[]; blank: number } {
  const isOmnilingual = family === CTC_FAMILIES.omnilingual;
  const tokens: string[] = [];
  const lines = text.split(/\r?\n/);
  if (lines.length > 1 && lines.at(-1) === "") lines.pop();
  for (const [index, line] of lines.entries()) {
    const [, token, id] =
      (isOmnilingual ? /^([^ \t]+| )[ \t](\d{1,7})$/ : /^([^ \t]+)[ \t](\d{1,7})$/).exec(line) ?? [];
    if (token === undefined) throw new Error(`line ${index + 1} is not a token and its number`);
    const number = Number(id);
    if (number >= lines.length)
      throw new Error(`line ${index + 1} has the number ${number} of ${lines.length} tokens`);
    if (tokens[number] !== undefined) throw new Error(`line ${index + 1} has the number ${number} again`);
    tokens[number] = token === " " ? "▁" : token;
  }
  if (tokens.length < 2) throw new Error("it has no tokens");
  const blanks = tokens.flatMap((token, number) => (BLANKS.has(token) ? [number] : []));
  if (isOmnilingual && blanks.length === 0 && tokens[0] === OMNILINGUAL_BLANK) blanks.push(0);
  const [blank] = blanks;
  const names = [...BLANKS].join(", ");
  if (blank === undefined || blanks.length > 1 || (!isOmnilingual && blank !== tokens.length - 1)) {
    const place = isOmnilingual ? "one token" : "the last token";
    throw new Error(`${place} must be the blank (${names}), and no other`);
  }
  return { tokens, blank };
}

/** Reports whether the only input of a model is samples: batch × samples, floats. */
function takesSamples({ inputs }: OnnxFile): boolean {
  return inputs.length === 1 && isPort(inputs[0], ONNX_FLOAT, 2);
}

/** Checks inputs: features with their length. @param unnamed the number of mel bins where the file names none */
export function checkFeatures({ inputs }: OnnxFile, unnamed?: number): number {
  const [features, length] = inputs;
  const named = features?.shape[1];
  const bins = typeof named === "number" ? named : (unnamed ?? named);
  if (inputs.length !== 2 || !isPort(features, ONNX_FLOAT, 3) || !isPort(length, ONNX_INT64, 1)) {
    throw new Error(
      "its inputs are not features (batch × bins × frames, floats) and their length (64-bit integers), nor samples alone",
    );
  }
  if (typeof bins !== "number" || bins < 1 || bins > MAX_BINS) {
    throw new Error(`its number of mel bins is ${bins}, not 1 to ${MAX_BINS}`);
  }
  return bins;
}

/** Checks the output: scores of the tokens. */
function checkScores({ outputs: [scores] }: OnnxFile, tokens: number): void {
  if (!isPort(scores, ONNX_FLOAT, 3)) throw new Error("its output is not batch × frames × tokens of floats");
  const classes = scores.shape[2];
  if (typeof classes === "number" && classes !== tokens) {
    throw new Error(`it writes ${classes} tokens, and the list has ${tokens}`);
  }
}

export function isPort(port: OnnxPort | undefined, type: number, dimensions: number): port is OnnxPort {
  return port?.type === type && port.shape.length === dimensions;
}

/** @returns the subsampling factor */
function checkMetadata(metadata: ReadonlyMap<string, string>, tokens: number): number {
  const words = metadata.get("vocab_size");
  if (words === undefined) throw new Error("its metadata has no vocab_size");
  if (Number(words) !== tokens - 1) {
    throw new Error(`its vocab_size is ${words}, and the list has ${tokens - 1} tokens besides the blank`);
  }
  const factor = metadata.get("subsampling_factor");
  if (factor === undefined) throw new Error("its metadata has no subsampling_factor");
  if (!/^\d+$/.test(factor) || Number(factor) < 1 || Number(factor) > MAX_FACTOR) {
    throw new Error(`its subsampling_factor is ${factor}, not 1 to ${MAX_FACTOR}`);
  }
  const normalization = metadata.get("normalize_type");
  if (normalization !== "per_feature") {
    const found = normalization === undefined ? "missing" : JSON.stringify(normalization);
    throw new Error(`its normalize_type is ${found}; it has to be per_feature`);
  }
  return Number(factor);
}

function readLanguages(text: string, words: number): Map<string, TokenSpan> {
  const languages = new Map<string, TokenSpan>();
  for (const entry of text.split(",").filter((part) => part.trim() !== "")) {
    const [, code, first, last] = /^\s*([a-z]{2,3}):(\d{1,7})-(\d{1,7})\s*$/.exec(entry) ?? [];
    const span = { first: Number(first), last: Number(last) };
    if (code === undefined || span.first > span.last || span.last >= words) {
      throw new Error(`its metadata names the language ${JSON.stringify(entry)}, which is not as hi:0-255`);
    }
    languages.set(code, span);
  }
  return languages;
}

export function checkExternal(path: string, bytes: number): void {
  const found = asOwnerOf(path, () => statSync(path, { throwIfNoEntry: false }));
  if (!found?.isFile()) throw new Error(`there is no file ${path} with its weights`);
  if (found.size < bytes) throw new Error(`${path} has ${found.size} bytes, and the model needs ${bytes}`);
}
