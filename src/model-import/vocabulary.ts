import { ImportError } from "./import-error.ts";
import { type CheckpointFolder, hasFile, isJsonObject, openSource, readJsonFile } from "./source-file.ts";
import { ENGLISH_VOCAB } from "./whisper-config.ts";

const WORDS_FILE = "vocab.json";
const ADDED_FILE = "added_tokens.json";
const TOKENIZER_FILE = "tokenizer.json";
const GENERATION_FILE = "generation_config.json";
const MAX_BYTES = 64 * 1024 * 1024;
const MAX_TOKEN_BYTES = 1024;
/** The token whose number shows best what the rest of the vocabulary is. */
const SIGNPOST = "<|notimestamps|>";

type Numbered = { file: string; token: string; id: number };

/**
 * Reads the bytes of each text token, in the order of their numbers.
 *
 * whisper.cpp derives the numbers of all special tokens from the size of the vocabulary alone. A fine-tune that has added
 * tokens may have such a size by accident. So the numbers that the folder gives must be those, and it must give some.
 *
 * @throws ImportError
 */
export function readVocabulary(folder: CheckpointFolder, vocab: number): Buffer[] {
  const tokenizer = hasFile(folder, TOKENIZER_FILE)
    ? readJsonFile(folder, TOKENIZER_FILE, MAX_BYTES)
    : undefined;
  const words = readWords(folder, tokenizer);
  const special = specialTokens(vocab);
  const end = special.get("<|endoftext|>") ?? 0;
  const numbered = [
    ...addedTokens(folder),
    ...(tokenizer ? tokenizerTokens(tokenizer.added_tokens) : []),
    ...words.filter(({ id }) => id >= end),
    ...generationTokens(folder),
  ];
  checkSpecialTokens(numbered, special, vocab);
  const tokens = toBytes(words);
  if (tokens.length < end) {
    throw new ImportError(words[0]?.file ?? WORDS_FILE, `it lists ${tokens.length} of ${end} text tokens`);
  }
  return tokens;
}

/** The lists of tokens that CTranslate2 writes: JSON, or one token on each line. */
const LIST_FILES = ["vocabulary.json", "vocabulary.txt"] as const;

/**
 * Reads the bytes of each text token of a folder of CTranslate2, whose list has all tokens in the order of their numbers.
 *
 * @throws ImportError, as `readVocabulary` does
 */
export function readListedVocabulary(folder: CheckpointFolder, vocab: number): Buffer[] {
  const name = LIST_FILES.find((file) => hasFile(folder, file));
  if (name === undefined)
    throw new ImportError(LIST_FILES[0], `neither this file nor ${LIST_FILES[1]} is there`);
  const numbered = readList(folder, name).map((token, id) => ({ file: name, token, id }));
  if (numbered.length !== vocab)
    throw new ImportError(name, `it lists ${numbered.length} tokens, and the model has ${vocab}`);
  const special = specialTokens(vocab);
  const end = special.get("<|endoftext|>") ?? 0;
  checkSpecialTokens(numbered, special, vocab);
  return toBytes(numbered.slice(0, end));
}

function readList(folder: CheckpointFolder, name: string): string[] {
  const file = openSource(folder, name);
  try {
    if (file.bytes > MAX_BYTES) throw new ImportError(name, `the file is larger than ${MAX_BYTES} bytes`);
    const text = decodeText(name, file.read(0, file.bytes));
    if (name.endsWith(".txt")) return text.replace(/\n$/, "").split("\n");
    return parseList(name, text);
  } finally {
    file.close();
  }
}

function decodeText(name: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new ImportError(name, "the file is not UTF-8");
  }
}

function parseList(name: string, text: string): string[] {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    throw new ImportError(name, "the file is not valid JSON");
  }
  if (!Array.isArray(list) || !list.every((token) => typeof token === "string"))
    throw new ImportError(name, "the file is not a list of texts");
  return list;
}

function readWords(folder: CheckpointFolder, tokenizer: Record<string, unknown> | undefined): Numbered[] {
  if (hasFile(folder, WORDS_FILE)) return tokensOf(WORDS_FILE, readJsonFile(folder, WORDS_FILE, MAX_BYTES));
  const model = tokenizer?.model;
  if (isJsonObject(model) && isJsonObject(model.vocab)) return tokensOf(TOKENIZER_FILE, model.vocab);
  throw new ImportError(
    WORDS_FILE,
    `the folder has neither this file nor a ${TOKENIZER_FILE} with the tokens`,
  );
}

