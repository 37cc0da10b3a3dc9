import { type ChunkRegion, SAMPLE_RATE_HZ, SPEECH_PADDING_MS } from "../domain/chunk.ts";
import type { RecognizedSegment } from "../domain/recognition.ts";
import {
  type Gap,
  type Segment,
  type TranscriptionResult,
  WARNINGS,
  type Warning,
} from "../domain/result.ts";
import type { TranscriptionRequest } from "../domain/transcription.ts";
import { CHUNK_GAP_SAMPLES, layoutChunk, restoreTime } from "./chunk-audio.ts";
import { divideText } from "./divide-text.ts";

/** A segment before the whole transcript is known, and with it its position. */
export type LooseSegment = Omit<Segment, "index">;

export type StitchOptions = {
  regions: readonly ChunkRegion[];
  /** As given to `layoutChunk`. */
  gapSamples?: number;
  /** What the detector added on both sides of speech; the default is that of the program's own. */
  paddingMs?: number;
  /** Of the recording, milliseconds. */
  durationMs: number;
  /** Only with channel mode `separate`. */
  channel?: number;
};

/** A decoder's start this close behind the detector's means that one. */
const SNAP_MS = 300;
/**
 * Where speech is likely to begin and end, seen from the detector's own times, as shares of its padding. Measured on
 * 50 labelled utterances: it sees a start 46 ms late (median; 95 %: 260 ms), never early, and an end 82 ms late. So a
 * decoder that says "at once" is taken to mean half the padding before the detector's start, and where there is only
 * the detector, a quarter is the best guess.
 */
const EARLIEST_START = 1 / 2;
const LIKELY_START = 1 / 4;
const LATEST_END = 1 / 3;
/** Less speech than this at the edge of a segment is slack of the decoder's times, not speech of that segment. */
const SLACK_MS = 150;
/** A segment that bridges a pause of at least this length is two segments. */
const SPLIT_PAUSE_MS = 1_500;
/** What a segment lasts whose times have collapsed. */
const SHORTEST_MS = 20;

type Span = { startMs: number; endMs: number };

/**
 * Puts a chunk's segments on the recording's clock.
 *
 * - Times are restored through the chunk's layout, then moved to the speech they belong to: a start that lies in
 *   silence, in the last instants of speech before a pause, or just behind the beginning of speech becomes that
 *   beginning; an end in silence becomes the end of the speech before it. Within speech the decoder's own times stand.
 * - A segment over a pause of 1.5 s or more is divided there. Its words are shared out in proportion to the speech on
 *   both sides, at the nearest word boundary, a sentence's end preferred; with a single word it stays whole.
 * - Times are whole milliseconds, rise, do not overlap, and `start < end ≤ durationMs`.
 *
 * Segments without text are left out.
 */
export function stitchChunk(decoded: readonly RecognizedSegment[], options: StitchOptions): LooseSegment[] {
  const layout = layoutChunk(options.regions, options.gapSamples ?? CHUNK_GAP_SAMPLES);
  const speech = withoutPadding(options);
  const segments: LooseSegment[] = [];
  let previousEndMs = 0;
  for (const segment of decoded) {
    const text = segment.text.trim();
    if (text === "") continue;
    const restored = {
      startMs: restoreTime(layout, segment.startMs, "start"),
      endMs: restoreTime(layout, segment.endMs, "end"),
    };
    const span = snapToSpeech(restored, speech, previousEndMs);
    for (const part of splitAtPauses({ ...span, text }, speech)) {
      segments.push({
        startMs: part.startMs,
        endMs: part.endMs,
        text: part.text,
        language: segment.language,
        confidence: segment.confidence,
        ...(options.channel === undefined ? {} : { channel: options.channel }),
      });
    }
    previousEndMs = Math.max(previousEndMs, span.endMs);
  }
  return straighten(segments, options.durationMs);
}

/** Speech as the detector saw it, and how far around it speech may really reach. */
type Speech = Span & { paddingMs: { start: number; end: number } };

