import type { RecognizedSegment } from "../../domain/recognition.ts";
import type { NativeSegment } from "../../native/whisper/whisper-addon.ts";
import { meanProbability } from "./confidence.ts";

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
 * Makes segments from the native ones of a transcription, which come in order. Tokens split characters, and so,
 * rarely, do segments: the bytes of an unfinished character at the end of a segment go to the next one. Bytes that
 * never become a character are dropped.
 */
export function toSegments(segments: readonly NativeSegment[]): WhisperSegment[] {
  const stream = new TextDecoder("utf-8", { ignoreBOM: true });
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  return segments.map((segment) => ({
    startMs: segment.startMs,
    endMs: segment.endMs,
    text: stream.decode(segment.bytes, { stream: true }).replaceAll("\uFFFD", ""),
    language: segment.language,
    tokens: tokensOf(segment, strict),
    confidence: meanProbability(segment.probabilities, segment.bytes, segment.ends),
    noSpeechProbability: segment.noSpeechProbability,
    spokenLanguages: segment.spokenLanguages,
    ...(segment.isCut ? { isCut: true } : {}),
  }));
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
