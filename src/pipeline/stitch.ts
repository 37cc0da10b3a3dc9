import { type ChunkRegion, SAMPLE_RATE_HZ, SPEECH_PADDING_MS } from "../domain/chunk.ts";
import type { Reading } from "../domain/reading.ts";
import type { RecognizedSegment, RecognizedWord } from "../domain/recognition.ts";
import {
  type Gap,
  type LanguageCandidate,
  type Segment,
  type SpanMs,
  type TranscriptionResult,
  type Unrecognized,
  WARNINGS,
  type Warning,
  type Word,
} from "../domain/result.ts";
import type { TranscriptionRequest } from "../domain/transcription.ts";
import { CHUNK_GAP_SAMPLES, type ChunkLayout, layoutChunk, restoreTime } from "./chunk-audio.ts";
import { divideText } from "./divide-text.ts";
import { joinedText } from "./joined-text.ts";
import { overlapMs } from "./spans.ts";
import { divideAtWords, fitWords, withWords } from "./timed-words.ts";

/** A segment without its number, which is known only when all segments are. */
export type LooseSegment = Omit<Segment, "index">;

export type StitchOptions = {
  regions: readonly ChunkRegion[];
  /** As given to `layoutChunk`. */
  gapSamples?: number;
  /** Milliseconds that the detector added on both sides of speech. The default is that of the built-in detector. */
  paddingMs?: number;
  /** Length of the recording. */
  durationMs: number;
  /** Set only with channel mode `separate`. */
  channel?: number;
};

/** A model's start that is at most this much later than the detector's is replaced by it. */
const SNAP_MS = 300;
/**
 * Likely starts and ends of speech relative to the detector's own times, as shares of its padding. Measured on 50
 * labelled utterances: the detector finds a start 46 ms late (median; 95 %: 260 ms), never early, and an end 82 ms
 * late. A model's start may therefore be at most half the padding before the detector's start. Where only the
 * detector's start is known, a quarter of the padding before it is the best estimate.
 */
const EARLIEST_START = 1 / 2;
const LIKELY_START = 1 / 4;
const LATEST_END = 1 / 3;
/** Less speech than this at the edge of a segment is an inaccuracy of the model's times. */
const SLACK_MS = 150;
/** A segment over a pause of at least this length is divided. */
const SPLIT_PAUSE_MS = 1_500;
/** Length of a segment whose end is not after its start. */
const SHORTEST_MS = 20;

/**
 * Converts a chunk's segments to times of the recording.
 *
 * - Times are restored through the chunk's layout, then moved to speech. A start in silence, in the last instants of
 *   speech before a pause, or shortly after the beginning of speech is moved to that beginning. An end in silence is
 *   moved to the end of the speech before it. Times within speech are kept.
 * - A segment over a pause of 1.5 s or more is divided there. Its words are divided in proportion to the speech on both
 *   sides, at the nearest word boundary, preferably after a sentence. A single word goes to the side with more speech.
 * - Words with times keep the times that the model measured. A segment with words is divided at the words, by their times. The part
 *   of a word in a pause is cut off, and so is up to half of a word outside its segment; for more the segment is widened.
 * - Times are whole milliseconds, rise, do not overlap, and `start < end ≤ durationMs`.
 *
 * Segments without text are left out.
 */
export function stitchChunk(
  recognized: readonly RecognizedSegment[],
  options: StitchOptions,
): LooseSegment[] {
  const layout = layoutChunk(options.regions, options.gapSamples ?? CHUNK_GAP_SAMPLES);
  const speech = withoutPadding(options);
  const segments: LooseSegment[] = [];
  let previousEndMs = 0;
  for (const segment of recognized) {
    const text = segment.text.trim();
    if (text === "") continue;
    const restored = {
      startMs: restoreTime(layout, segment.startMs, "start"),
      endMs: restoreTime(layout, segment.endMs, "end"),
    };
    const words = segment.words?.map((word) => restoreWord(word, layout, speech));
    const span = around(snapToSpeech(restored, speech, previousEndMs), words);
    for (const part of splitAtPauses({ ...span, text, ...(words ? { words } : {}) }, speech)) {
      segments.push({
        ...part,
        language: segment.language,
        confidence: segment.confidence,
        ...(options.channel === undefined ? {} : { channel: options.channel }),
      });
    }
    previousEndMs = Math.max(previousEndMs, span.endMs);
  }
  return straighten(segments, options.durationMs);
}

