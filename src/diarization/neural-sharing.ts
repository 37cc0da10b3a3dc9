import type { AloneVoice } from "./neural-alone.ts";
import { product } from "./neural-linkage.ts";
import type { SegmentationInfo } from "./neural-models.ts";

/** The windows of a track: the speakers of each frame as bits, and samples between the beginnings of two windows. */
export type SharedWindows = { windows: readonly Uint8Array[]; shiftSamples: number };

/** Voices that are alone in fewer frames of the same sound may be different people. */
const LEAST_SHARED_FRAMES = 30;
/** A voice is described by others that hear this share of its frames, counted for each of them. */
const LEAST_SHARE = 0.4;
/** Where two of them are further apart, one holds the voices of two people: a cosine distance. */
const MOST_APART = 0.25;

/** Returns the frame of the track in which a window begins. */
export function firstFrameOf(
  window: number,
  { shiftSamples }: Pick<SharedWindows, "shiftSamples">,
  { frameSamples }: Pick<SegmentationInfo, "frameSamples">,
): number {
  return Math.round((window * shiftSamples) / frameSamples);
}

/**
 * Describes a voice by voices of other windows which are alone in the same sound: by the mean of their vectors, each
 * counted by the frames that it shares.
 *
 * @param others described voices of the windows around it
 * @returns undefined when they hear too little of the voice, or are too far from each other
 */
export function sharedVector(
  voice: AloneVoice,
  others: readonly (AloneVoice & { unit: Float32Array })[],
  track: SharedWindows,
  info: Pick<SegmentationInfo, "frameSamples">,
): Float32Array | undefined {
  const its = track.windows[voice.window] ?? new Uint8Array();
  const alone = its.reduce((sum, bits) => sum + (bits === 1 << voice.speaker ? 1 : 0), 0);
  const first = firstFrameOf(voice.window, track, info);
  const found: { unit: Float32Array; both: number }[] = [];
  for (const other of others) {
    const theirs = track.windows[other.window] ?? new Uint8Array();
    const shift = first - firstFrameOf(other.window, track, info);
    let both = 0;
    for (let frame = Math.max(0, -shift); frame < Math.min(its.length, theirs.length - shift); frame++) {
      if (its[frame] === 1 << voice.speaker && theirs[frame + shift] === 1 << other.speaker) both++;
    }
    if (both >= LEAST_SHARED_FRAMES) found.push({ unit: other.unit, both });
  }
  const shared = found.reduce((frames, { both }) => frames + both, 0);
  const isOne = found.every(({ unit }) => found.every((other) => 1 - product(unit, other.unit) < MOST_APART));
  if (!isOne || shared < LEAST_SHARE * alone) return undefined;
  const [{ unit: like } = { unit: new Float32Array() }] = found;
  return like.map((_, index) => found.reduce((sum, { unit, both }) => sum + both * (unit[index] ?? 0), 0));
}