/** The padding is less where two regions met, at cuts and at the recording's ends; there the region is taken as it is. */
function withoutPadding({ regions, paddingMs = SPEECH_PADDING_MS, durationMs }: StitchOptions): Speech[] {
  return regions.map(({ startSample, endSample, isCutAtStart, isCutAtEnd }, index) => {
    const startMs = (startSample * 1000) / SAMPLE_RATE_HZ;
    const endMs = (endSample * 1000) / SAMPLE_RATE_HZ;
    const most = Math.min(paddingMs, (endMs - startMs) / 3);
    const before = startSample - (regions[index - 1]?.endSample ?? 0);
    const after = (regions[index + 1]?.startSample ?? Number.POSITIVE_INFINITY) - endSample;
    // Half of the silence to each is rounded down, which leaves a sample between them.
    const isOpenBefore = before > 1 && !isCutAtStart;
    const isOpenAfter = after > 1 && endMs < durationMs && !isCutAtEnd;
    const padding = { start: isOpenBefore ? most : 0, end: isOpenAfter ? most : 0 };
    return { startMs: startMs + padding.start, endMs: endMs - padding.end, paddingMs: padding };
  });
}

function likelyStart({ startMs, paddingMs }: Speech): number {
  return startMs - LIKELY_START * paddingMs.start;
}

/** The span moved to the speech that it overlaps; unchanged where it overlaps none. */
function snapToSpeech(span: Span, speech: readonly Speech[], previousEndMs: number): Span {
  const covers = speech.filter((s) => overlapMs(s, span) > 0);
  const isMore = (s: Speech) => overlapMs(s, span) >= SLACK_MS;
  const first = covers.find(isMore) ?? covers[0];
  const last = covers.findLast(isMore) ?? covers.at(-1);
  if (!first || !last) return span;
  const earliestMs = first.startMs - EARLIEST_START * first.paddingMs.start;
  const latestMs = last.endMs + LATEST_END * last.paddingMs.end;
  const lateMs = span.startMs - first.startMs;
  // Where two regions met, nobody knows how much of the first one's beginning is silence.
  const isKnown = first.paddingMs.start > 0;
  const isLate = isKnown && lateMs > 0 && lateMs <= SNAP_MS && previousEndMs <= first.startMs;
  return {
    startMs: isLate ? first.startMs : Math.max(span.startMs, earliestMs),
    endMs: Math.min(span.endMs, latestMs),
  };
}

function overlapMs(a: Span, b: Span): number {
  return Math.max(0, Math.min(a.endMs, b.endMs) - Math.max(a.startMs, b.startMs));
}

type TimedText = Span & { text: string };

function splitAtPauses(segment: TimedText, speech: readonly Speech[]): TimedText[] {
  const runs: (Span & { speechMs: number })[] = [];
  for (const region of speech) {
    const heardMs = overlapMs(region, segment);
    if (heardMs === 0) continue;
    const startMs = runs.length === 0 ? segment.startMs : likelyStart(region);
    const endMs = Math.min(region.endMs, segment.endMs);
    const run = runs.at(-1);
    if (run && startMs - run.endMs < SPLIT_PAUSE_MS) {
      run.endMs = endMs;
      run.speechMs += heardMs;
    } else {
      runs.push({ startMs, endMs, speechMs: heardMs });
    }
  }
  const lastRun = runs.at(-1);
  if (runs.length < 2 || !lastRun) return [segment];
  lastRun.endMs = segment.endMs;
  const texts = divideText(
    segment.text,
    runs.map(({ speechMs }) => speechMs),
  );
  const parts = runs.map(({ startMs, endMs }, index) => ({ startMs, endMs, text: texts[index] ?? "" }));
  return parts.some(({ text }) => text === "") ? [segment] : parts;
}

