import type { TranscriptionResult } from "../../http/wire/schemas.ts";
import type { Segment } from "./rows.ts";

/** Forms of a download. */
export const FORMATS = ["srt", "vtt", "text", "json"] as const;
export type Format = (typeof FORMATS)[number];

/** A transcript with what a person changed. */
export type Edited = {
  result: TranscriptionResult;
  textOf: (index: number) => string;
  /** Returns a name for a label of the interface; undefined: the label stays. */
  nameOf: (speaker: string) => string | undefined;
};

/** Readers take in two lines of 42 letters at once. */
const LINE_LETTERS = 42;
const CUE_LETTERS = 2 * LINE_LETTERS;

/** Renders a transcript with corrections and names. */
export function renderEdited(edited: Edited, format: Format): string {
  if (format === "json") return `${JSON.stringify(editedResult(edited), null, 2)}\n`;
  if (format === "text") return renderText(edited);
  const cues = edited.result.segments.flatMap((segment) => cuesOf(edited, segment));
  const time = (seconds: number) => timeOf(seconds, format === "srt" ? "," : ".");
  const blocks = cues.map(
    ({ start, end, text }, index) =>
      `${format === "srt" ? `${index + 1}\n` : ""}${time(start)} --> ${time(end)}\n${text}\n`,
  );
  return format === "srt" ? blocks.join("\n") : `WEBVTT\n\n${blocks.join("\n")}`;
}

function editedResult({ result, textOf, nameOf }: Edited): TranscriptionResult {
  const segments = result.segments.map((segment) => ({
    ...segment,
    text: textOf(segment.index),
    ...(segment.speaker === undefined ? {} : { speaker: nameOf(segment.speaker) ?? segment.speaker }),
  }));
  const isSeparate = segments.some(({ channel }) => channel !== undefined);
  return { ...result, segments, text: segments.map(({ text }) => text).join(isSeparate ? "\n" : " ") };
}

/** A paragraph for each turn of a speaker. */
function renderText({ result, textOf, nameOf }: Edited): string {
  const paragraphs: { who: string; texts: string[] }[] = [];
  for (const { index, speaker, channel } of result.segments) {
    const name = speaker === undefined ? "" : (nameOf(speaker) ?? speaker);
    const who = [name, channel === undefined ? "" : `channel ${channel + 1}`].filter(Boolean).join(", ");
    const last = paragraphs.at(-1);
    if (last?.who === who) last.texts.push(textOf(index));
    else paragraphs.push({ who, texts: [textOf(index)] });
  }
  const lines = paragraphs.map(({ who, texts }) => `${who === "" ? "" : `${who}: `}${texts.join(" ")}`);
  return `${lines.join("\n\n")}\n`;
}

type Cue = { start: number; end: number; text: string };

/** Cuts a segment into cues that can be read; each has a share of the time by its letters. */
function cuesOf({ textOf, nameOf }: Edited, { index, start, end, speaker }: Segment): Cue[] {
  if (start === undefined || end === undefined) return [];
  const text = textOf(index);
  if (text === "") return [];
  const pieces = cut(text, CUE_LETTERS);
  const letters = pieces.reduce((sum, piece) => sum + piece.length, 0);
  let from = start;
  return pieces.map((piece, at) => {
    const until = at === pieces.length - 1 ? end : from + ((end - start) * piece.length) / letters;
    const name = speaker !== undefined && at === 0 ? `${nameOf(speaker) ?? speaker}: ` : "";
    const cue = { start: from, end: until, text: cut(name + piece, LINE_LETTERS).join("\n") };
    from = until;
    return cue;
  });
}

/** Cuts a text between words into about equal pieces, none much longer than a number of letters. */
function cut(text: string, letters: number): string[] {
  const wanted = Math.ceil(text.length / letters);
  if (wanted <= 1) return [text];
  const each = text.length / wanted;
  const pieces: string[] = [];
  let piece = "";
  for (const word of text.split(" ")) {
    const longer = piece === "" ? word : `${piece} ${word}`;
    if (piece !== "" && longer.length > each + word.length / 2 && pieces.length < wanted - 1) {
      pieces.push(piece);
      piece = word;
    } else piece = longer;
  }
  return [...pieces, piece];
}

function timeOf(seconds: number, point: string): string {
  const ms = Math.round(seconds * 1000);
  const part = (value: number, digits: number) => String(value).padStart(digits, "0");
  const clock = [Math.floor(ms / 3_600_000), Math.floor(ms / 60_000) % 60, Math.floor(ms / 1000) % 60];
  return `${clock.map((value) => part(value, 2)).join(":")}${point}${part(ms % 1000, 3)}`;
}

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
