import type {
  AudioTracks,
  Gap,
  LanguageCandidate,
  Segment,
  TranscriptionResult,
  Unrecognized,
} from "../domain/result.ts";
import type { Mode, Timestamps } from "../domain/transcription.ts";
import { srtText, vttText } from "../lib/subtitle-text.ts";
import { toSeconds } from "../lib/time.ts";
import { channelLabel } from "./joined-text.ts";
import { cuesInOrder } from "./subtitles.ts";

export const FORMATS = ["txt", "srt", "vtt", "json"] as const;
export type Format = (typeof FORMATS)[number];

/** What files of text have of a result. */
type Spoken = Pick<TranscriptionResult, "text" | "segments">;

/** Values of a transcription that its result repeats. */
export type ResultInfo = {
  id: string;
  model: string;
  version: string;
  mode: Mode;
  timestamps: Timestamps;
};

/**
 * Renders a result as the content of a file.
 *
 * - `txt`: the transcript. With speakers it has a line for each turn, `speaker_1: …`. With channels it has a line for
 *   each segment, `[channel 0] …`. With both it has both labels.
 * - `srt`, `vtt`: subtitles, see `toCues`. In SRT, speakers and channels are written before the text. In VTT, the speaker
 *   is a voice span.
 * - `json`: with `info` the body that HTTP sends; without it, the same body without the fields that `info` fills.
 *
 * The content ends with a newline. A `txt` without text is empty.
 */
export function renderResult(result: TranscriptionResult, format: Format, info?: ResultInfo): string {
  if (format !== "json") return [...textPieces(result, format)].join("");
  return `${JSON.stringify(info ? resultBody(info, result) : contentOf(result, true), null, 2)}\n`;
}

/** Renders a result as `renderResult` does, in pieces: other work can be done between them. */
export function textPieces(result: Spoken, format: Exclude<Format, "json">): Iterable<string> {
  switch (format) {
    case "txt":
      return [toText(result)];
    case "srt":
      return srtPieces(result.segments);
    case "vtt":
      return vttPieces(result.segments);
  }
}

/**
 * Makes the body of a result on the wire (docs/interface.md section 2.3, docs/decisions/transcriptions.md). Times are
 * seconds with at most three decimals.
 */
export function resultBody(info: ResultInfo, result: TranscriptionResult) {
  const { status, ...content } = contentOf(result, info.timestamps !== "none");
  return {
    id: info.id,
    object: "transcription.result" as const,
    model: info.model,
    version: info.version,
    status,
    mode: info.mode,
    ...content,
  };
}
export type ResultBody = ReturnType<typeof resultBody>;

function contentOf(result: TranscriptionResult, isTimed: boolean) {
  return {
    status: result.status,
    duration_seconds: toSeconds(result.durationMs),
    channels: result.channels,
    languages: result.languages,
    text: result.text,
    segments: result.segments.map((segment) => segmentBody(segment, isTimed)),
    warnings: result.warnings,
    ...(result.gaps.length === 0 ? {} : { gaps: result.gaps.map(gapBody) }),
    ...(result.unrecognized === undefined ? {} : { unrecognized: result.unrecognized.map(spanBody) }),
    ...(result.languageCandidates === undefined
      ? {}
      : { language_candidates: result.languageCandidates.map(candidateBody) }),
    ...(result.audioTracks === undefined ? {} : { audio_tracks: tracksBody(result.audioTracks) }),
  };
}

function segmentBody(segment: Segment, isTimed: boolean) {
  const { index, startMs, endMs, text, language, confidence, speaker, channel } = segment;
  return {
    index,
    ...(isTimed ? { start: toSeconds(startMs), end: toSeconds(endMs) } : {}),
    text,
    language,
    confidence: Math.round(confidence * 1000) / 1000,
    ...(speaker === undefined ? {} : { speaker }),
    ...(channel === undefined ? {} : { channel }),
  };
}

function gapBody({ reason, channel, ...span }: Gap) {
  const { start, end } = spanBody(span);
  return { start, end, reason, ...(channel === undefined ? {} : { channel }) };
}

function spanBody({ startMs, endMs, channel }: Unrecognized) {
  return {
    start: toSeconds(startMs),
    end: toSeconds(endMs),
    ...(channel === undefined ? {} : { channel }),
  };
}

function candidateBody({ language, probability }: LanguageCandidate) {
  return { language, probability: Math.round(probability * 1000) / 1000 };
}

const tracksBody = ({ transcribed, leftOut }: AudioTracks) => ({ transcribed, left_out: leftOut });

function toText(result: Spoken): string {
  if (result.text === "") return "";
  if (result.segments.every(({ speaker }) => speaker === undefined)) return `${result.text}\n`;
  const lines: string[] = [];
  let previousLabel: string | undefined;
  for (const segment of result.segments) {
    const label = labelOf(segment);
    if (label === previousLabel) lines[lines.length - 1] += ` ${segment.text}`;
    else lines.push(label + segment.text);
    previousLabel = label;
  }
  return `${lines.join("\n")}\n`;
}

/** Makes the label of a segment: `[channel 0] speaker_1: `, without the parts that it does not have. */
function labelOf({ speaker, channel }: Pick<Segment, "speaker" | "channel">): string {
  return channelLabel(channel) + (speaker === undefined ? "" : `${speaker}: `);
}

/** Writes SubRip: number, times with a comma before the milliseconds, lines, empty line. */
function* srtPieces(segments: readonly Segment[]): Generator<string> {
  let number = 0;
  for (const cues of cuesInOrder(segments, labelOf)) {
    const blocks = cues.map(({ startMs, endMs, lines }) => {
      number++;
      const mark = number === 1 ? "" : "\n";
      const text = lines.map(srtText).join("\n");
      return `${mark}${number}\n${clock(startMs, ",")} --> ${clock(endMs, ",")}\n${text}\n`;
    });
    yield blocks.join("");
  }
}

/** Writes WebVTT (W3C Candidate Recommendation, 4 April 2019): header, cues, voice spans. Text is escaped. */
function* vttPieces(segments: readonly Segment[]): Generator<string> {
  yield "WEBVTT\n";
  for (const cues of cuesInOrder(segments, ({ channel }) => channelLabel(channel))) {
    const blocks = cues.map(({ startMs, endMs, lines, speaker }) => {
      const text = lines.map(vttText).join("\n");
      const voiced = speaker === undefined ? text : `<v ${vttText(speaker)}>${text}</v>`;
      return `\n${clock(startMs, ".")} --> ${clock(endMs, ".")}\n${voiced}\n`;
    });
    yield blocks.join("");
  }
}

/** Formats a time as `01:02:03,004`. Hours have at least two digits. */
function clock(ms: number, mark: "," | "."): string {
  const pad = (value: number, digits = 2) => String(value).padStart(digits, "0");
  const whole = Math.max(0, Math.round(ms));
  const hours = Math.floor(whole / 3_600_000);
  const minutes = Math.floor(whole / 60_000) % 60;
  const seconds = Math.floor(whole / 1000) % 60;
  return `${pad(hours)}:${pad(minutes)}:${pad(seconds)}${mark}${pad(whole % 1000, 3)}`;
}
