import { ImportError } from "../import-error.ts";
import { isJsonObject, type SourceFile } from "../source-file.ts";
import { type NemoConfig, shown } from "./config.ts";

const CONFIG = "model_config.yaml";
/** The most that all vocabularies of a model have together. A file counts as often as it is named. */
const MAX_VOCABULARY_BYTES = 32 * 1024 * 1024;
const MAX_TOKENIZERS = 256;
const MAX_TOKEN_BYTES = 1024;
/** SentencePiece's mark of a new word. */
const WORD_START = "▁";
/** Special tokens of BERT's tokenizers, and what the engine's tokens are named instead. */
const SPECIAL = new Map([
  ["[UNK]", "<unk>"],
  ["[PAD]", "<pad>"],
  ["[CLS]", "<s>"],
  ["[SEP]", "</s>"],
  ["[MASK]", "<|mask|>"],
]);

export type NemoTokens = {
  /** Texts by their numbers, in SentencePiece's form: `▁` begins a word. */
  tokens: string[];
  /** Codes of the languages whose tokenizers were joined; empty for a model with one tokenizer. */
  languages: string[];
};

/**
 * Reads the tokens of a model: SentencePiece's (`bpe`), BERT's word pieces (`wpe`), several tokenizers joined (`agg`), or
 * single characters where the configuration names no tokenizer. The configuration lists them; else a file of the archive.
 *
 * @throws ImportError with the setting or file at fault
 */
export function readNemoTokens(
  { at }: NemoConfig,
  files: ReadonlyMap<string, SourceFile>,
  count: number,
): NemoTokens {
  const type = at("tokenizer.type");
  const langs = at("tokenizer.langs");
  const kinds = type === "agg" && isJsonObject(langs) ? Object.values(langs).map(typeOf) : [type];
  if (type === "agg" && kinds.length === 0)
    throw new ImportError(CONFIG, "tokenizer.langs names no tokenizer");
  for (const kind of kinds)
    if (kind !== undefined && kind !== "bpe" && kind !== "wpe")
      throw new ImportError(CONFIG, `tokenizer.type is ${shown(kind)}, not bpe, wpe or agg`);
  const [kind] = new Set(kinds);
  if (kinds.length > MAX_TOKENIZERS)
    throw new ImportError(CONFIG, `tokenizer.langs names more than ${MAX_TOKENIZERS} tokenizers`);
  const tokenizers = type === "agg" && isJsonObject(langs) ? Object.values(langs) : [at("tokenizer")];
  const named = [at("joint.vocabulary"), at("labels")].find((list) => Array.isArray(list) && list.length > 0);
  const list = asTexts(named) ?? fromFiles(tokenizers, files, count) ?? refuseTexts(named);
  if (list.length !== count)
    throw new ImportError(
      CONFIG,
      `joint.vocabulary has ${list.length} tokens, and joint.joint_net has ${count}`,
    );
  const tokens = list.map(kind === "wpe" ? fromWordPiece : kind === "bpe" ? asItIs : fromCharacter);
  const long = tokens.findIndex((token) => Buffer.byteLength(token) > MAX_TOKEN_BYTES);
  if (long !== -1) throw new ImportError(CONFIG, `token ${long} is longer than ${MAX_TOKEN_BYTES} bytes`);
  const languages = type === "agg" && isJsonObject(langs) ? Object.keys(langs) : [];
  return { tokens, languages: languages.filter((code) => /^[a-z]{2,3}$/.test(code)) };
}

const typeOf = (tokenizer: unknown): unknown => (isJsonObject(tokenizer) ? tokenizer.type : undefined);

const asItIs = (token: string): string => token;

function fromWordPiece(token: string): string {
  const special = SPECIAL.get(token);
  if (special !== undefined) return special;
  return token.startsWith("##") ? token.slice(2) : WORD_START + token;
}

function fromCharacter(token: string): string {
  return token === " " ? WORD_START : token;
}

/**
 * Returns the tokens of a list, where all are texts. NeMo writes YAML 1.1, which knows fewer forms of numbers than version 1.2: it
 * leaves tokens such as `08` and `1e5` without quotes. The tokenizer's file has their texts.
 */
function asTexts(list: unknown): string[] | undefined {
  if (!Array.isArray(list)) return undefined;
  return list.every((token): token is string => typeof token === "string") ? list : undefined;
}

function refuseTexts(list: unknown): never {
  const number = Array.isArray(list) ? list.findIndex((token) => typeof token !== "string") : -1;
  const fault = number === -1 ? "is missing" : `has the token ${number}, which is not a text`;
  throw new ImportError(CONFIG, `joint.vocabulary ${fault}, and no file of the tokenizer has the tokens`);
}

/**
 * Reads the vocabularies of tokenizers, which follow each other. Returns undefined where a file is missing. It ends at the first
 * token beyond the count, so a file that is too long, or named too often, takes no more memory than a right one.
 *
 * @throws ImportError for more tokens than the model has, and for files that are too large
 */
function fromFiles(
  tokenizers: readonly unknown[],
  files: ReadonlyMap<string, SourceFile>,
  count: number,
): string[] | undefined {
  const tokens: string[] = [];
  let bytes = 0;
  for (const tokenizer of tokenizers) {
    const file = vocabularyOf(tokenizer, files);
    if (!file) return undefined;
    bytes += file.bytes;
    if (bytes > MAX_VOCABULARY_BYTES) throw new ImportError(file.name, "it is too large for a vocabulary");
    for (const token of readVocabulary(file, count - tokens.length + 1)) tokens.push(token);
    if (tokens.length > count)
      throw new ImportError(file.name, `it has more tokens than joint.joint_net, which has ${count}`);
  }
  return tokens;
}

/** Returns the vocabulary beside a SentencePiece model, or that of word pieces. */
function vocabularyOf(tokenizer: unknown, files: ReadonlyMap<string, SourceFile>): SourceFile | undefined {
  if (!isJsonObject(tokenizer)) return undefined;
  for (const setting of ["spe_tokenizer_vocab", "vocab_path"]) {
    const name = tokenizer[setting];
    if (typeof name !== "string") continue;
    const parts = name.replace(/^nemo:/, "").split("/");
    const file = files.get(parts.at(-1) ?? "");
    if (file) return file;
  }
  return undefined;
}

/** Reads tokens of a vocabulary (SentencePiece's has `TOKEN⇥SCORE` a line), at most so many. */
function readVocabulary(file: SourceFile, most: number): string[] {
  const lines = file
    .read(0, file.bytes)
    .toString("utf8")
    .split("\n", most + 1);
  if (lines.at(-1) === "") lines.pop();
  return lines.slice(0, most).map((line) => line.split("\t", 1)[0] ?? "");
}
