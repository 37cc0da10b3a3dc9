import type { RecognizedSegment } from "../../domain/recognition.ts";
import type { NativeSegment } from "../../native/whisper/whisper-addon.ts";
import { meanProbability } from "./confidence.ts";
import { type Piece, toPieces, toWords } from "./whisper-words.ts";

export type WhisperToken = {
  id: number;
  /** Missing where the token holds only a part of a character. */
  text?: string;
  /** 0 to 1. */
  probability: number;
};

/** A segment and the tokens it was made of. */
export type WhisperSegment = RecognizedSegment & {
  /** Text tokens, without whisper's special tokens. */
  tokens: WhisperToken[];
};

/**
 * Makes segments from the native ones of a transcription, which come in order. The bytes of an unfinished character at the end
 * of a segment go to the next one. Segments whose tokens have times get words.
 */
export function toSegments(segments: readonly NativeSegment[]): WhisperSegment[] {
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const pieces = segments.map((): Piece[] => []);
  for (const piece of toPieces(segments)) pieces[piece.segment]?.push(piece);
  let spokenMs = 0;
  const found = segments.map((segment, index): WhisperSegment => {
    const own = pieces[index] ?? [];
    const words = toWords(own, segments, spokenMs);
    spokenMs = words?.at(-1)?.endMs ?? spokenMs;
    return {
      startMs: segment.startMs,
      endMs: segment.endMs,
      text: own.map(({ text }) => text).join(""),
      language: segment.language,
      tokens: tokensOf(segment, strict),
      confidence: meanProbability(segment.probabilities, segment.bytes, segment.ends),
      noSpeechProbability: segment.noSpeechProbability,
      spokenLanguages: segment.spokenLanguages,
      ...(segment.isCut ? { isCut: true } : {}),
      ...(words ? { words } : {}),
    };
  });
  return aroundWords(found);
}

/**
 * Makes segments contain their words: the model's own times of segments are rougher than those of words. A segment ends where
 * the words of the next one begin, at the latest.
 */
function aroundWords(segments: readonly WhisperSegment[]): WhisperSegment[] {
  let before = 0;
  return segments.map((segment, index) => {
    const first = segment.words?.[0];
    const last = segment.words?.at(-1);
    if (!first || !last) {
      before = segment.endMs;
      return segment;
    }
    const following = segments[index + 1]?.words?.[0]?.startMs ?? Number.POSITIVE_INFINITY;
    const startMs = Math.min(Math.max(Math.min(segment.startMs, first.startMs), before), first.startMs);
    const endMs = Math.max(Math.min(segment.endMs, following), last.endMs);
    before = endMs;
    return { ...segment, startMs, endMs };
  });
}

function tokensOf({ ids, probabilities, bytes, ends }: NativeSegment, strict: TextDecoder): WhisperToken[] {
  return Array.from(ids, (id, i) => {
    const text = wholeText(strict, bytes.subarray(ends[i - 1] ?? 0, ends[i]));
    return { id, probability: probabilities[i] ?? 0, ...(text === undefined ? {} : { text }) };
  });
}

/** Returns undefined for bytes that are not whole characters. */
function wholeText(strict: TextDecoder, bytes: Uint8Array): string | undefined {
  try {
    return strict.decode(bytes);
  } catch {
    return undefined;
  }
}
