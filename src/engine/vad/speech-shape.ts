import { type ChunkLimits, SAMPLE_RATE_HZ, SPEECH_PADDING_MS } from "../../domain/chunk.ts";
import type { SpeechRegion } from "../../domain/speech.ts";
import { createCutter, cutLongRegions, type LevelEnvelope } from "./cut-speech.ts";

export type ShapeOptions = {
  /** Shorter speech counts as a click and is dropped. */
  minSpeechMs?: number;
  /** A shorter silence does not end a region. */
  minSilenceMs?: number;
  /** Added before and after speech, for its soft beginning and end, which the detector misses. */
  paddingMs?: number;
  /** Limits of the chunks that will hold the regions: long regions are cut in pauses to fill chunks. */
  limits?: ChunkLimits;
};

/**
 * Chosen on labelled recordings: without padding, the detector finds the beginning of an utterance 0.05 s late in the
 * median and 0.28 s at most.
 */
const DEFAULTS = { minSpeechMs: 100, minSilenceMs: 300, paddingMs: SPEECH_PADDING_MS };

/** The lengths of `ShapeOptions` in samples. */
type Shape = { minSilence: number; minSpeech: number; padding: number };

function shapeOf({
  minSilenceMs = DEFAULTS.minSilenceMs,
  minSpeechMs = DEFAULTS.minSpeechMs,
  paddingMs = DEFAULTS.paddingMs,
}: ShapeOptions): Shape {
  return {
    minSilence: inSamples(minSilenceMs),
    minSpeech: inSamples(minSpeechMs),
    padding: inSamples(paddingMs),
  };
}

function inSamples(milliseconds: number): number {
  return Math.round((milliseconds * SAMPLE_RATE_HZ) / 1000);
}

/**
 * Makes the regions of a whole file from the detector's: shapes them, and cuts those that are too long for a chunk.
 *
 * @param raw the detector's regions, in order
 * @param totalSamples length of the file
 */
export function finishedRegions(
  raw: readonly SpeechRegion[],
  totalSamples: number,
  levels: LevelEnvelope,
  options: ShapeOptions,
): SpeechRegion[] {
  const regions = shapeRegions(raw, totalSamples, options);
  return options.limits === undefined ? regions : cutLongRegions(regions, options.limits, levels);
}

/**
 * Reports regions while the file is still being read. What it reports is a beginning of what `finishedRegions` returns
 * at the end. Its work is linear in the number of the detector's regions and of calls.
 *
 * @param raw the detector's regions, which grow from call to call
 * @param onFound receives the next regions; without it nothing is computed
 * @returns a function to call with the number of samples read so far
 */
export function foundReporter(
  raw: readonly SpeechRegion[],
  levels: LevelEnvelope,
  options: ShapeOptions,
  onFound: ((regions: SpeechRegion[]) => void) | undefined,
): (doneSamples: number) => void {
  if (!onFound) return () => undefined;
  const shape = shapeOf(options);
  const cutter = options.limits && createCutter(options.limits, levels);
  const join = createJoiner(raw, shape);
  const closed: SpeechRegion[] = [];
  let reported = 0;
  return (doneSamples) => {
    const speech = join(doneSamples);
    const count = countSettled(speech, doneSamples, shape);
    while (closed.length < count) {
      const region = padAt(speech, closed.length, doneSamples, shape);
      closed.push(region);
      cutter?.take(region);
    }
    const open = count === speech.length - 1 ? speech[count] : undefined;
    // The padding at its end is not known yet.
    if (open)
      cutter?.takeBeginning({ ...padAt(speech, count, doneSamples, shape), endSample: open.endSample });
    const settled = cutter?.parts ?? closed;
    if (settled.length <= reported) return;
    onFound(settled.slice(reported));
    reported = settled.length;
  };
}

/** Counts the regions in the first `doneSamples` samples that nothing can change any more. */
function countSettled(speech: readonly SpeechRegion[], doneSamples: number, shape: Shape): number {
  // After this much silence nothing is joined to a region any more, and a region that could shorten its padding is
  // long enough not to be dropped.
  const quiet = Math.max(shape.minSilence, 2 * shape.padding) + shape.minSpeech + shape.minSilence;
  let count = speech.length;
  while (count > 0 && (speech[count - 1]?.endSample ?? 0) + quiet > doneSamples) count--;
  return count;
}

/**
 * Joins regions that are close to each other, drops short ones, and pads the rest without overlaps.
 *
 * @param raw regions as detected, in order
 * @param totalSamples length of the recording, where the last region is clipped
 */
export function shapeRegions(
  raw: readonly SpeechRegion[],
  totalSamples: number,
  options: ShapeOptions = {},
): SpeechRegion[] {
  const shape = shapeOf(options);
  const speech = createJoiner(raw, shape)(totalSamples);
  return speech.map((_, index) => padAt(speech, index, totalSamples, shape));
}

/**
 * Joins regions that are close to each other, and drops short ones.
 *
 * @param raw the detector's regions, which may grow from call to call: more regions, and a later end of the last one
 * @returns a function that returns the joined regions of the first `doneSamples` samples, always in the same array. Only
 *   the last region may differ in a later call. Each call reads only what is new.
 */
function createJoiner(
  raw: readonly SpeechRegion[],
  { minSilence, minSpeech }: Shape,
): (doneSamples: number) => readonly SpeechRegion[] {
  const joined: SpeechRegion[] = [];
  let taken = 0;
  let last: SpeechRegion | undefined;
  const keepLast = () => {
    if (last && last.endSample - last.startSample >= minSpeech) joined.push(last);
  };
  return (doneSamples) => {
    if (joined.at(-1) === last) joined.pop();
    const grown = raw[taken - 1];
    if (last && grown) last.endSample = Math.min(grown.endSample, doneSamples);
    for (; taken < raw.length; taken++) {
      const region = raw[taken];
      if (!region) break;
      const endSample = Math.min(region.endSample, doneSamples);
      if (last && region.startSample - last.endSample < minSilence) {
        last.endSample = endSample;
      } else {
        keepLast();
        last = { startSample: region.startSample, endSample };
      }
    }
    keepLast();
    return joined;
  };
}

/** Pads a region without overlaps. */
function padAt(
  speech: readonly SpeechRegion[],
  index: number,
  totalSamples: number,
  { padding }: Shape,
): SpeechRegion {
  const { startSample, endSample } = speech[index] ?? { startSample: 0, endSample: 0 };
  const before = speech[index - 1]?.endSample;
  const after = speech[index + 1]?.startSample;
  // Two regions share the silence between them, half of it each.
  const freeBefore = before === undefined ? startSample : Math.floor((startSample - before) / 2);
  const freeAfter = after === undefined ? totalSamples - endSample : Math.floor((after - endSample) / 2);
  return {
    startSample: startSample - Math.min(padding, freeBefore),
    endSample: endSample + Math.min(padding, freeAfter),
  };
}
