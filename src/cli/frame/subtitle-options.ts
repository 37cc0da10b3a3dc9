import type { Command } from "commander";
import { SUBTITLE_BOUNDS, SUBTITLE_LIMITS } from "../../domain/subtitles.ts";
import type { Format, TextOptions } from "../../pipeline/render.ts";
import { wholeNumber } from "./arguments.ts";
import { CommandError } from "./context.ts";

/** Options that say how the words of a transcript are written, for commands with `--format`. */
export type SubtitleOptions = {
  wordTimes?: true;
  maxLineCharacters?: number;
  maxLines?: number;
  maxCueSeconds?: number;
};

const OPTIONS = {
  wordTimes: { flag: "--word-times", formats: ["vtt"] },
  maxLineCharacters: { flag: "--max-line-characters", formats: ["srt", "vtt"] },
  maxLines: { flag: "--max-lines", formats: ["srt", "vtt"] },
  maxCueSeconds: { flag: "--max-cue-seconds", formats: ["srt", "vtt"] },
} as const satisfies Record<keyof SubtitleOptions, { flag: string; formats: readonly Format[] }>;

/** Adds the options to a command. */
export function addSubtitleOptions(command: Command): Command {
  const { maxLineCharacters, maxLines, maxCueSeconds } = SUBTITLE_BOUNDS;
  const numberIn = ({ min, max }: { min: number; max: number }) => wholeNumber(min, max);
  return command
    .option("--word-times", "in WebVTT: write the time of each word into the cues")
    .option(
      "--max-line-characters <n>",
      `of subtitles: characters of a line (default: ${SUBTITLE_LIMITS.maxLineCharacters})`,
      numberIn(maxLineCharacters),
    )
    .option(
      "--max-lines <n>",
      `of subtitles: lines of a cue (default: ${SUBTITLE_LIMITS.maxLines})`,
      numberIn(maxLines),
    )
    .option(
      "--max-cue-seconds <n>",
      "of subtitles: how long a cue stays (default: 7 where words have times, else as long as the segment)",
      numberIn(maxCueSeconds),
    );
}

/**
 * Says how a transcript is written.
 *
 * @throws CommandError `usage` for an option that is not for the format
 */
export function textOptionsOf(options: SubtitleOptions, format: string): TextOptions {
  for (const [name, { flag, formats }] of Object.entries(OPTIONS)) {
    const isGiven = options[name as keyof SubtitleOptions] !== undefined;
    if (isGiven && !(formats as readonly string[]).includes(format))
      throw new CommandError("usage", `${flag} is for --format ${formats.join(" and ")}`);
  }
  const { wordTimes = false, maxLineCharacters, maxLines, maxCueSeconds } = options;
  return {
    hasWordTimes: wordTimes,
    subtitles: {
      maxLineCharacters: maxLineCharacters ?? SUBTITLE_LIMITS.maxLineCharacters,
      maxLines: maxLines ?? SUBTITLE_LIMITS.maxLines,
      maxCueMs: maxCueSeconds === undefined ? undefined : maxCueSeconds * 1000,
    },
  };
}

/** Reports whether a transcript can only be written where words have times. */
export const needsWordTimes = ({ wordTimes }: SubtitleOptions, format: string): boolean =>
  format === "ctm" || wordTimes === true;
