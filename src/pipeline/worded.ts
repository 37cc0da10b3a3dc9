import type { Mode } from "../domain/transcription.ts";
import type { LooseSegment } from "./stitch.ts";
import { carryWords, fitWords, withWords } from "./timed-words.ts";
import { applyWording } from "./wording.ts";

/**
 * Applies the wording of a mode to segments, and carries the times of their words. Segments without any text left are
 * dropped.
 */
export function wordSegments(segments: readonly LooseSegment[], mode: Mode): LooseSegment[] {
  return segments.flatMap((segment) => {
    let { words } = segment;
    const text = applyWording(segment.text, { language: segment.language, mode }, (step) => {
      words &&= carryWords(words, step);
    });
    return text === "" ? [] : [withWords({ ...segment, text }, fitWords(words, segment))];
  });
}
