import { open, stat } from "node:fs/promises";
import { type ChunkLimits, SPEECH_PADDING_MS } from "../domain/chunk.ts";
import { createCutter, cutLongRegions, type LevelEnvelope } from "./cut-speech.ts";
import { DECODED_BYTES_PER_SAMPLE, DECODED_SAMPLE_RATE_HZ, DecodeError } from "./decode.ts";
import type { NativeFiles } from "./native-files.ts";
import { loadSherpa, type SherpaAddon, type SherpaHandle } from "./sherpa.ts";

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

/** The net decides on 32 ms at a time. */
const WINDOW_SAMPLES = 512;
const WINDOWS_PER_BLOCK = 313;
const BLOCK_SAMPLES = WINDOWS_PER_BLOCK * WINDOW_SAMPLES;
/** sherpa-onnx takes 0 for "its default", which is far longer than a window. */
const SHORTEST_SECONDS = 0.001;
/** It keeps the sound of unbroken speech, and we do not need it: start afresh before that takes memory. */
const MAX_UNBROKEN_WINDOWS = 60 * 31;
const BUFFER_SECONDS = 64;

/**
 * Loads the Silero voice activity detector through sherpa-onnx. A crash in it takes the process down: call it in a
 * child process only.
 */
export function openVad(nativeFiles: Pick<NativeFiles, "dir" | "sherpa" | "sileroVad">): Vad {
  const addon = loadSherpa(nativeFiles);
  const idle = new Map<number, SherpaHandle[]>();
  return {
    async detectSpeech(pcmPath, options = {}) {
      const threshold = options.threshold ?? DEFAULT_SPEECH_OPTIONS.threshold;
      const ready = idle.get(threshold) ?? [];
      idle.set(threshold, ready);
      const detector = ready.pop() ?? createDetector(addon, nativeFiles.sileroVad, threshold);
      try {
        const windows = windowDetector(addon, detector);
        const { levels, take: measure } = await levelMeter(pcmPath);
        const tell = foundTeller(windows.regions, levels, options);
        const samples = await forEachWindow(
          pcmPath,
          (window) => {
            windows.take(window);
            measure(window);
          },
          { ...options, onBlock: tell },
        );
        return finishedRegions(windows.regions, samples, levels, options);
      } finally {
        ready.push(detector);
      }
    },
  };
}

/** The detector's own rules for speech and silence are switched off: `shapeRegions` has them, exact to the window. */
function createDetector(addon: SherpaAddon, model: string, threshold: number): SherpaHandle {
  const sileroVad = {
    model,
    threshold,
    minSilenceDuration: SHORTEST_SECONDS,
    minSpeechDuration: SHORTEST_SECONDS,
    windowSize: WINDOW_SAMPLES,
    // Beyond this it would raise the threshold to 0.9.
    maxSpeechDuration: BUFFER_SECONDS * 10,
  };
  const config = {
    sileroVad,
    sampleRate: DECODED_SAMPLE_RATE_HZ,
    numThreads: 1,
    provider: "cpu",
    debug: 0,
  } as const;
  return addon.createVoiceActivityDetector(config, BUFFER_SECONDS);
}

/** Runs the detector window by window. */
function windowDetector(addon: SherpaAddon, detector: SherpaHandle) {
  const tracked = trackRegions();
  let unbrokenWindows = 0;
  addon.voiceActivityDetectorReset(detector);
  return {
    take(samples: Float32Array): void {
      addon.voiceActivityDetectorAcceptWaveform(detector, samples);
      const isSpeech = addon.voiceActivityDetectorIsDetected(detector);
      if (!addon.voiceActivityDetectorIsEmpty(detector)) addon.voiceActivityDetectorClear(detector);
      tracked.take(isSpeech);
      unbrokenWindows = isSpeech ? unbrokenWindows + 1 : 0;
      if (unbrokenWindows >= MAX_UNBROKEN_WINDOWS) {
        addon.voiceActivityDetectorReset(detector);
        unbrokenWindows = 0;
      }
    },
    regions: tracked.regions,
  };
}

/** Turns the detector's answers, one for each window, into raw regions. */
export function trackRegions() {
  /** In order; the last one grows as long as speech goes on. */
  const regions: SpeechRegion[] = [];
  let window = 0;
  let current: SpeechRegion | undefined;
  const startOf = (index: number) => Math.max(0, index) * WINDOW_SAMPLES;
  return {
    regions,
    take(isSpeech: boolean): void {
      // It answers one window late, both when speech begins and when it ends.
      if (isSpeech && current === undefined) {
        const startSample = startOf(window - 1);
        current = { startSample, endSample: startSample };
        regions.push(current);
      }
      if (current !== undefined) current.endSample = startOf(isSpeech ? window + 1 : window - 1);
      if (!isSpeech) current = undefined;
      window++;
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
    take(samples: Float32Array): void {
      let power = 0;
      for (const sample of samples) power += sample * sample;
      const db = 10 * Math.log10(power / WINDOW_SAMPLES + 1e-12);
      values[window++] = Math.round(2 * (db + 120));
    },
  };
}

/** Reads the file block by block; the last window is filled up with silence. Returns the number of samples. */
async function forEachWindow(
  pcmPath: string,
  take: (samples: Float32Array) => void,
  options: SpeechOptions & { onBlock: (samples: number) => void },
): Promise<number> {
  const file = await open(pcmPath, "r");
  try {
    const total = Math.floor((await file.stat()).size / DECODED_BYTES_PER_SAMPLE);
    const block = new Int16Array(BLOCK_SAMPLES);
    const bytes = new Uint8Array(block.buffer);
    const floats = new Float32Array(BLOCK_SAMPLES);
    for (let done = 0; done < total; ) {
      if (options.signal?.aborted) throw new DecodeError("aborted", "The work was cancelled.");
      const wanted = Math.min(BLOCK_SAMPLES, total - done);
      const read = await readFully(file, bytes.subarray(0, wanted * DECODED_BYTES_PER_SAMPLE), done);
      const samples = Math.floor(read / DECODED_BYTES_PER_SAMPLE);
      if (samples === 0) break;
      floats.fill(0, samples);
      for (let index = 0; index < samples; index++) floats[index] = (block[index] ?? 0) / 32768;
      for (let start = 0; start < samples; start += WINDOW_SAMPLES) {
        take(floats.subarray(start, start + WINDOW_SAMPLES));
      }
      done += samples;
      options.onProgress?.(done / total);
      options.onBlock(done);
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
  return Math.round((milliseconds * DECODED_SAMPLE_RATE_HZ) / 1000);
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

/** The detector answers one window late; one more for a region that has begun and not been told of. */
const LATENESS_SAMPLES = 2 * WINDOW_SAMPLES;

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
    const { closed, open } = settledSpeech(raw, doneSamples - LATENESS_SAMPLES, shape);
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
