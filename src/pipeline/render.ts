import type { Metadata } from "../domain/metadata.ts";
import type {
  AudioTracks,
  Gap,
  LanguageCandidate,
  Segment,
  TranscriptionResult,
  Unrecognized,
  Word,
} from "../domain/result.ts";
import { SUBTITLE_LIMITS, type SubtitleLimits } from "../domain/subtitles.ts";
import type { Mode, Timestamps } from "../domain/transcription.ts";
import { inSlices } from "../lib/in-slices.ts";
import { srtText, vttText } from "../lib/subtitle-text.ts";
import { jsonPieces } from "../lib/text-pieces.ts";
import { toSeconds } from "../lib/time.ts";
import { ctmPieces } from "./ctm.ts";
import type { Cue } from "./cues.ts";
import { channelLabel } from "./joined-text.ts";
import { type LinePiece, textOfLine } from "./subtitle-lines.ts";
import { cuesInOrder } from "./subtitles.ts";

export const FORMATS = ["txt", "srt", "vtt", "ctm", "json"] as const;
export type Format = (typeof FORMATS)[number];

/** What files of text have of a result. Without `durationMs` no subtitle stays longer than its words. */
type Spoken = Pick<TranscriptionResult, "text" | "segments"> &
  Partial<Pick<TranscriptionResult, "durationMs">>;

/** How files of text are written. */
export type TextOptions = {
  subtitles?: SubtitleLimits;
  /** In WebVTT: each word has its time. */
  hasWordTimes?: boolean;
  /** In CTM: the name of the recording. Left out: `audio`. */
  name?: string;
};

/** Values of a transcription that its result repeats. */
export type ResultInfo = {
  id: string;
  model: string;
  version: string;
  /** Left out: the text is in the language that is spoken. */
  task?: "translate";
  mode: Mode;
  timestamps: Timestamps;
  /** Left out: none. */
  metadata?: Metadata;
};

/**
 * Renders a result as the content of a file.
 *
 * - `txt`: the transcript. With speakers it has a line for each turn, `speaker_1: …`. With channels it has a line for
 *   each segment, `[channel 0] …`. With both it has both labels.
 * - `srt`, `vtt`: subtitles, see `cuesInOrder`. In SRT, speakers and channels are written before the text. In VTT, the
 *   speaker is a voice span.
 * - `ctm`: a line for each word, see `ctmPieces`.
 * - `json`: with `info` the body that HTTP sends; without it, the same body without the fields that `info` fills.
 *
 * The content ends with a newline. A `txt` without text and a `ctm` without words are empty.
 */
export function renderResult(
  result: TranscriptionResult,
  format: Format,
  info?: ResultInfo,
  options: TextOptions = {},
): string {
  if (format !== "json")
    return [...textPieces(result, format, { ...(info ? { name: info.id } : {}), ...options })].join("");
  return `${JSON.stringify(info ? resultBody(info, result) : contentOf(result, "word"), null, 2)}\n`;
}

/**
 * Renders a result as HTTP sends it, in pieces. Other work of the event loop runs in between: a recording of a day has
 * 100,000 words.
 */
export async function resultPieces(
  result: TranscriptionResult,
  format: Format,
  info: ResultInfo,
  options: TextOptions = {},
): Promise<Iterable<string>> {
  if (format !== "json") return textPieces(result, format, { ...options, name: info.id });
  const body = resultBody(info, { ...result, segments: [] });
  const segments = await inSlices(result.segments, (slice) =>
    slice.map((segment) => segmentBody(segment, info.timestamps)),
  );
  return jsonPieces({ ...body, segments });
}

/** Renders a result as `renderResult` does, in pieces: other work can be done between them. */
export function textPieces(
  result: Spoken,
  format: Exclude<Format, "json">,
  options: TextOptions = {},
): Iterable<string> {
  switch (format) {
    case "txt":
      return [toText(result)];
    case "srt":
      return srtPieces(result, options);
    case "vtt":
      return vttPieces(result, options);
    case "ctm":
      return ctmPieces(result.segments, options.name);
  }
}

/**
 * Makes the body of a result on the wire (docs/interface.md section 2.3, docs/decisions/transcriptions.md). Times are
 * seconds with at most three decimals.
 */
export function resultBody(info: ResultInfo, result: TranscriptionResult) {
  const { status, ...content } = contentOf(result, info.timestamps);
  return {
    id: info.id,
    object: "transcription.result" as const,
    model: info.model,
    version: info.version,
    status,
    ...(info.task === undefined ? {} : { task: info.task }),
    mode: info.mode,
    ...(info.metadata === undefined ? {} : { metadata: info.metadata }),
    ...content,
  };
}
export type ResultBody = ReturnType<typeof resultBody>;

