import type { YieldToLoop } from "./diarize-tracks.ts";
import { distancesBetween, type Joint, linkItems, type PairDistances, product } from "./neural-linkage.ts";
import type { SegmentationInfo } from "./neural-models.ts";
import { type HeardTrack, SHIFT_SHARE } from "./neural-windows.ts";

/**
 * Voices of a track as unit vectors, and those among them that make clusters: evenly distributed ones that are alone
 * for long enough. All others only go to the person who is nearest.
 */
export type VoiceTree = {
  units: readonly Float32Array[];
  /** The window of each voice. */
  windows: readonly number[];
  /** Positions of the voices that are long enough. */
  usable: readonly number[];
  /** Vectors of the voices that were clustered, their time in the track in milliseconds, and how they join. */
  linked: readonly Float32Array[];
  linkedMs: readonly number[];
  /** Cosine distances of the linked voices. */
  distances: PairDistances;
  /** Positions of the linked voices. */
  linkedAt: readonly number[];
  /** Windows that are so far apart share no sound. */
  windowsApart: number;
  /** The track is short, so its windows follow each other more closely. */
  isShort: boolean;
  joints: readonly Joint[];
  /** How far voices of different people are apart in this track: a cosine distance. */
  apart: number;
};

/** Voices that are alone for a shorter time make no clusters. */
const LEAST_ALONE_MS = 800;
/** Both voices of a pair that shows how far people are apart are alone for this time. */
const PAIR_ALONE_MS = 1_500;
const LEAST_PAIRS = 4;
/** The distance of people where a track has too few pairs. */
const USUAL_APART = 0.5;
/** People are not nearer than this: the segmentation took one person for two. */
const LEAST_APART = 0.35;
/** More do not change the result. Clustering needs 4 bytes times the square of this number: 9 MB. */
export const MOST_LINKED = 1_500;

/**
 * Clusters the voices of a track.
 *
 * @param leastVoices voices that are clustered at least, even when they are short
 * @param mostLinked replaced in tests
 */
export async function growVoiceTree(
  { windowSamples }: Pick<SegmentationInfo, "windowSamples">,
  { voices, shiftSamples }: Pick<HeardTrack, "voices" | "shiftSamples">,
  leastVoices: number,
  yieldToLoop: YieldToLoop,
  mostLinked = MOST_LINKED,
): Promise<VoiceTree> {
  const units = voices.map(({ unit }) => unit);
  const aloneMs = voices.map((voice) => voice.aloneMs);
  const windows = voices.map(({ window }) => window);
  const usable = usableOf(aloneMs, Math.max(2, leastVoices));
  const step = Math.max(1, usable.length / mostLinked);
  const chosen = chooseEvenly(usable, mostLinked);
  // Each moment is heard in several windows.
  const share = Math.min(1, shiftSamples / windowSamples) * step;
  const linked = chosen.flatMap((index) => units[index] ?? []);
  const distances = await distancesBetween(linked, yieldToLoop);
  const pairs = await pairDistances(units, aloneMs, windows, yieldToLoop);
  return {
    units,
    windows,
    usable,
    linked,
    linkedMs: chosen.map((index) => (aloneMs[index] ?? 0) * share),
    distances,
    linkedAt: chosen,
    windowsApart: Math.ceil(windowSamples / shiftSamples),
    isShort: shiftSamples < Math.floor(SHIFT_SHARE * windowSamples),
    joints: await linkItems(distances, yieldToLoop),
    apart: pairs.length >= LEAST_PAIRS ? Math.max(LEAST_APART, medianOf(pairs)) : USUAL_APART,
  };
}

/** Returns the positions of the voices that are alone for long enough; of too few ones, the longest. */
function usableOf(aloneMs: readonly number[], least: number): number[] {
  const order = aloneMs.map((_, index) => index);
  const long = order.filter((index) => (aloneMs[index] ?? 0) >= LEAST_ALONE_MS);
  if (long.length >= least) return long;
  order.sort((one, other) => (aloneMs[other] ?? 0) - (aloneMs[one] ?? 0) || one - other);
  return order.slice(0, least).sort((one, other) => one - other);
}

/**
 * Chooses one voice of each of as many equal stretches. Its place in them changes, so that turns of the same length
 * cannot hide a person.
 */
function chooseEvenly(voices: readonly number[], most: number): number[] {
  if (voices.length <= most) return [...voices];
  const step = voices.length / most;
  const golden = (Math.sqrt(5) - 1) / 2;
  return Array.from({ length: most }, (_, n) => voices[Math.floor((n + ((n * golden) % 1)) * step)] ?? 0);
}

/** Returns the distances of voices that the segmentation found in the same window, and which are different people. */
async function pairDistances(
  units: readonly Float32Array[],
  aloneMs: readonly number[],
  windows: readonly number[],
  yieldToLoop: YieldToLoop,
): Promise<number[]> {
  const distances: number[] = [];
  for (const [index, one] of units.entries()) {
    // The voices of a window follow each other.
    for (let before = index - 1; before >= 0 && windows[before] === windows[index]; before--) {
      if (Math.min(aloneMs[index] ?? 0, aloneMs[before] ?? 0) < PAIR_ALONE_MS) continue;
      distances.push(1 - product(one, units[before] ?? one));
    }
    await yieldToLoop();
  }
  return distances;
}

function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}
