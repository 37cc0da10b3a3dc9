import { openCharacterMap } from "./character-map.ts";
import { floatOf, visitFields } from "./protobuf.ts";

/** A piece of a word: its number, and its text without the mark of a new word. */
export type Piece = { id: number; text: string };

export type SentencePieces = {
  /** Numbers of the pieces that begin and end a text. */
  begin: number;
  end: number;
  /** Number of pieces. */
  size: number;
  /**
   * Divides one word into pieces. The first piece begins with the mark of a new word, which is not in its text.
   *
   * @param word without white space
   * @returns nothing for a word of which the model keeps no character
   */
  encode(word: string): Piece[];
};

const REASON = "it is not a SentencePiece model";
/** The mark of a new word. */
const WORD_START = "▁";
/** Kinds of pieces. Others never divide a word. */
const NORMAL = 1;
const UNKNOWN = 2;
const USER_DEFINED = 4;
const UNIGRAM = 1;
/** SentencePiece takes so much from the least score of a piece for a character that no piece has. */
const UNKNOWN_PENALTY = 10;
const MAX_PIECES = 1_000_000;
/** By default SentencePiece's trainer makes pieces of 16 characters at most. */
const MAX_PIECE_BYTES = 1024;
/** Longer words are divided in parts, so that the time grows with the length and not faster. */
const MOST_CHARACTERS = 512;

type Vocabulary = {
  scores: Map<string, { id: number; score: number }>;
  longest: number;
  unknown: number;
  least: number;
};

/**
 * Reads a SentencePiece model of the type unigram, as `SentencePieceProcessor` does (sentencepiece_model.proto, release 0.2), for
 * words one by one: pieces never reach over white space.
 *
 * @throws Error with the setting that is not supported, or that the bytes are no such model
 */
export function openSentencePieces(bytes: Uint8Array): SentencePieces {
  const { vocabulary, named, size, normalizer } = readModel(bytes);
  const rewrite = openCharacterMap(normalizer, `${REASON}: its character map is damaged`);
  return {
    begin: idOf(named, "<s>"),
    end: idOf(named, "</s>"),
    size,
    encode(word) {
      const text = rewrite(word).replace(/\s+/gu, "");
      return text === "" ? [] : dividedInPieces(WORD_START + text, vocabulary);
    },
  };
}

function idOf(named: ReadonlyMap<string, number>, name: string): number {
  const id = named.get(name);
  if (id === undefined) throw new Error(`it has no piece ${name}`);
  return id;
}

function readModel(bytes: Uint8Array) {
  const vocabulary: Vocabulary = {
    scores: new Map(),
    longest: 1,
    unknown: -1,
    least: Number.POSITIVE_INFINITY,
  };
  const named = new Map<string, number>();
  let size = 0;
  let normalizer: Uint8Array = new Uint8Array();
  visitFields(bytes, REASON, ({ number, bytes: inner }) => {
    if (number === 1) addPiece(readPiece(inner), size++, { vocabulary, named });
    if (number === 2) requireUnigram(inner);
    if (number === 3) normalizer = readNormalizer(inner);
    if (size > MAX_PIECES) throw new Error(`it has more than ${MAX_PIECES} pieces`);
  });
  if (vocabulary.scores.size === 0) throw new Error(REASON);
  if (vocabulary.unknown < 0) throw new Error("it has no piece for unknown characters");
  return { vocabulary, named, size, normalizer };
}

type ReadPiece = { text: string; score: number; type: number };

function readPiece(message: Uint8Array): ReadPiece {
  const piece: ReadPiece = { text: "", score: 0, type: NORMAL };
  visitFields(message, REASON, ({ number, value, bytes }) => {
    if (number === 1 && bytes.length > MAX_PIECE_BYTES)
      throw new Error(`it has a piece of more than ${MAX_PIECE_BYTES} bytes`);
    if (number === 1) piece.text = new TextDecoder().decode(bytes);
    if (number === 2 && bytes.length === 4) piece.score = floatOf(bytes);
    if (number === 3) piece.type = value;
  });
  return piece;
}

