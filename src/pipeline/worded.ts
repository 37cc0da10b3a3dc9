import type { Mode } from "../domain/transcription.ts";
import type { LooseSegment } from "./stitch.ts";
import { carryThrough, fitWords, withWords } from "./timed-words.ts";
import { wordingSteps } from "./wording.ts";

/** Applies the wording of a mode to segments, and carries the times of their words. Segments without any text left are dropped. */
export function wordSegments(segments: readonly LooseSegment[], mode: Mode): LooseSegment[] {
  return segments.flatMap((segment) => {
    const steps = wordingSteps(segment.text, { language: segment.language, mode });
    const text = steps.at(-1) ?? "";
    if (text === "") return [];
    return [withWords({ ...segment, text }, fitWords(carryThrough(segment.words, steps), segment))];
  });
}
