import { open, stat } from "node:fs/promises";
import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import type { SpeechRegion } from "../../domain/speech.ts";
import { PCM_BYTES_PER_SAMPLE, PCM_FULL_SCALE, readPcm } from "../../native/decoder/pcm-file.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import {
  openSilero,
  SUMS_PER_WINDOW,
  SILERO_WINDOW_SAMPLES as WINDOW_SAMPLES,
} from "../../native/silero/silero.ts";
import { DecodeError } from "../audio/decode-failure.ts";
import { offsetRemover, type SampleSums } from "../audio/offset.ts";
import type { LevelEnvelope } from "./cut-speech.ts";
import { finishedRegions, foundReporter, type ShapeOptions } from "./speech-shape.ts";

export type SpeechOptions = ShapeOptions & {
  /** Probability from which a window counts as speech, 0 to 1. Speech continues down to 0.15 below. */
  threshold?: number;
  signal?: AbortSignal;
  /** Receives regions as soon as nothing that follows can change them, in order: a beginning of the whole result. */
  onFound?: (regions: SpeechRegion[]) => void;
};

/** A loaded speech detector. Several calls may run at once. */
export type Vad = {
  /**
   * Finds speech in a file of decoded audio (pcm-file.ts), block by block. Other work of the process runs between two
   * blocks. Of the file only one byte for each 32 ms stays in memory: its level.
   *
   * @returns regions in order, within the file; they may touch but do not overlap
   * @throws DecodeError `aborted`
   */
  detectSpeech(pcmPath: string, options?: SpeechOptions): Promise<SpeechRegion[]>;
};

/** Chosen, as the lengths in speech-shape.ts are, on labelled recordings: a lost word costs more than some silence. */
const DEFAULT_THRESHOLD = 0.35;

/** 10.24 s of sound. */
const WINDOWS_PER_BLOCK = 320;
const BLOCK_SAMPLES = WINDOWS_PER_BLOCK * WINDOW_SAMPLES;
/** 2.05 s. After such a stretch without speech the net begins again. */
const STRETCH_SAMPLES = 64 * WINDOW_SAMPLES;
/** Speech continues until its probability is this much below the threshold: Silero's own rule. */
const HYSTERESIS = 0.15;

/**
 * Loads the Silero voice activity detector. Native code may crash, so this belongs in a worker process.
 *
 * @throws Error when the library or its weights cannot be used
 */
export function openVad(nativeFiles: Pick<NativeFiles, "silero" | "sileroWeights">): Vad {
  const silero = openSilero(nativeFiles);
  return {
    async detectSpeech(pcmPath, options = {}) {
      let listener = silero.listen();
      const { threshold = DEFAULT_THRESHOLD } = options;
      const tracked = trackRegions(threshold);
      const meter = await openLevelMeter(pcmPath);
      const report = foundReporter(tracked.regions, meter.levels, options, options.onFound);
      const removeOffset = offsetRemover(SAMPLE_RATE_HZ);
      const takeBlock = (pcm: Int16Array, doneSamples: number) => {
        const sums = silero.sums(pcm);
        const hasChanged = removeOffset(pcm, totalOf(sums));
        for (let at = 0; at < pcm.length; at += STRETCH_SAMPLES) {
          const probabilities = listener.probabilities(pcm.subarray(at, at + STRETCH_SAMPLES));
          for (const probability of probabilities) tracked.take(probability);
          // After a minute of noise the net takes the speech that follows for more of it, unless it forgets the noise.
          if (probabilities.every((p) => p < threshold - HYSTERESIS)) listener = silero.listen();
        }
        meter.take(hasChanged ? silero.sums(pcm) : sums);
        report(doneSamples);
      };
      const samples = await forEachBlock(pcmPath, takeBlock, options.signal);
      return finishedRegions(tracked.regions, samples, meter.levels, options);
    },
  };
}

/** Turns the detector's probabilities into raw regions. */
export type RegionTracker = {
  /** In order. The last one grows while speech continues. */
  regions: SpeechRegion[];
  /** Takes the probability of the next window. */
  take(probability: number): void;
};

export function trackRegions(threshold: number): RegionTracker {
  const regions: SpeechRegion[] = [];
  let startSample = 0;
  let current: SpeechRegion | undefined;
  return {
    regions,
    take(probability) {
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

type LevelMeter = {
  /** Half decibels above −120 dB, one byte for each window; 0 for windows that were not taken yet. */
  levels: LevelEnvelope;
  /** Takes the sums of the next windows (`Silero.sums`). */
  take(sums: Float64Array): void;
};

/** Adds up the sums of windows. */
function totalOf(sums: Float64Array): SampleSums {
  const total = { sum: 0, squares: 0, counted: 0 };
  for (let at = 0; at < sums.length; at += SUMS_PER_WINDOW) {
    total.sum += sums[at] ?? 0;
    total.squares += sums[at + 1] ?? 0;
    total.counted += sums[at + 2] ?? 0;
  }
  return total;
}

async function openLevelMeter(pcmPath: string): Promise<LevelMeter> {
  const { size } = await stat(pcmPath);
  const values = new Uint8Array(Math.ceil(size / PCM_BYTES_PER_SAMPLE / WINDOW_SAMPLES));
  let window = 0;
  return {
    levels: { frameSamples: WINDOW_SAMPLES, values },
    take(sums) {
      for (let at = 0; at < sums.length; at += SUMS_PER_WINDOW) {
        const power = (sums[at + 1] ?? 0) / WINDOW_SAMPLES;
        const db = 10 * Math.log10(power / PCM_FULL_SCALE ** 2 + 1e-12);
        values[window++] = Math.round(2 * (db + 120));
      }
    },
  };
}

/**
 * Reads a file block by block, in whole windows. The last window is filled up with silence.
 *
 * @param take receives a block, which is overwritten after it returns, and the number of samples read so far
 * @returns the number of samples of the file
 * @throws DecodeError `aborted`
 */
async function forEachBlock(
  pcmPath: string,
  take: (pcm: Int16Array, doneSamples: number) => void,
  signal: AbortSignal | undefined,
): Promise<number> {
  const file = await open(pcmPath, "r");
  try {
    const total = Math.floor((await file.stat()).size / PCM_BYTES_PER_SAMPLE);
    const block = new Int16Array(BLOCK_SAMPLES);
    for (let done = 0; done < total; ) {
      if (signal?.aborted) throw new DecodeError("aborted", "The work was cancelled.");
      const samples = await readPcm(file, block.subarray(0, Math.min(BLOCK_SAMPLES, total - done)), done);
      if (samples === 0) break;
      block.fill(0, samples);
      done += samples;
      take(block.subarray(0, Math.ceil(samples / WINDOW_SAMPLES) * WINDOW_SAMPLES), done);
      await Bun.sleep(0);
    }
    return total;
  } finally {
    await file.close();
  }
}