function contentOf(result: TranscriptionResult, timestamps: Timestamps) {
  return {
    status: result.status,
    duration_seconds: toSeconds(result.durationMs),
    channels: result.channels,
    languages: result.languages,
    text: result.text,
    segments: result.segments.map((segment) => segmentBody(segment, timestamps)),
    warnings: result.warnings,
    ...(result.gaps.length === 0 ? {} : { gaps: result.gaps.map(gapBody) }),
    ...(result.unrecognized === undefined ? {} : { unrecognized: result.unrecognized.map(spanBody) }),
    ...(result.languageCandidates === undefined
      ? {}
      : { language_candidates: result.languageCandidates.map(candidateBody) }),
    ...(result.audioTracks === undefined ? {} : { audio_tracks: tracksBody(result.audioTracks) }),
  };
}

/** Makes the body of a segment on the wire. */
function segmentBody(segment: Segment, timestamps: Timestamps) {
  const { index, startMs, endMs, text, language, confidence, speaker, channel, words, written, nativeText } =
    segment;
  return {
    index,
    ...(timestamps === "none" ? {} : { start: toSeconds(startMs), end: toSeconds(endMs) }),
    text,
    language,
    confidence: rounded(confidence),
    ...(speaker === undefined ? {} : { speaker }),
    ...(channel === undefined ? {} : { channel }),
    ...(timestamps === "word" && words ? { words: words.map(wordBody) } : {}),
    ...(written === undefined ? {} : { written }),
    ...(nativeText === undefined ? {} : { native_text: nativeText }),
  };
}

/** Writes a word as it is on the wire: seconds and confidence with at most three decimals. */
export function wordBody({ text, startMs, endMs, confidence }: Word) {
  return { text, start: toSeconds(startMs), end: toSeconds(endMs), confidence: rounded(confidence) };
}

const rounded = (share: number): number => Math.round(share * 1000) / 1000;

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
  return { language, probability: rounded(probability) };
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
function* srtPieces(
  { segments, durationMs }: Spoken,
  { subtitles = SUBTITLE_LIMITS }: TextOptions,
): Generator<string> {
  let number = 0;
  for (const cues of cuesInOrder(segments, { ...subtitles, labelOf, durationMs })) {
    const blocks = cues.map(({ startMs, endMs, lines }) => {
      number++;
      const mark = number === 1 ? "" : "\n";
      const text = lines.map((line) => srtText(textOfLine(line))).join("\n");
      return `${mark}${number}\n${clock(startMs, ",")} --> ${clock(endMs, ",")}\n${text}\n`;
    });
    yield blocks.join("");
  }
}

/** Writes WebVTT (W3C Candidate Recommendation, 4 April 2019): header, cues, voice spans. Text is escaped. */
function* vttPieces(
  { segments, durationMs }: Spoken,
  { subtitles = SUBTITLE_LIMITS, hasWordTimes = false }: TextOptions,
): Generator<string> {
  yield "WEBVTT\n";
  const labelOfChannel = ({ channel }: Segment) => channelLabel(channel);
  for (const cues of cuesInOrder(segments, { ...subtitles, labelOf: labelOfChannel, durationMs })) {
    const blocks = cues.map((cue) => {
      const { startMs, endMs, lines, speaker } = cue;
      const write = hasWordTimes ? timedLines(cue) : (line: LinePiece[]) => vttText(textOfLine(line));
      const text = lines.map(write).join("\n");
      const voiced = speaker === undefined ? text : `<v ${vttText(speaker)}>${text}</v>`;
      return `\n${clock(startMs, ".")} --> ${clock(endMs, ".")}\n${voiced}\n`;
    });
    yield blocks.join("");
  }
}

/**
 * Writes the lines of a cue with a timestamp before each word. Section 4.2.2 demands that each is later than the one before
 * and the start of the cue, and earlier than its end, so words at the start have none.
 */
function timedLines({ startMs, endMs }: Cue): (line: LinePiece[]) => string {
  let beforeMs = Math.round(startMs);
  return (line) =>
    line
      .map(({ text, isSpaced, startMs: wordMs = 0 }, index) => {
        const space = isSpaced && index > 0 ? " " : "";
        if (wordMs <= beforeMs || wordMs >= Math.round(endMs)) return space + vttText(text);
        beforeMs = wordMs;
        return `${space}<${clock(wordMs, ".")}>${vttText(text)}`;
      })
      .join("");
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
