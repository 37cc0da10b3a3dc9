import { open, stat } from "node:fs/promises";
import { type ChunkLimits, SAMPLE_RATE_HZ, SPEECH_PADDING_MS } from "../domain/chunk.ts";
import { createCutter, cutLongRegions, type LevelEnvelope } from "./cut-speech.ts";
import { DECODED_BYTES_PER_SAMPLE, DecodeError } from "./decode.ts";
import type { NativeFiles } from "./native-files.ts";
import { openSilero, SILERO_WINDOW_SAMPLES as WINDOW_SAMPLES } from "./silero.ts";

/** A stretch of speech in a decoded file, in samples at 16 kHz; `startSample < endSample`. */
export type SpeechRegion = { startSample: number; endSample: number };

export type SpeechOptions = {
  /** Probability from which a window counts as speech, 0 to 1; it goes on down to 0.15 below. */
  threshold?: number;
  /** Shorter speech is taken for a click. */
  minSpeechMs?: number;
  /** A shorter silence does not end a region. */
  minSilenceMs?: number;
  /** Added before and after speech: its soft beginning and end, which the detector does not see. */
  paddingMs?: number;
  /** Of the chunks that the regions will be packed into: long regions are cut in pauses to fill them. */
  limits?: ChunkLimits;
  signal?: AbortSignal;
  /** Called after each block with the part of the file that is done, 0 to 1. */
  onProgress?: (done: number) => void;
  /** Told of regions as soon as nothing that follows can change them: the beginning of what is returned at last. */
  onFound?: (regions: SpeechRegion[]) => void;
};

/** A loaded speech detector. Several calls may run at once. */
export type Vad = {
  /**
   * Finds speech in a file of 16 kHz, 16 bit, mono samples without header, as decode.ts writes them.
   *
   * Of the file only a byte for each 32 ms stays in memory: its level. It works block by block and lets other work go on in between.
   *
   * @returns regions in order, within the file; they may touch but do not overlap
   * @throws DecodeError `aborted`
   */
  detectSpeech(pcmPath: string, options?: SpeechOptions): Promise<SpeechRegion[]>;
};

/**
 * Chosen on the labelled recordings at hand: unpadded, the detector finds the start of an utterance 0.05 s late in the
 * middle and 0.28 s at most. A lost word costs more than a little silence in a chunk.
 */
export const DEFAULT_SPEECH_OPTIONS = {
  threshold: 0.35,
  minSpeechMs: 100,
  minSilenceMs: 300,
  paddingMs: SPEECH_PADDING_MS,
};

/** 10.24 s of sound. */
const WINDOWS_PER_BLOCK = 320;
const BLOCK_SAMPLES = WINDOWS_PER_BLOCK * WINDOW_SAMPLES;
/** Speech goes on until it is this much less likely than at its beginning: Silero's own rule. */
const HYSTERESIS = 0.15;

/** Loads the Silero voice activity detector. A crash in it takes the process down: call it in a child process only. */
export function openVad(nativeFiles: Pick<NativeFiles, "silero" | "sileroWeights">): Vad {
  const silero = openSilero(nativeFiles);
  return {
    async detectSpeech(pcmPath, options = {}) {
      const listener = silero.listen();
      const tracked = trackRegions(options.threshold ?? DEFAULT_SPEECH_OPTIONS.threshold);
      const { levels, take: measure } = await levelMeter(pcmPath);
      const tell = foundTeller(tracked.regions, levels, options);
      const samples = await forEachBlock(
        pcmPath,
        (pcm, doneSamples) => {
          for (const probability of listener.probabilities(pcm)) tracked.take(probability);
          measure(pcm);
          tell(doneSamples);
        },
        options,
      );
      return finishedRegions(tracked.regions, samples, levels, options);
    },
  };
}

