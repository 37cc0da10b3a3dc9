import { type RawFormat, rawFormatOfMediaType } from "../../domain/raw-formats.ts";
import {
  CHANNEL_MODES,
  type ChannelMode,
  MODES,
  type Mode,
  NUMERALS,
  type Numerals,
  TASKS,
  type Task,
  TIMESTAMPS,
  type Timestamps,
} from "../../domain/transcription.ts";
import { FORMATS, type Format } from "../../pipeline/render.ts";
import { CommandError } from "./context.ts";

/** Parsers of options with few values. Any other value is wrong usage. */

export function readMode(text: string): Mode {
  const mode = MODES.find((known) => known === text);
  if (!mode) throw new CommandError("usage", `there is no mode ${text}; there are ${MODES.join(", ")}`);
  return mode;
}

export function readChannelMode(text: string): ChannelMode {
  const channelMode = CHANNEL_MODES.find((known) => known === text);
  if (!channelMode) throw new CommandError("usage", "the channel mode is mix or separate");
  return channelMode;
}

export function readTimestamps(text: string): Timestamps {
  const timestamps = TIMESTAMPS.find((known) => known === text);
  if (!timestamps) throw new CommandError("usage", `the timestamps are ${TIMESTAMPS.join(", ")}`);
  return timestamps;
}

export function readTask(text: string): Task {
  const task = TASKS.find((known) => known === text);
  if (!task) throw new CommandError("usage", "the task is transcribe or translate");
  return task;
}

export function readNumerals(text: string): Numerals {
  const numerals = NUMERALS.find((known) => known === text);
  if (!numerals) throw new CommandError("usage", "the numerals are spoken or written");
  return numerals;
}

/** Parses the media type of recordings without a header. */
export function readMediaType(text: string): RawFormat {
  const format = rawFormatOfMediaType(text);
  if (!format)
    throw new CommandError(
      "usage",
      `${text} names no format of recordings without a header; there are audio/PCMU, audio/PCMA, audio/G722, audio/L16;rate=8000 and others (docs/decisions/recordings.md, "Without a header")`,
    );
  return format;
}

/** Parses a format. `text` is another name of `txt`. */
export function readFormat(text: string): Format {
  const format = FORMATS.find((known) => known === text || (known === "txt" && text === "text"));
  if (!format)
    throw new CommandError("usage", `there is no format ${text}; there are text, json, srt, vtt, ctm`);
  return format;
}

/** Formats of `shruti transcribe`: those of a result, and one line of JSON for each recording. */
export const OUTPUT_FORMATS = ["text", "json", "jsonl", "srt", "vtt", "ctm"] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

/** Parses a format of `shruti transcribe`. `txt` is another name of `text`. */
export function readOutputFormat(text: string): OutputFormat {
  const format = OUTPUT_FORMATS.find((known) => known === text || (known === "text" && text === "txt"));
  if (!format) {
    throw new CommandError("usage", `there is no format ${text}; there are ${OUTPUT_FORMATS.join(", ")}`);
  }
  return format;
}
