import type { TranscriptionResult } from "../../http/wire/schemas.ts";
import { joinedText } from "../../pipeline/joined-text.ts";
import { textPieces } from "../../pipeline/render.ts";
import type { Segment } from "./rows.ts";
import { timedWord, wordsOfText } from "./timed-words.ts";

/** Forms of a download. */
export const FORMATS = ["srt", "vtt", "text", "json"] as const;
export type Format = (typeof FORMATS)[number];

/** A transcript with what a person changed. */
export type Edited = {
  result: TranscriptionResult;
  /** Each channel was recognized on its own. */
  isSeparate: boolean;
  textOf: (index: number) => string;
  /** Returns a name for a label of the interface; undefined: the label stays. */
  nameOf: (speaker: string) => string | undefined;
};

/** Renders a transcript with corrections and names, by the code with which the server renders it. */
export function renderEdited(edited: Edited, format: Format): string {
  const { result, isSeparate } = edited;
  const segments = result.segments.map((segment) => editedSegment(edited, segment));
  // Of a text that was corrected to nothing, files of text have nothing. JSON has its place.
  const spoken = segments.filter(({ text }) => text !== "");
  const text = joinedText(spoken, isSeparate);
  // Everything else of the result stays as it is.
  if (format === "json") return JSON.stringify({ ...result, text, segments });
  const timed = spoken.map(({ start = 0, end = 0, words, ...segment }) => ({
    ...segment,
    startMs: toMs(start),
    endMs: toMs(end),
    ...(words ? { words: words.map(timedWord) } : {}),
  }));
  const timedResult = { text, segments: timed, durationMs: toMs(result.duration_seconds) };
  return [...textPieces(timedResult, format === "text" ? "txt" : format)].join("");
}

const isTimed = ({ result }: Edited): boolean => result.segments.every(({ start }) => start !== undefined);

/** Whether a form can be made here: subtitles need the times of the segments, which the page may not have. */
export const canRender = (edited: Edited, format: Format): boolean =>
  isTimed(edited) || format === "text" || format === "json";

/** A transcript without any change. */
export const asWritten = (result: TranscriptionResult, isSeparate: boolean): Edited => ({
  ...{ result, isSeparate, nameOf: () => undefined },
  textOf: (index) => result.segments[index]?.text ?? "",
});

function editedSegment({ textOf, nameOf }: Edited, segment: Segment): Segment {
  const { index, text: written, speaker } = segment;
  const text = textOf(index);
  return {
    ...(text === written ? segment : rewritten(segment, oneLine(text))),
    ...(speaker === undefined ? {} : { speaker: oneLine(nameOf(speaker) ?? "") || speaker }),
  };
}

/** Words that were not touched keep their times. Figures and the text as it was said belong to the text of the server alone. */
function rewritten(segment: Segment, text: string): Segment {
  const { words: _, written: _written, native_text: _native, ...rest } = segment;
  const carried = text === "" ? undefined : wordsOfText(segment, text);
  const words = carried?.map(({ startMs, endMs, ...word }) => ({
    ...word,
    start: Math.round(startMs) / 1000,
    end: Math.round(endMs) / 1000,
  }));
  return { ...rest, text, ...(words ? { words } : {}) };
}

const toMs = (seconds: number): number => Math.round(seconds * 1000);

/** A text that a person typed can have line ends and control characters, and the server writes none. */
const oneLine = (text: string) => text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim();

/**
 * The text of a pair for `shruti benchmark`: all words in the order in which it compares them, channel after channel where
 * they were recognized on their own.
 */
export function referenceText({ result, textOf }: Edited): string {
  const ordered = result.segments.toSorted((a, b) => (a.channel ?? 0) - (b.channel ?? 0));
  return `${ordered.map(({ index }) => textOf(index)).join(" ")}\n`;
}

/** Hands a file to the browser's downloads. */
export function saveAs(name: string, content: Blob | string): void {
  const blob = typeof content === "string" ? new Blob([content], { type: "text/plain" }) : content;
  const address = URL.createObjectURL(blob);
  saveFrom(address, name);
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Downloads from an address of this server, without holding the file in memory. */
export function saveFrom(address: string, name: string): void {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}

/** A name of a file without its ending, and without letters that file systems refuse. */
export function plainName(name: string): string {
  const base = name.replace(/\.[a-z0-9]{1,5}$/i, "").replaceAll(/[^\p{L}\p{M}\p{N} ._-]/gu, "_");
  return base.trim() === "" ? "transcript" : base.trim();
}
