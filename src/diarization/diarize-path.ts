import { COEFFICIENTS } from "./diarize-features.ts";
import { logLikelihood, type Mixture } from "./diarize-mixture.ts";
import type { Piece, Stretch } from "./diarize-tracks.ts";

/** The speaker is decided for blocks of 0.1 s. */
export const BLOCK_FRAMES = 10;
/**
 * The cost of a change of speaker, in units of log likelihood: within speech, and at a pause. It prevents turns that are
 * too short to have evidence.
 */
const CHANGE_COST = 60;
const CHANGE_COST_AT_PAUSE = 15;

/** The speaker of each block. `firstBlock` holds the index of the first block of each stretch. */
export type SpeakerPath = { speakers: Uint8Array; firstBlock: Int32Array };

/** Returns where the blocks of each stretch begin, and as a last entry the number of all blocks. */
export function numberBlocks(stretches: readonly Stretch[]): Int32Array {
  const firstBlock = new Int32Array(stretches.length + 1);
  for (const [index, { startFrame, endFrame }] of stretches.entries()) {
    firstBlock[index + 1] = (firstBlock[index] ?? 0) + Math.ceil((endFrame - startFrame) / BLOCK_FRAMES);
  }
  return firstBlock;
}

/**
 * Finds the most likely sequence of speakers (Viterbi 1967). Each speaker is a mixture, and a change has a cost. Call
 * `take` with all pieces in order, then `finish`.
 *
 * @param mixtures the mixture of each speaker; undefined: the speaker is never chosen
 * @param trackOf the only track of each speaker; undefined: any track
 */
export function createPathFinder(
  stretches: readonly Stretch[],
  mixtures: readonly (Mixture | undefined)[],
  trackOf: readonly (number | undefined)[],
) {
  const firstBlock = numberBlocks(stretches);
  const chain = createChain(mixtures.length, firstBlock.at(-1) ?? 0);
  const likelihoods = new Float64Array(mixtures.length);
  let track = -1;

  function listen(features: Float32Array, offset: number): void {
    for (const [k, mixture] of mixtures.entries()) {
      if (!mixture || !chain.isPossible(k)) continue;
      likelihoods[k] = (likelihoods[k] ?? 0) + logLikelihood(mixture, features, offset);
    }
  }

  return {
    take({ stretch, startFrame, frames, features, isLoud }: Piece): void {
      const current = stretches[stretch];
      if (!current) return;
      const blockBefore = firstBlock[stretch] ?? 0;
      if (current.track !== track) {
        track = current.track;
        chain.begin(blockBefore, (k) => mixtures[k] !== undefined && (trackOf[k] ?? track) === track);
      }
      const blockOf = (index: number) =>
        blockBefore + Math.floor((startFrame + index - current.startFrame) / BLOCK_FRAMES);
      for (let index = 0; index < frames; ) {
        const block = blockOf(index);
        likelihoods.fill(0);
        for (; index < frames && blockOf(index) === block; index++) {
          if (isLoud[index]) listen(features, index * COEFFICIENTS);
        }
        chain.step(block, likelihoods, block === blockBefore ? CHANGE_COST_AT_PAUSE : CHANGE_COST);
      }
    },

    finish: (): SpeakerPath => ({ speakers: chain.finish(), firstBlock }),
  };
}

/** The recursion over blocks, and the way back. It starts again for each track. */
function createChain(count: number, blocks: number) {
  const cameFrom = new Uint8Array(blocks * count);
  const scores = new Float64Array(count);
  const speakers = new Uint8Array(blocks);
  let from = 0;

  function best(): number {
    let found = 0;
    for (let k = 1; k < count; k++) if ((scores[k] ?? 0) > (scores[found] ?? 0)) found = k;
    return found;
  }

  function traceBack(to: number): void {
    let speaker = best();
    for (let block = to - 1; block >= from; block--) {
      speakers[block] = speaker;
      speaker = cameFrom[block * count + speaker] ?? 0;
    }
    from = to;
  }

  return {
    isPossible: (speaker: number): boolean => scores[speaker] !== Number.NEGATIVE_INFINITY,

    begin(block: number, isPossible: (speaker: number) => boolean): void {
      traceBack(block);
      for (let k = 0; k < count; k++) scores[k] = isPossible(k) ? 0 : Number.NEGATIVE_INFINITY;
    },

    step(block: number, likelihoods: Float64Array, changeCost: number): void {
      const leader = best();
      const changed = (scores[leader] ?? 0) - changeCost;
      for (let k = 0; k < count; k++) {
        const score = scores[k] ?? 0;
        // A speaker of another track stays impossible.
        const isChange = score !== Number.NEGATIVE_INFINITY && changed > score;
        cameFrom[block * count + k] = isChange ? leader : k;
        scores[k] = (isChange ? changed : score) + (likelihoods[k] ?? 0);
      }
    },

    finish(): Uint8Array {
      traceBack(blocks);
      return speakers;
    },
  };
}
