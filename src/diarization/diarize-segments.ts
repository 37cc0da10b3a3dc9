import { COEFFICIENTS } from "./diarize-features.ts";
import {
  addFrame,
  addSums,
  emptySums,
  type FrameSums,
  type Gaussian,
  gaussianOf,
  likelihoodRatio,
  modelCost,
} from "./diarize-gaussian.ts";
import type { Piece, Stretch } from "./diarize-tracks.ts";

/** A part of a stretch that seems to have one speaker, judged by this part alone. */
export type SpeakerSegment = {
  track: number;
  /** Index of its stretch among all. */
  stretch: number;
  startFrame: number;
  endFrame: number;
  /** The Gaussian of its loud frames. */
  gaussian: Gaussian;
};

/** A change of speaker is looked for at steps of this length … */
const BLOCK_FRAMES = 25;
/** … by comparing up to 1.5 s before with up to 1.5 s after … */
const WINDOW_BLOCKS = 6;
/** … but not in the first and last 0.75 s, and not within 0.75 s of the change before. */
const EDGE_BLOCKS = 3;
/** A change is a maximum within a second on both sides. */
const PEAK_BLOCKS = 4;
/** Below the criterion's own factor of 1: clustering undoes a wrong change, but cannot find a missed one. */
const CHANGE_PENALTY = 0.5;

/**
 * Cuts stretches where the speaker may change: at maxima of the generalised likelihood ratio between the sound before
 * and after, if they exceed the cost in the Bayesian information criterion (Chen and Gopalakrishnan 1998, with the sliding
 * window of Delacourt and Wellekens 2000, "DISTBIC").
 *
 * Call `take` with all pieces in order, then `finish`.
 */
export function createSegmenter(stretches: readonly Stretch[]) {
  const segments: SpeakerSegment[] = [];
  const scratch = new Float64Array((COEFFICIENTS * (COEFFICIENTS + 1)) / 2);
  let blocks: FrameSums[] = [];
  let current = -1;

  function close(): void {
    const stretch = stretches[current];
    if (!stretch) return;
    const edges = [0, ...findChanges(blocks, scratch), blocks.length];
    for (const [index, from] of edges.entries()) {
      const to = edges[index + 1];
      if (to === undefined) break;
      const frameOf = (block: number) =>
        Math.min(stretch.startFrame + block * BLOCK_FRAMES, stretch.endFrame);
      segments.push({
        track: stretch.track,
        stretch: current,
        startFrame: frameOf(from),
        endFrame: frameOf(to),
        gaussian: sumUp(blocks, from, to, scratch),
      });
    }
    blocks = [];
  }

  return {
    take({ stretch, startFrame, frames, features, isLoud }: Piece): void {
      if (stretch !== current) {
        close();
        current = stretch;
      }
      const first = stretches[stretch]?.startFrame ?? startFrame;
      for (let index = 0; index < frames; index++) {
        const block = Math.floor((startFrame + index - first) / BLOCK_FRAMES);
        const sums = blocks[block] ?? emptySums(COEFFICIENTS);
        blocks[block] = sums;
        if (isLoud[index]) addFrame(sums, features, index * COEFFICIENTS);
      }
    },

    finish(): SpeakerSegment[] {
      close();
      current = -1;
      return segments;
    },
  };
}

function sumUp(blocks: readonly FrameSums[], from: number, to: number, scratch: Float64Array): Gaussian {
  const sums = emptySums(COEFFICIENTS);
  for (const block of blocks.slice(from, to)) addSums(sums, block);
  return gaussianOf(sums, scratch);
}

/** Returns the indexes of the blocks before which the speaker may change. */
function findChanges(blocks: readonly FrameSums[], scratch: Float64Array): number[] {
  const last = blocks.length - EDGE_BLOCKS;
  const excess = blocks.map((_, at) => {
    if (at < EDGE_BLOCKS || at > last) return Number.NEGATIVE_INFINITY;
    const before = sumUp(blocks, Math.max(0, at - WINDOW_BLOCKS), at, scratch);
    const after = sumUp(blocks, at, Math.min(blocks.length, at + WINDOW_BLOCKS), scratch);
    const cost = CHANGE_PENALTY * modelCost(COEFFICIENTS, before.frames + after.frames);
    return likelihoodRatio(before, after, scratch) - cost;
  });
  const changes: number[] = [];
  for (let at = EDGE_BLOCKS; at <= last; at++) {
    const value = excess[at] ?? Number.NEGATIVE_INFINITY;
    if (value <= 0 || at - (changes.at(-1) ?? 0) < EDGE_BLOCKS) continue;
    const around = excess.slice(Math.max(0, at - PEAK_BLOCKS), at + PEAK_BLOCKS + 1);
    if (around.every((other) => other <= value)) changes.push(at);
  }
  return changes;
}
