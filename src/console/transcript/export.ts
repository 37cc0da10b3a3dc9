import type { TranscriptionResult } from "../../http/wire/schemas.ts";
import { srtText, vttText } from "../../lib/subtitle-text.ts";
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
  // WebVTT demands this order: a long segment of one channel has cues that begin after those of another.
  const cues = edited.result.segments
    .flatMap((segment) => cuesOf(edited, segment))
    .toSorted((one, other) => one.startMs - other.startMs);
  const isSrt = format === "srt";
  const blocks = cues.map(({ startMs, endMs, lines }, index) => {
    const times = [startMs, endMs].map((ms) => timeOf(ms, isSrt ? "," : ".")).join(" --> ");
    const text = lines.map(isSrt ? srtText : vttText).join("\n");
    return `${isSrt ? `${index + 1}\n` : ""}${times}\n${text}\n`;
  });
  return isSrt ? blocks.join("\n") : `WEBVTT\n\n${blocks.join("\n")}`;
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

type Cue = { startMs: number; endMs: number; lines: string[] };

/** Cuts a segment into cues that can be read; each has a share of the time by its letters, and lasts at least 1 ms. */
function cuesOf({ textOf, nameOf }: Edited, { index, start, end, speaker }: Segment): Cue[] {
  if (start === undefined || end === undefined) return [];
  const text = oneLine(textOf(index));
  if (text === "") return [];
  const startMs = Math.round(start * 1000);
  const endMs = Math.max(Math.round(end * 1000), startMs + 1);
  const cutText = cut(text, CUE_LETTERS);
  const pieces = cutText.length > endMs - startMs ? [text] : cutText;
  const letters = pieces.reduce((sum, piece) => sum + piece.length, 0);
  let shown = 0;
  let fromMs = startMs;
  return pieces.map((piece, at) => {
    shown += piece.length;
    const share = startMs + Math.round(((endMs - startMs) * shown) / letters);
    const untilMs = Math.min(Math.max(share, fromMs + 1), endMs - (pieces.length - 1 - at));
    const name = speaker !== undefined && at === 0 ? `${oneLine(nameOf(speaker) ?? speaker)}: ` : "";
    const cue = { startMs: fromMs, endMs: untilMs, lines: cut(name + piece, LINE_LETTERS) };
    fromMs = untilMs;
    return cue;
  });
}

/** A text that a person typed can have line ends, which would end a cue. */
const oneLine = (text: string) => text.replaceAll(/[\s\p{Cc}]+/gu, " ").trim();

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

function timeOf(ms: number, point: string): string {
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