/** Turns the detector's probabilities, one for each window, into raw regions. */
export function trackRegions(threshold: number) {
  /** In order; the last one grows as long as speech goes on. */
  const regions: SpeechRegion[] = [];
  let startSample = 0;
  let current: SpeechRegion | undefined;
  return {
    regions,
    take(probability: number): void {
      const endSample = startSample + WINDOW_SAMPLES;
      if (current !== undefined && probability >= threshold - HYSTERESIS) {
        current.endSample = endSample;
      } else if (probability >= threshold) {
        current = { startSample, endSample };
        regions.push(current);
      } else {
        current = undefined;
      }
      startSample = endSample;
    },
  };
}

/** Half decibels above −120 dB, one byte for each window. */
async function levelMeter(pcmPath: string) {
  const { size } = await stat(pcmPath);
  const values = new Uint8Array(Math.ceil(size / DECODED_BYTES_PER_SAMPLE / WINDOW_SAMPLES));
  let window = 0;
  return {
    levels: { frameSamples: WINDOW_SAMPLES, values },
    take(pcm: Int16Array): void {
      for (let start = 0; start < pcm.length; start += WINDOW_SAMPLES) {
        let power = 0;
        for (let index = start; index < start + WINDOW_SAMPLES; index++) power += (pcm[index] ?? 0) ** 2;
        const db = 10 * Math.log10(power / WINDOW_SAMPLES / FULL_SCALE ** 2 + 1e-12);
        values[window++] = Math.round(2 * (db + 120));
      }
    },
  };
}

const FULL_SCALE = 32_768;

/**
 * Reads the file block by block, in whole windows: the last one is filled up with silence.
 *
 * @param take is called with a block, which is good until it returns, and the samples of the file up to its end
 * @returns the number of samples
 */
async function forEachBlock(
  pcmPath: string,
  take: (pcm: Int16Array, doneSamples: number) => void,
  options: SpeechOptions,
): Promise<number> {
  const file = await open(pcmPath, "r");
  try {
    const total = Math.floor((await file.stat()).size / DECODED_BYTES_PER_SAMPLE);
    const block = new Int16Array(BLOCK_SAMPLES);
    const bytes = new Uint8Array(block.buffer);
    for (let done = 0; done < total; ) {
      if (options.signal?.aborted) throw new DecodeError("aborted", "The work was cancelled.");
      const wanted = Math.min(BLOCK_SAMPLES, total - done);
      const read = await readFully(file, bytes.subarray(0, wanted * DECODED_BYTES_PER_SAMPLE), done);
      const samples = Math.floor(read / DECODED_BYTES_PER_SAMPLE);
      if (samples === 0) break;
      block.fill(0, samples);
      done += samples;
      take(block.subarray(0, Math.ceil(samples / WINDOW_SAMPLES) * WINDOW_SAMPLES), done);
      options.onProgress?.(done / total);
      await Bun.sleep(0);
    }
    return total;
  } finally {
    await file.close();
  }
}

