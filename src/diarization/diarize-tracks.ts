import { type FileHandle, open } from "node:fs/promises";
import type { SpeechRegion } from "../domain/speech.ts";
import { readPcm, scalePcm } from "../native/decoder/pcm-file.ts";
import { COEFFICIENTS, createFrameAnalyzer, FRAME_SAMPLES, HOP_SAMPLES } from "./diarize-features.ts";

/** One channel of a recording: a file of decoded audio (pcm-file.ts), and the regions that hold speech. */
export type SpeakerTrack = { pcmPath: string; regions: readonly SpeechRegion[] };

/** Unbroken speech, in frames of its track; the end is exclusive. */
export type Stretch = { track: number; startFrame: number; endFrame: number };

/** Some frames of a stretch with their features. The arrays are reused for the next piece. */
export type Piece = {
  /** Index of the stretch among all. */
  stretch: number;
  startFrame: number;
  frames: number;
  /** `COEFFICIENTS` numbers for each frame. */
  features: Float32Array;
  /** For each frame 1 where it is loud enough to be speech, 0 in pauses between words. */
  isLoud: Uint8Array;
};

/** Lets other work of the process run, and throws the signal's reason once it is aborted. */
export type YieldToLoop = () => Promise<void>;

/** Other work of this process waits this long at most. */
const YIELD_EVERY_MS = 20;

export function createYielder(signal: AbortSignal): YieldToLoop {
  let last = performance.now();
  return async () => {
    if (performance.now() - last > YIELD_EVERY_MS) {
      await Bun.sleep(0);
      last = performance.now();
    }
    signal.throwIfAborted();
  };
}

/** 20 s of speech, which take about 20 ms. */
const PIECE_FRAMES = 2_000;
const SMALLEST_POWER = 1e-10;
const LEVEL_STEPS_PER_DB = 2;
const LEVEL_FLOOR_DB = -100;

/**
 * A frame is speech if its level is above this share of the way from the quietest to the loud frames, and at most
 * this far below the loud ones. These values and the lengths below gave the lowest error on conversations with known
 * turns.
 */
const LOUD_SHARE = 0.3;
const LOUD_RANGE_DB = 30;
/** A pause up to this length belongs to the speech around it (NIST's rules join speech that is closer than 0.3 s). */
const JOINED_PAUSE_FRAMES = 40;
const SHORTEST_STRETCH_FRAMES = 8;
/** Added before and after a stretch, for its soft beginning and end. */
const PADDING_FRAMES = 4;

/** Levels of the frames in a track's regions, and how often each level occurs. */
type Levels = { regions: { startFrame: number; levels: Uint8Array }[]; histogram: Uint32Array };

/** A track's stretches in order, and the power from which its frames count as loud. */
export type TrackSpeech = { stretches: Stretch[]; loudPower: number };

/**
 * Finds unbroken speech within regions, without the detector's padding and without longer pauses.
 *
 * @param track number of the track, for the result
 */
export async function findStretches(
  source: SpeakerTrack,
  track: number,
  yieldToLoop: YieldToLoop,
): Promise<TrackSpeech> {
  const { regions, histogram } = await measureLevels(source, yieldToLoop);
  const quietDb = percentile(histogram, 0.05);
  const loudDb = percentile(histogram, 0.9);
  const thresholdDb = Math.max(quietDb + LOUD_SHARE * (loudDb - quietDb), loudDb - LOUD_RANGE_DB);
  const threshold = levelOf(thresholdDb);
  const found: Stretch[] = [];
  let current: Stretch | undefined;
  for (const { startFrame, levels } of regions) {
    for (let index = 0; index < levels.length; index++) {
      if ((levels[index] ?? 0) < threshold) continue;
      const frame = startFrame + index;
      if (current && frame - current.endFrame <= JOINED_PAUSE_FRAMES) {
        current.endFrame = frame + 1;
      } else {
        current = { track, startFrame: frame, endFrame: frame + 1 };
        found.push(current);
      }
    }
  }
  const lastFrame = regions.at(-1);
  const limit = lastFrame ? lastFrame.startFrame + lastFrame.levels.length : 0;
  const stretches = found
    .filter(({ startFrame, endFrame }) => endFrame - startFrame >= SHORTEST_STRETCH_FRAMES)
    .map(({ startFrame, endFrame }) => ({
      track,
      startFrame: Math.max(0, startFrame - PADDING_FRAMES),
      endFrame: Math.min(limit, endFrame + PADDING_FRAMES),
    }));
  return { stretches, loudPower: 10 ** (thresholdDb / 10) };
}