/** Whole milliseconds, rising, without overlap, within the recording. */
function straighten(segments: LooseSegment[], durationMs: number): LooseSegment[] {
  const limitMs = Math.floor(durationMs);
  const straight: LooseSegment[] = [];
  for (const segment of segments) {
    const previous = straight.at(-1);
    const startMs = Math.max(Math.round(segment.startMs), previous?.endMs ?? 0);
    if (previous && startMs >= limitMs) {
      previous.text = `${previous.text} ${segment.text}`;
      continue;
    }
    const endMs = Math.min(Math.max(Math.round(segment.endMs), startMs + SHORTEST_MS), limitMs);
    straight.push({
      ...segment,
      startMs: Math.min(startMs, Math.max(0, limitMs - 1)),
      endMs: Math.max(endMs, 1),
    });
  }
  return straight;
}

export type AssembleInput = {
  /** Of all chunks and channels, in any order, wording applied, speakers joined. */
  segments: readonly LooseSegment[];
  gaps: readonly Gap[];
  /** From preparation and from chunks, in any order, also repeated. */
  warnings: readonly Warning[];
  durationMs: number;
  /** Channels of the recording. */
  channels: number;
  request: Pick<TranscriptionRequest, "channelMode">;
};

/**
 * Below this mean of the segments' confidences the whole result is marked `low_confidence` (docs/decisions.md
 * section 4).
 */
export const LOW_CONFIDENCE = 0.4;

/**
 * The result of a transcription from all that its chunks came to (docs/decisions.md section 4, "Result").
 *
 * `no_speech` is added when there is neither a segment nor a gap, `low_confidence` when the plain mean of the
 * segments' confidences is below 0.4. Segments whose text the wording left empty are dropped. Warnings stand once each, in the order of `WARNINGS`.
 */
export function assembleResult(input: AssembleInput): TranscriptionResult {
  const { durationMs, channels, request } = input;
  const spoken = input.segments.filter(({ text }) => text !== "").toSorted(byTime);
  const segments = keepApart(spoken).map((segment, index) => ({ index, ...segment }));
  const gaps = input.gaps.toSorted(byTime);
  const found = new Set(input.warnings);
  if (segments.length === 0 && gaps.length === 0) found.add("no_speech");
  if (segments.length > 0) {
    const mean = segments.reduce((sum, { confidence }) => sum + confidence, 0) / segments.length;
    if (mean < LOW_CONFIDENCE) found.add("low_confidence");
  }
  return {
    status: gaps.length > 0 ? "partial" : "completed",
    durationMs,
    channels,
    languages: [...new Set(segments.map(({ language }) => language))],
    text: joinText(segments, request.channelMode === "separate"),
    segments,
    warnings: WARNINGS.filter((warning) => found.has(warning)),
    gaps,
  };
}

/**
 * The transcript in one text: the segments joined by a space; with channels apart, one line a segment, which begins
 * with `[channel 0] `, counted like the segments' `channel`.
 */
function joinText(segments: readonly Segment[], isSeparate: boolean): string {
  if (!isSeparate) return segments.map(({ text }) => text).join(" ");
  return segments.map(({ channel, text }) => `[channel ${channel ?? 0}] ${text}`).join("\n");
}

function byTime(a: { startMs: number; channel?: number }, b: { startMs: number; channel?: number }): number {
  return a.startMs - b.startMs || (a.channel ?? 0) - (b.channel ?? 0);
}

/**
 * Chunks of a channel are stitched one by one, and a short segment at the end of one may reach some milliseconds into
 * the next: it ends where that begins.
 */
function keepApart(sorted: readonly LooseSegment[]): LooseSegment[] {
  const lastOfChannel = new Map<number, LooseSegment>();
  const apart: LooseSegment[] = [];
  for (const segment of sorted) {
    const channel = segment.channel ?? 0;
    const previous = lastOfChannel.get(channel);
    if (previous && previous.startMs === segment.startMs) {
      previous.text = `${previous.text} ${segment.text}`;
      previous.endMs = Math.max(previous.endMs, segment.endMs);
      continue;
    }
    if (previous) previous.endMs = Math.min(previous.endMs, segment.startMs);
    const own = { ...segment };
    lastOfChannel.set(channel, own);
    apart.push(own);
  }
  return apart;
}
