import type { Segment } from "../domain/result.ts";
import type { SubtitleLimits } from "../domain/subtitles.ts";
import type { LinePiece } from "./subtitle-lines.ts";

/** Text that is on the screen at one time. */
export type Cue = { startMs: number; endMs: number; lines: readonly LinePiece[][]; speaker?: string };

export type CueOptions = SubtitleLimits & {
  /** Returns the label before the first line of a segment, which counts as part of the line. */
  labelOf: (segment: Segment) => string;
  /** Length of the recording, after which no cue stays. Left out: none stays longer than its words. */
  durationMs?: number | undefined;
};

/** What a cue says of who speaks. */
export const voiceOf = ({ speaker }: Pick<Segment, "speaker">): Pick<Cue, "speaker"> =>
  speaker === undefined ? {} : { speaker };