async function readFully(
  file: Awaited<ReturnType<typeof open>>,
  target: Uint8Array,
  startSample: number,
): Promise<number> {
  let filled = 0;
  while (filled < target.length) {
    const position = startSample * DECODED_BYTES_PER_SAMPLE + filled;
    const { bytesRead } = await file.read(target, filled, target.length - filled, position);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return filled;
}

function inSamples(milliseconds: number): number {
  return Math.round((milliseconds * SAMPLE_RATE_HZ) / 1000);
}

/** Regions of a whole file, from the detector's, as they go out: shaped, and cut where they are too long for a window. */
export function finishedRegions(
  raw: readonly SpeechRegion[],
  totalSamples: number,
  levels: LevelEnvelope,
  options: SpeechOptions,
): SpeechRegion[] {
  const regions = shapeRegions(raw, totalSamples, options);
  return options.limits === undefined ? regions : cutLongRegions(regions, options.limits, levels);
}

/**
 * Tells of regions while the file is still being read.
 *
 * @param raw the detector's regions, which grow from call to call
 * @returns to be called with the samples read so far
 */
export function foundTeller(
  raw: readonly SpeechRegion[],
  levels: LevelEnvelope,
  options: SpeechOptions,
): (doneSamples: number) => void {
  const { onFound } = options;
  if (!onFound) return () => undefined;
  const shape = shapeOf(options);
  const cutter = options.limits && createCutter(options.limits, levels);
  let closedBefore = 0;
  let told = 0;
  return (doneSamples) => {
    const { closed, open } = settledSpeech(raw, doneSamples, shape);
    for (const region of closed.slice(closedBefore)) cutter?.take(region);
    closedBefore = closed.length;
    if (open) cutter?.takeBeginning(open);
    const settled = cutter?.parts ?? closed;
    if (settled.length <= told) return;
    onFound(settled.slice(told));
    told = settled.length;
  };
}

/** Of the speech in the first `doneSamples`: regions that nothing will change, and the one that may go on. */
function settledSpeech(
  raw: readonly SpeechRegion[],
  doneSamples: number,
  shape: Shape,
): { closed: SpeechRegion[]; open: SpeechRegion | undefined } {
  const speech = joinSpeech(raw, doneSamples, shape);
  // After so long nothing joins a region any more, and whatever takes room from its padding has shown that it stays.
  const quiet = Math.max(shape.minSilence, 2 * shape.padding) + shape.minSpeech + shape.minSilence;
  let count = speech.length;
  while (count > 0 && (speech[count - 1]?.endSample ?? 0) + quiet > doneSamples) count--;
  const padded = padSpeech(speech, doneSamples, shape);
  const last = count === speech.length - 1 ? padded[count] : undefined;
  // Its padding at the end is not known yet.
  const open = last && { ...last, endSample: speech[count]?.endSample ?? 0 };
  return { closed: padded.slice(0, count), open };
}

type Shape = { minSilence: number; minSpeech: number; padding: number };
type ShapeOptions = Pick<SpeechOptions, "minSpeechMs" | "minSilenceMs" | "paddingMs">;

function shapeOf(options: ShapeOptions): Shape {
  return {
    minSilence: inSamples(options.minSilenceMs ?? DEFAULT_SPEECH_OPTIONS.minSilenceMs),
    minSpeech: inSamples(options.minSpeechMs ?? DEFAULT_SPEECH_OPTIONS.minSpeechMs),
    padding: inSamples(options.paddingMs ?? DEFAULT_SPEECH_OPTIONS.paddingMs),
  };
}

/**
 * Joins regions that are close to each other, drops short ones, and pads the rest without letting them touch.
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
  return padSpeech(joinSpeech(raw, totalSamples, shape), totalSamples, shape);
}

function joinSpeech(
  raw: readonly SpeechRegion[],
  totalSamples: number,
  { minSilence, minSpeech }: Shape,
): SpeechRegion[] {
  const joined: SpeechRegion[] = [];
  for (const region of raw) {
    const endSample = Math.min(region.endSample, totalSamples);
    const last = joined.at(-1);
    if (last !== undefined && region.startSample - last.endSample < minSilence) last.endSample = endSample;
    else joined.push({ startSample: region.startSample, endSample });
  }
  return joined.filter((region) => region.endSample - region.startSample >= minSpeech);
}

function padSpeech(
  speech: readonly SpeechRegion[],
  totalSamples: number,
  { padding }: Shape,
): SpeechRegion[] {
  return speech.map(({ startSample, endSample }, index) => {
    const before = speech[index - 1]?.endSample;
    const after = speech[index + 1]?.startSample;
    // Half of the silence between two regions belongs to each at most.
    const roomBefore = before === undefined ? startSample : Math.floor((startSample - before) / 2);
    const roomAfter = after === undefined ? totalSamples - endSample : Math.floor((after - endSample) / 2);
    return {
      startSample: startSample - Math.min(padding, roomBefore),
      endSample: endSample + Math.min(padding, roomAfter),
    };
  });
}