async function measureLevels(source: SpeakerTrack, yieldToLoop: YieldToLoop): Promise<Levels> {
  const histogram = new Uint32Array(256);
  const regions: Levels["regions"] = [];
  const file = await open(source.pcmPath, "r");
  try {
    const reader = createReader(file);
    let nextFrame = 0;
    for (const { startSample, endSample } of source.regions) {
      const startFrame = Math.max(nextFrame, Math.ceil(startSample / HOP_SAMPLES));
      const endFrame = Math.floor((endSample - FRAME_SAMPLES) / HOP_SAMPLES) + 1;
      if (endFrame <= startFrame) continue;
      nextFrame = endFrame;
      const levels = new Uint8Array(endFrame - startFrame);
      for (let done = 0; done < levels.length; done += PIECE_FRAMES) {
        const frames = Math.min(PIECE_FRAMES, levels.length - done);
        const samples = await reader.read(startFrame + done, frames);
        for (let index = 0; index < frames; index++) {
          const level = levelOf(10 * Math.log10(powerOf(samples, index * HOP_SAMPLES)));
          levels[done + index] = level;
          histogram[level] = (histogram[level] ?? 0) + 1;
        }
        await yieldToLoop();
      }
      regions.push({ startFrame, levels });
    }
  } finally {
    await file.close();
  }
  return { regions, histogram };
}

function levelOf(db: number): number {
  return Math.max(0, Math.min(255, Math.round((db - LEVEL_FLOOR_DB) * LEVEL_STEPS_PER_DB)));
}

/** Returns the level in dB below which this share of the frames lies. */
function percentile(histogram: Uint32Array, share: number): number {
  const total = histogram.reduce((sum, count) => sum + count, 0);
  let below = 0;
  for (let level = 0; level < histogram.length; level++) {
    below += histogram[level] ?? 0;
    if (below > share * total) return LEVEL_FLOOR_DB + level / LEVEL_STEPS_PER_DB;
  }
  return LEVEL_FLOOR_DB;
}

/** Returns the mean power of a frame. */
function powerOf(samples: Float32Array, start: number): number {
  let sum = SMALLEST_POWER * FRAME_SAMPLES;
  for (let n = start; n < start + FRAME_SAMPLES; n++) sum += (samples[n] ?? 0) ** 2;
  return sum / FRAME_SAMPLES;
}

/**
 * Reads all stretches in order, piece by piece, and calls `visit` with their features. Nothing is kept between pieces,
 * so memory does not grow with the recording; a second pass reads the files again.
 *
 * @param speech the speech of each source, from `findStretches`
 */
export async function forEachPiece(
  sources: readonly SpeakerTrack[],
  speech: readonly TrackSpeech[],
  yieldToLoop: YieldToLoop,
  visit: (piece: Piece) => void,
): Promise<void> {
  const analyzer = createFrameAnalyzer();
  const features = new Float32Array(PIECE_FRAMES * COEFFICIENTS);
  const isLoud = new Uint8Array(PIECE_FRAMES);
  let stretch = 0;
  for (const [track, source] of sources.entries()) {
    const { stretches, loudPower } = speech[track] ?? { stretches: [], loudPower: 0 };
    if (stretches.length === 0) continue;
    const file = await open(source.pcmPath, "r");
    try {
      const reader = createReader(file);
      for (const { startFrame, endFrame } of stretches) {
        for (let frame = startFrame; frame < endFrame; frame += PIECE_FRAMES) {
          const frames = Math.min(PIECE_FRAMES, endFrame - frame);
          const samples = await reader.read(frame, frames);
          for (let index = 0; index < frames; index++) {
            analyzer.analyze(samples, index * HOP_SAMPLES, features, index * COEFFICIENTS);
            isLoud[index] = powerOf(samples, index * HOP_SAMPLES) >= loudPower ? 1 : 0;
          }
          visit({ stretch, startFrame: frame, frames, features, isLoud });
          await yieldToLoop();
        }
        stretch++;
      }
    } finally {
      await file.close();
    }
  }
}

/** Reads the samples of consecutive frames. Behind the end of the file there is silence. */
function createReader(file: FileHandle): { read(startFrame: number, frames: number): Promise<Float32Array> } {
  const most = (PIECE_FRAMES - 1) * HOP_SAMPLES + FRAME_SAMPLES;
  const pcm = new Int16Array(most);
  const samples = new Float32Array(most);
  return {
    async read(startFrame, frames) {
      const wanted = pcm.subarray(0, (frames - 1) * HOP_SAMPLES + FRAME_SAMPLES);
      wanted.fill(0, await readPcm(file, wanted, startFrame * HOP_SAMPLES));
      scalePcm(wanted, samples, 0);
      return samples;
    },
  };
}