/** Speech between the detector's own times, and the padding in which speech may also be. */
type Speech = SpanMs & { paddingMs: { start: number; end: number } };

/** Removes the padding of regions. Edges where two regions met or speech was cut, and the recording's ends, have none. */
function withoutPadding({ regions, paddingMs = SPEECH_PADDING_MS, durationMs }: StitchOptions): Speech[] {
  return regions.map(({ startSample, endSample, isCutAtStart, isCutAtEnd }, index) => {
    const startMs = (startSample * 1000) / SAMPLE_RATE_HZ;
    const endMs = (endSample * 1000) / SAMPLE_RATE_HZ;
    const most = Math.min(paddingMs, (endMs - startMs) / 3);
    const before = startSample - (regions[index - 1]?.endSample ?? 0);
    const after = (regions[index + 1]?.startSample ?? Number.POSITIVE_INFINITY) - endSample;
    // Two regions that share a silence each get half of it, rounded down, so one sample may be between them.
    const isOpenBefore = before > 1 && !isCutAtStart;
    const isOpenAfter = after > 1 && endMs < durationMs && !isCutAtEnd;
    const padding = { start: isOpenBefore ? most : 0, end: isOpenAfter ? most : 0 };
    return { startMs: startMs + padding.start, endMs: endMs - padding.end, paddingMs: padding };
  });
}

function likelyStart({ startMs, paddingMs }: Speech): number {
  return startMs - LIKELY_START * paddingMs.start;
}

/** Moves a span to the speech that it overlaps. A span that overlaps none is unchanged. */
function snapToSpeech(span: SpanMs, speech: readonly Speech[], previousEndMs: number): SpanMs {
  const covers = speech.filter((s) => overlapMs(s, span) > 0);
  const isMore = (s: Speech) => overlapMs(s, span) >= SLACK_MS;
  const first = covers.find(isMore) ?? covers[0];
  const last = covers.findLast(isMore) ?? covers.at(-1);
  if (!first || !last) return span;
  const earliestMs = first.startMs - EARLIEST_START * first.paddingMs.start;
  const latestMs = last.endMs + LATEST_END * last.paddingMs.end;
  const lateMs = span.startMs - first.startMs;
  // Without padding it is unknown how much silence the beginning of the region contains.
  const isKnown = first.paddingMs.start > 0;
  const isLate = isKnown && lateMs > 0 && lateMs <= SNAP_MS && previousEndMs <= first.startMs;
  return {
    startMs: isLate ? first.startMs : Math.max(span.startMs, earliestMs),
    endMs: Math.min(span.endMs, latestMs),
  };
}

/** Returns a word on the recording's clock. Of a word over a pause, the part with more speech is kept. */
function restoreWord(word: RecognizedWord, layout: ChunkLayout, speech: readonly Speech[]): Word {
  const span = {
    startMs: restoreTime(layout, word.startMs, "start"),
    endMs: restoreTime(layout, word.endMs, "end"),
  };
  const heard = speech.filter((region) => overlapMs(region, span) > 0);
  if (heard.length === 0) return { ...word, ...span };
  const most = heard.reduce((best, region) =>
    overlapMs(region, span) > overlapMs(best, span) ? region : best,
  );
  const startMs = Math.max(span.startMs, most.startMs - most.paddingMs.start);
  return { ...word, startMs, endMs: Math.min(span.endMs, most.endMs + most.paddingMs.end) };
}

/**
 * Widens a span that would cut off more than half of its first or last word: where speech begins and ends is estimated, and words
 * are measured.
 */
function around<Span extends SpanMs>(span: Span, words: readonly Word[] = []): Span {
  const [first, last] = [words[0], words.at(-1)];
  if (!first || !last) return span;
  const isLate = first.endMs - span.startMs < (first.endMs - first.startMs) / 2;
  const isEarly = span.endMs - last.startMs < (last.endMs - last.startMs) / 2;
  return {
    ...span,
    ...(isLate ? { startMs: Math.min(span.startMs, first.startMs) } : {}),
    ...(isEarly ? { endMs: Math.max(span.endMs, last.endMs) } : {}),
  };
}

