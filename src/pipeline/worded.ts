import type { Mode } from "../domain/transcription.ts";
import type { LooseSegment } from "./stitch.ts";
import { applyWording } from "./wording.ts";

/** Segments in the wording of the mode that was asked for; those of which nothing is left are left out. */
export function wordSegments(segments: readonly LooseSegment[], mode: Mode): LooseSegment[] {
  return segments.flatMap((segment) => {
    const text = applyWording(segment.text, { language: segment.language, mode });
    return text === "" ? [] : [{ ...segment, text }];
  });
}
