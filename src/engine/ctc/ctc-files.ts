import { statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { TokenSpan } from "../../domain/ctc-settings.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { ONNX_FLOAT, ONNX_INT64, type OnnxFile, type OnnxPort, readOnnxFile } from "../../lib/onnx-file.ts";
import { readRegularFile } from "../../lib/regular-file.ts";

/** What the files of a CTC model say. */
export type CtcModelInfo = {
  /** Texts of the tokens by their numbers; the last one is the blank. `▁` begins a word. */
  tokens: string[];
  /** Mel bins of a frame of features. */
  bins: number;
  /** Frames of features, of 10 ms each, for one frame of output. */
  factor: number;
  /** Names of the files of weights beside the model. */
  external: string[];
  /** Token spans of languages by their codes, as the metadata's `languages` names them: `hi:1536-1791,ta:…`. */
  languages: Map<string, TokenSpan>;
};

const MAX_TOKENS_BYTES = 4 * 1024 * 1024;
const BLANKS = new Set(["<blk>", "<blank>", "<eps>"]);
const MAX_BINS = 256;
const MAX_FACTOR = 64;

/**
 * Checks the files of a CTC model of NeMo as far as that is possible without native code, which would end the process for
 * many faults.
 *
 * @param modelPath an ONNX file; files of weights are beside it
 * @param tokensPath `TOKEN ID` on each line
 * @throws Error with the file and the reason why it cannot be used
 */
export function checkCtcFiles(modelPath: string, tokensPath: string): CtcModelInfo {
  const tokens = about(tokensPath, () => readTokens(readRegularFile(tokensPath, MAX_TOKENS_BYTES)));
  return about(modelPath, () => {
    const file = readOnnxFile(modelPath);
    const { bins } = checkPorts(file, tokens.length);
    const factor = checkMetadata(file.metadata, tokens.length);
    for (const [name, bytes] of file.external) checkExternal(join(dirname(modelPath), name), bytes);
    const languages = readLanguages(file.metadata.get("languages") ?? "", tokens.length - 1);
    return { tokens, bins, factor, external: [...file.external.keys()], languages };
  });
}

/** Adds the path to the message of an error, unless it names it already. */
function about<T>(path: string, work: () => T): T {
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
 * Reads `tokens.txt`. Each number from 0 must occur once, and the last token must be the blank.
 *
 * @throws Error with the line that is wrong
 */
export function readTokens(text: string): string[] {
  const tokens: string[] = [];
  const lines = text.split(/\r?\n/);
  if (lines.length > 1 && lines.at(-1) === "") lines.pop();
  for (const [index, line] of lines.entries()) {
    const [, token, id] = /^(\S+)[ \t](\d{1,7})$/.exec(line) ?? [];
    if (token === undefined) throw new Error(`line ${index + 1} is not a token and its number`);
    const number = Number(id);
    if (number >= lines.length)
      throw new Error(`line ${index + 1} has the number ${number} of ${lines.length} tokens`);
    if (tokens[number] !== undefined) throw new Error(`line ${index + 1} has the number ${number} again`);
    tokens[number] = token;
  }
  if (tokens.length < 2) throw new Error("it has no tokens");
  const blanks = tokens.flatMap((token, number) => (BLANKS.has(token) ? [number] : []));
  if (blanks.length !== 1 || blanks[0] !== tokens.length - 1) {
    throw new Error(`the last token must be the blank (${[...BLANKS].join(", ")}), and no other`);
  }
  return tokens;
}

/** Checks inputs and outputs: features with their length, and scores of the tokens. */
function checkPorts({ inputs, outputs }: OnnxFile, tokens: number): { bins: number } {
  const [features, length] = inputs;
  const [scores] = outputs;
  const bins = features?.shape[1];
  if (inputs.length !== 2 || !isPort(features, ONNX_FLOAT, 3) || !isPort(length, ONNX_INT64, 1)) {
    throw new Error(
      "its inputs are not features (batch × bins × frames, floats) and their length (64-bit integers)",
    );
  }
  if (typeof bins !== "number" || bins < 1 || bins > MAX_BINS) {
    throw new Error(`its number of mel bins is ${bins}, not 1 to ${MAX_BINS}`);
  }
  if (!isPort(scores, ONNX_FLOAT, 3)) throw new Error("its output is not batch × frames × tokens of floats");
  const classes = scores.shape[2];
  if (typeof classes === "number" && classes !== tokens) {
    throw new Error(`it writes ${classes} tokens, and the list has ${tokens}`);
  }
  return { bins };
}

function isPort(port: OnnxPort | undefined, type: number, dimensions: number): port is OnnxPort {
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

function checkExternal(path: string, bytes: number): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found?.isFile()) throw new Error(`there is no file ${path} with its weights`);
  if (found.size < bytes) throw new Error(`${path} has ${found.size} bytes, and the model needs ${bytes}`);
}