function addPiece(
  { text, score, type }: ReadPiece,
  id: number,
  { vocabulary, named }: { vocabulary: Vocabulary; named: Map<string, number> },
): void {
  named.set(text, id);
  if (type === UNKNOWN) vocabulary.unknown = id;
  if (type !== NORMAL && type !== USER_DEFINED) return;
  vocabulary.scores.set(text, { id, score });
  vocabulary.longest = Math.max(vocabulary.longest, [...text].length);
  if (type === NORMAL) vocabulary.least = Math.min(vocabulary.least, score);
}

/** Reads the settings of the training that decide how a text is divided. */
function requireUnigram(message: Uint8Array): void {
  const settings = new Map<number, number>();
  visitFields(message, REASON, ({ number, value }) => settings.set(number, value));
  if ((settings.get(3) ?? UNIGRAM) !== UNIGRAM) throw new Error("its model_type is not unigram");
  if (settings.get(22) === 0) throw new Error("its split_by_whitespace is false");
  if (settings.get(24) === 1) throw new Error("its treat_whitespace_as_suffix is true");
  if (settings.get(35) === 1) throw new Error("its byte_fallback is true");
}

function readNormalizer(message: Uint8Array): Uint8Array {
  let map: Uint8Array = new Uint8Array();
  visitFields(message, REASON, ({ number, value, bytes }) => {
    if (number === 2) map = bytes;
    if (number === 3 && value === 0) throw new Error("its add_dummy_prefix is false");
    if (number === 5 && value === 0) throw new Error("its escape_whitespaces is false");
  });
  return map;
}

/** The best way to a place of the text: from where, with which piece, and the sum of scores. */
type Step = { from: number; id: number; score: number };

/** Finds the pieces with the largest sum of scores. Unknown characters in a row are one piece. */
function dividedInPieces(text: string, vocabulary: Vocabulary): Piece[] {
  const characters = [...text];
  const pieces: Piece[] = [];
  for (let from = 0; from < characters.length; from += MOST_CHARACTERS)
    pieces.push(...bestPieces(characters.slice(from, from + MOST_CHARACTERS), vocabulary));
  return pieces.map(({ id, text: piece }, index) => ({
    id,
    text: index === 0 && piece.startsWith(WORD_START) ? piece.slice(WORD_START.length) : piece,
  }));
}

function bestPieces(characters: readonly string[], { scores, longest, unknown, least }: Vocabulary): Piece[] {
  const best: (Step | undefined)[] = new Array(characters.length + 1).fill(undefined);
  const unknownScore = Math.fround(least - UNKNOWN_PENALTY);
  // SentencePiece adds numbers of 32 bits, and of two equal sums keeps the first.
  const offer = (to: number, step: Step) => {
    const known = best[to];
    if (known === undefined || step.score > known.score) best[to] = step;
  };
  for (let from = 0; from < characters.length; from++) {
    const before = best[from]?.score ?? 0;
    let hasSingle = false;
    let text = "";
    for (let to = from + 1; to <= Math.min(characters.length, from + longest); to++) {
      text += characters[to - 1];
      const piece = scores.get(text);
      if (!piece) continue;
      offer(to, { from, id: piece.id, score: Math.fround(before + piece.score) });
      if (to === from + 1) hasSingle = true;
    }
    if (!hasSingle) offer(from + 1, { from, id: unknown, score: Math.fround(before + unknownScore) });
  }
  const pieces: Piece[] = [];
  for (let to = characters.length; to > 0; ) {
    const { from, id } = best[to] as Step;
    const next = pieces.at(-1);
    const text = characters.slice(from, to).join("");
    if (next && id === unknown && next.id === unknown) next.text = text + next.text;
    else pieces.push({ id, text });
    to = from;
  }
  return pieces.reverse();
}