/** A segment's time, text, and words with times. */
type TimedText = SpanMs & { text: string; words?: Word[] };

/**
 * Divides a segment at long pauses, so that no part spans one. Where there are fewer words than parts, the shortest
 * have none.
 */
function splitAtPauses(segment: TimedText, speech: readonly Speech[]): TimedText[] {
  const runs: (SpanMs & { speechMs: number })[] = [];
  for (const region of speech) {
    const speechMs = overlapMs(region, segment);
    if (speechMs === 0) continue;
    const startMs = runs.length === 0 ? segment.startMs : likelyStart(region);
    const endMs = Math.min(region.endMs, segment.endMs);
    const run = runs.at(-1);
    if (run && startMs - run.endMs < SPLIT_PAUSE_MS) {
      run.endMs = endMs;
      run.speechMs += speechMs;
    } else {
      runs.push({ startMs, endMs, speechMs });
    }
  }
  const lastRun = runs.at(-1);
  if (runs.length < 2 || !lastRun) return [segment];
  lastRun.endMs = segment.endMs;
  if (segment.words) return partsByWords(segment.text, segment.words, runs);
  const told = withMostSpeech(runs, segment.text.split(/\s+/u).length);
  const texts = divideText(
    segment.text,
    told.map(({ speechMs }) => speechMs),
  );
  return told.map(({ startMs, endMs }, index) => ({ startMs, endMs, text: texts[index] ?? "" }));
}

/** Gives each word to the run in which its middle is, or which is nearest to that. Runs without words are left out. */
function partsByWords(text: string, words: readonly Word[], runs: readonly SpanMs[]): TimedText[] {
  const distance = (run: SpanMs, atMs: number) => Math.max(run.startMs - atMs, atMs - run.endMs, 0);
  const runOf = ({ startMs, endMs }: Word) => {
    const middle = (startMs + endMs) / 2;
    return runs.reduce((best, run) => (distance(run, middle) < distance(best, middle) ? run : best));
  };
  return divideAtWords(text, words, runOf).map(({ owner: { startMs, endMs }, ...part }, index, parts) => {
    const { startMs: nextMs = endMs } = parts[index + 1]?.words[0] ?? {};
    return around({ ...part, startMs, endMs: Math.min(endMs, nextMs) }, part.words);
  });
}

/** Returns the runs with the most speech, in order: as many as there are words for. */
function withMostSpeech<R extends { speechMs: number }>(runs: readonly R[], count: number): readonly R[] {
  if (count >= runs.length) return runs;
  const longest = new Set(runs.toSorted((a, b) => b.speechMs - a.speechMs).slice(0, count));
  return runs.filter((run) => longest.has(run));
}

/** Rounds times to whole milliseconds that rise, do not overlap and are within the recording. */
function straighten(segments: LooseSegment[], durationMs: number): LooseSegment[] {
  const limitMs = Math.floor(durationMs);
  const straight: LooseSegment[] = [];
  for (const segment of segments) {
    const previous = straight.at(-1);
    const startMs = Math.max(Math.round(segment.startMs), previous?.endMs ?? 0);
    if (previous && startMs >= limitMs) {
      Object.assign(previous, joinedTexts(previous, segment));
      continue;
    }
    const endMs = Math.min(Math.max(Math.round(segment.endMs), startMs + SHORTEST_MS), limitMs);
    straight.push({
      ...segment,
      startMs: Math.min(startMs, Math.max(0, limitMs - 1)),
      endMs: Math.max(endMs, 1),
    });
  }
  return straight.map((segment) => withWords(segment, fitWords(segment.words, segment)));
}

