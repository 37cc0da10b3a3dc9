import type { Mode } from "../domain/transcription.ts";
import type { LooseSegment } from "./stitch.ts";
import { applyWording } from "./wording.ts";

/** Applies the wording of a mode to segments. Segments without any text left are dropped. */
export function wordSegments(segments: readonly LooseSegment[], mode: Mode): LooseSegment[] {
  return segments.flatMap((segment) => {
    const text = applyWording(segment.text, { language: segment.language, mode });
    return text === "" ? [] : [{ ...segment, text }];
  });
}
