import type { RecognizedWord } from "../../domain/recognition.ts";
import { wordSpans } from "../../lib/word-spans.ts";
import type { NativeSegment } from "../../native/whisper/whisper-addon.ts";
import { meanProbability, missingBytes } from "./confidence.ts";

/** Text that became whole with a token: the token, and the first of those that spell it together. */
export type Piece = { text: string; segment: number; first: TokenPlace; last: TokenPlace };

/** A token: its segment, and its number there. */
type TokenPlace = { segment: number; token: number };

/**
 * Divides segments into pieces, each of which one token has made whole. Tokens split characters, and so, rarely, do segments:
 * then a piece is that of the segment in which it became whole. Bytes that never become a character are dropped.
 */
export function toPieces(segments: readonly NativeSegment[]): Piece[] {
  const stream = new TextDecoder("utf-8", { ignoreBOM: true });
  const pieces: Piece[] = [];
  let first: TokenPlace | undefined;
  let missing = 0;
  for (const [segment, { ids, bytes, ends }] of segments.entries()) {
    for (let token = 0; token < ids.length; token++) {
      const own = bytes.subarray(ends[token - 1] ?? 0, ends[token]);
      const text = stream.decode(own, { stream: true }).replaceAll("\uFFFD", "");
      const here = { segment, token };
      if (text !== "") pieces.push({ text, segment, first: first ?? here, last: here });
      missing = missingBytes(own, missing);
      if (missing === 0) first = undefined;
      else if (text !== "" || first === undefined) first = here;
    }
  }
  return pieces;
}

const PUNCTUATION = /^[\p{P}\p{S}\s]*$/u;

/**
 * Joins the tokens of a segment to words. Punctuation takes no time.
 *
 * @param pieces of the segment
 * @param segments all of the transcription, because a word may begin with a token of the one before
 * @param fromMs where the words before have ended
 * @returns undefined where a word has no time, and for a segment without words
 */
export function toWords(
  pieces: readonly Piece[],
  segments: readonly NativeSegment[],
  fromMs: number,
): RecognizedWord[] | undefined {
  const words: RecognizedWord[] = [];
  for (const { text, parts } of joinPieces(pieces)) {
    const spoken = parts.filter((piece) => !PUNCTUATION.test(piece.text));
    const timed = spoken.length > 0 ? spoken : parts;
    const startMs = timeOf(segments, timed[0]?.first, "starts");
    const endMs = timeOf(segments, timed.at(-1)?.last, "stops");
    if (startMs === undefined || endMs === undefined) return undefined;
    words.push({ text, startMs, endMs, confidence: confidenceOf(segments, parts) });
  }
  return words.length > 0 ? inOrder(words, fromMs) : undefined;
}

function timeOf(
  segments: readonly NativeSegment[],
  place: TokenPlace | undefined,
  of: "starts" | "stops",
): number | undefined {
  return place && segments[place.segment]?.[of][place.token];
}

/**
 * Makes each word begin where the one before has ended, at the earliest: a token may belong to two of them, and the sound of
 * a window to two windows.
 */
function inOrder(words: readonly RecognizedWord[], fromMs: number): RecognizedWord[] {
  let end = fromMs;
  return words.map((word) => {
    const startMs = Math.max(word.startMs, end);
    end = Math.max(word.endMs, startMs);
    return { ...word, startMs, endMs: end };
  });
}

type JoinedWord = { text: string; parts: Piece[] };

/** Joins pieces to words at white space, and within scripts that have none as `Intl.Segmenter` does. */
function joinPieces(pieces: readonly Piece[]): JoinedWord[] {
  const text = pieces.map((piece) => piece.text).join("");
  const words: JoinedWord[] = [];
  let next = 0;
  let nextAt = 0;
  for (const { from, to } of wordSpans(text)) {
    const parts: Piece[] = [];
    let piece = pieces[next];
    for (; piece !== undefined && nextAt < to; piece = pieces[next]) {
      const end = nextAt + piece.text.length;
      if (end > from) parts.push(piece);
      // A piece may hold the end of a word and the beginning of the next one.
      if (end > to) break;
      nextAt = end;
      next++;
    }
    words.push({ text: text.slice(from, to), parts });
  }
  return words;
}

/** Computes the mean probability of the tokens of a word, as for those of a segment. */
function confidenceOf(segments: readonly NativeSegment[], parts: readonly Piece[]): number {
  const probabilities: number[] = [];
  const ends: number[] = [];
  const bytes: number[] = [];
  for (const { first, last } of parts) {
    for (let segment = first.segment; segment <= last.segment; segment++) {
      const of = segments[segment];
      if (!of) continue;
      const from = segment === first.segment ? first.token : 0;
      const to = segment === last.segment ? last.token : of.ids.length - 1;
      for (let token = from; token <= to; token++) {
        probabilities.push(of.probabilities[token] ?? 0);
        bytes.push(...of.bytes.subarray(of.ends[token - 1] ?? 0, of.ends[token]));
        ends.push(bytes.length);
      }
    }
  }
  return meanProbability(probabilities, Uint8Array.from(bytes), ends);
}