/** Joins the texts of two segments with what is known of them, and their words where both have times. */
function joinedTexts(one: LooseSegment, next: LooseSegment) {
  const words = one.words && next.words ? [...one.words, ...next.words] : undefined;
  const before = `${one.text} `.length;
  const moved = next.written?.map(({ start, end, ...rest }) => ({
    ...{ start: before + start, end: before + end },
    ...rest,
  }));
  const isNative = one.nativeText === undefined && next.nativeText === undefined;
  return {
    text: `${one.text} ${next.text}`,
    words,
    ...(one.written || moved ? { written: [...(one.written ?? []), ...(moved ?? [])] } : {}),
    ...(isNative ? {} : { nativeText: `${one.nativeText ?? one.text} ${next.nativeText ?? next.text}` }),
  };
}

export type AssembleInput = {
  /** Segments of all chunks and channels, in any order, with wording and speakers applied. */
  segments: readonly LooseSegment[];
  gaps: readonly Gap[];
  /** Warnings of the recording and of its chunks, in any order, with repetitions. */
  warnings: readonly Warning[];
  durationMs: number;
  /** Channels of the recording. */
  channels: number;
  request: Pick<TranscriptionRequest, "channelMode"> & Partial<Pick<TranscriptionRequest, "timestamps">>;
  /** How the file was read, where it has several audio tracks. */
  reading?: Reading;
  /** Speech whose words are unknown, in any order. */
  unrecognized?: readonly Unrecognized[];
  /** Set where another language is spoken than the request says. */
  languageCandidates?: LanguageCandidate[];
};

/**
 * A result whose segments have a lower mean confidence gets the warning `low_confidence`
 * (docs/decisions/transcriptions.md).
 */
export const LOW_CONFIDENCE = 0.4;

/**
 * Assembles the result of a transcription (docs/decisions/transcriptions.md, "Result").
 *
 * Adds `no_speech` when there is neither a segment nor a gap, `low_confidence` when the mean of the segments'
 * confidences is below 0.4, and `word_times_missing` when word times were asked for and a segment has none. Drops segments with an empty text. Each warning occurs once, in the order of `WARNINGS`.
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
  if (request.timestamps === "word" && segments.some(({ words }) => !words)) found.add("word_times_missing");
  const { track, leftOut = [] } = input.reading ?? {};
  const hasLeftOut = track !== undefined && leftOut.length > 0;
  if (hasLeftOut) found.add("tracks_left_out");
  const unrecognized = (input.unrecognized ?? []).map((span) => ({
    ...span,
    endMs: Math.min(span.endMs, Math.floor(durationMs)),
  }));
  const { languageCandidates } = input;
  if (unrecognized.length > 0) found.add("unrecognized_speech");
  if (languageCandidates) found.add("language_mismatch");
  return {
    status: gaps.length > 0 ? "partial" : "completed",
    durationMs,
    channels,
    languages: [...new Set(segments.map(({ language }) => language))],
    text: joinedText(segments, request.channelMode === "separate"),
    segments,
    warnings: WARNINGS.filter((warning) => found.has(warning)),
    gaps,
    ...(hasLeftOut ? { audioTracks: { transcribed: track, leftOut } } : {}),
    ...(unrecognized.length > 0 ? { unrecognized: unrecognized.sort(byTime) } : {}),
    ...(languageCandidates ? { languageCandidates } : {}),
  };
}

function byTime(a: { startMs: number; channel?: number }, b: { startMs: number; channel?: number }): number {
  return a.startMs - b.startMs || (a.channel ?? 0) - (b.channel ?? 0);
}

/**
 * Removes overlaps between the segments of a channel. A short segment at the end of a chunk may reach some milliseconds
 * into the next chunk. It then ends where the next segment begins.
 */
function keepApart(sorted: readonly LooseSegment[]): LooseSegment[] {
  const lastOfChannel = new Map<number, LooseSegment>();
  const apart: LooseSegment[] = [];
  for (const segment of sorted) {
    const channel = segment.channel ?? 0;
    const previous = lastOfChannel.get(channel);
    if (previous && previous.startMs === segment.startMs) {
      Object.assign(previous, joinedTexts(previous, segment));
      previous.endMs = Math.max(previous.endMs, segment.endMs);
      continue;
    }
    if (previous) previous.endMs = Math.min(previous.endMs, segment.startMs);
    const own = { ...segment };
    lastOfChannel.set(channel, own);
    apart.push(own);
  }
  return apart.map((segment) => withWords(segment, fitWords(segment.words, segment)));
}