function addedTokens(folder: CheckpointFolder): Numbered[] {
  return hasFile(folder, ADDED_FILE) ? tokensOf(ADDED_FILE, readJsonFile(folder, ADDED_FILE, MAX_BYTES)) : [];
}

function tokenizerTokens(added: unknown): Numbered[] {
  if (!Array.isArray(added)) return [];
  return (added as unknown[]).filter(isJsonObject).flatMap(({ content, id }) => {
    return typeof content === "string" ? [checked(TOKENIZER_FILE, content, id)] : [];
  });
}

/** Reads the number that transformers itself uses to suppress timestamps. */
function generationTokens(folder: CheckpointFolder): Numbered[] {
  if (!hasFile(folder, GENERATION_FILE)) return [];
  const { no_timestamps_token_id: id } = readJsonFile(folder, GENERATION_FILE, MAX_BYTES);
  return typeof id === "number" ? [{ file: GENERATION_FILE, token: SIGNPOST, id }] : [];
}

function tokensOf(file: string, ids: Record<string, unknown>): Numbered[] {
  return Object.entries(ids).map(([token, id]) => checked(file, token, id));
}

function checked(file: string, token: string, id: unknown): Numbered {
  if (typeof id === "number" && Number.isSafeInteger(id) && id >= 0 && id < 1_000_000)
    return { file, token, id };
  throw new ImportError(file, `the token ${JSON.stringify(token.slice(0, 80))} has no number`);
}

/** Returns the numbers that whisper.cpp takes special tokens to have. */
function specialTokens(vocab: number): Map<string, number> {
  const end = vocab === ENGLISH_VOCAB ? 50256 : 50257;
  const languages = vocab === 51866 ? 100 : 99;
  const afterLanguages = end + 2 + languages;
  return new Map([
    ["<|endoftext|>", end],
    ["<|startoftranscript|>", end + 1],
    ["<|en|>", end + 2],
    ["<|hi|>", end + 19],
    ["<|su|>", end + 100],
    ["<|translate|>", afterLanguages],
    ["<|transcribe|>", afterLanguages + 1],
    ["<|startoflm|>", afterLanguages + 2],
    ["<|startofprev|>", afterLanguages + 3],
    ["<|nospeech|>", afterLanguages + 4],
    ["<|nocaptions|>", afterLanguages + 4],
    [SIGNPOST, afterLanguages + 5],
    ["<|0.00|>", afterLanguages + 6],
    ["<|30.00|>", afterLanguages + 1506],
  ]);
}

function checkSpecialTokens(
  numbered: readonly Numbered[],
  special: ReadonlyMap<string, number>,
  vocab: number,
): void {
  for (const { file, token, id } of numbered) {
    const expected = special.get(token);
    const name = JSON.stringify(token.slice(0, 80));
    if (id >= vocab)
      throw new ImportError(file, `the added token ${name} (${id}) is outside of the vocabulary of ${vocab}`);
    if (expected !== undefined && id !== expected) {
      throw new ImportError(
        file,
        `the token ${name} is number ${id}, and whisper.cpp takes ${expected} in a vocabulary of ${vocab}: tokens were added`,
      );
    }
  }
  if (!numbered.some(({ token }) => token === SIGNPOST)) {
    throw new ImportError(
      ADDED_FILE,
      `no file gives the number of ${SIGNPOST}, so the special tokens cannot be checked`,
    );
  }
}

/** Returns the tokens' bytes by number. Numbers must be 0, 1, 2 and so on, each once. */
function toBytes(words: readonly Numbered[]): Buffer[] {
  const byteOf = bytesOfCharacters();
  const tokens: Buffer[] = [];
  for (const [index, { file, token, id }] of words.toSorted((a, b) => a.id - b.id).entries()) {
    if (id !== index)
      throw new ImportError(file, `the token number ${Math.min(id, index)} is missing or given twice`);
    const bytes = Array.from(token, (character) => byteOf.get(character) ?? -1);
    if (bytes.includes(-1))
      throw new ImportError(file, `the token number ${id} is not written in GPT-2's byte characters`);
    if (bytes.length > MAX_TOKEN_BYTES) throw new ImportError(file, `the token number ${id} is too long`);
    tokens.push(Buffer.from(bytes));
  }
  return tokens;
}

/** GPT-2's table: each byte has a printable character, the byte's own one where it is printable. */
function bytesOfCharacters(): Map<string, number> {
  const table = new Map<string, number>();
  let other = 256;
  for (let byte = 0; byte < 256; byte++) {
    const isPrintable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    table.set(String.fromCodePoint(isPrintable ? byte : other++), byte);
  }
  return table;
}
