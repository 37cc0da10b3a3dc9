import { COEFFICIENTS } from "./diarize-features.ts";
import { logLikelihood, type Mixture } from "./diarize-mixture.ts";
import type { Piece, Stretch } from "./diarize-tracks.ts";

/** Who speaks is decided for 0.1 s at a time. */
export const BLOCK_FRAMES = 10;
/**
 * What a change of speaker costs, in units of log likelihood: within speech, and over a pause. It keeps turns from
 * getting shorter than the evidence lasts.
 */
const CHANGE_COST = 60;
const CHANGE_COST_AT_PAUSE = 15;

/** Speaker of each block; the blocks of a stretch begin at its `firstBlock`. */
export type SpeakerPath = { speakers: Uint8Array; firstBlock: Int32Array };

/** Where the blocks of each stretch begin; one more entry for their number. */
export function numberBlocks(stretches: readonly Stretch[]): Int32Array {
  const firstBlock = new Int32Array(stretches.length + 1);
  for (const [index, { startFrame, endFrame }] of stretches.entries()) {
    firstBlock[index + 1] = (firstBlock[index] ?? 0) + Math.ceil((endFrame - startFrame) / BLOCK_FRAMES);
  }
  return firstBlock;
}

/**
 * The most likely sequence of speakers (Viterbi 1967) where each is a mixture and a change has its cost. Take all
 * pieces in order, then finish.
 *
 * @param mixtures by speaker
 * @param trackOf track of each speaker; undefined: any
 */
export function createPathFinder(
  stretches: readonly Stretch[],
  mixtures: readonly (Mixture | undefined)[],
  trackOf: readonly (number | undefined)[],
) {
  const count = mixtures.length;
  const firstBlock = numberBlocks(stretches);
  const blocks = firstBlock.at(-1) ?? 0;
  const cameFrom = new Uint8Array(blocks * count);
  const scores = new Float64Array(count);
  const likelihoods = new Float64Array(count);
  const speakers = new Uint8Array(blocks);
  let trackStart = 0;
  let track = -1;

  function best(): number {
    let found = 0;
    for (let k = 1; k < count; k++) if ((scores[k] ?? 0) > (scores[found] ?? 0)) found = k;
    return found;
  }

  function step(block: number, isAfterPause: boolean): void {
    const leader = best();
    const changed = (scores[leader] ?? 0) - (isAfterPause ? CHANGE_COST_AT_PAUSE : CHANGE_COST);
    for (let k = 0; k < count; k++) {
      const score = scores[k] ?? 0;
      // Whoever cannot be in this track stays impossible.
      const isChange = score !== Number.NEGATIVE_INFINITY && changed > score;
      cameFrom[block * count + k] = isChange ? leader : k;
      scores[k] = (isChange ? changed : score) + (likelihoods[k] ?? 0);
    }
  }

  function traceBack(from: number, to: number): void {
    let speaker = best();
    for (let block = to - 1; block >= from; block--) {
      speakers[block] = speaker;
      speaker = cameFrom[block * count + speaker] ?? 0;
    }
  }

  return {
    take({ stretch, startFrame, frames, features, isLoud }: Piece): void {
      const current = stretches[stretch];
      if (!current) return;
      const blockBefore = firstBlock[stretch] ?? 0;
      if (current.track !== track) {
        traceBack(trackStart, blockBefore);
        trackStart = blockBefore;
        track = current.track;
        for (let k = 0; k < count; k++) {
          const isOfTrack = trackOf[k] === undefined || trackOf[k] === track;
          scores[k] = isOfTrack && mixtures[k] ? 0 : Number.NEGATIVE_INFINITY;
        }
      }
      const blockOf = (index: number) =>
        blockBefore + Math.floor((startFrame + index - current.startFrame) / BLOCK_FRAMES);
      for (let index = 0; index < frames; ) {
        const block = blockOf(index);
        likelihoods.fill(0);
        for (; index < frames && blockOf(index) === block; index++) {
          if (!isLoud[index]) continue;
          for (let k = 0; k < count; k++) {
            const mixture = mixtures[k];
            if (mixture && scores[k] !== Number.NEGATIVE_INFINITY) {
              likelihoods[k] = (likelihoods[k] ?? 0) + logLikelihood(mixture, features, index * COEFFICIENTS);
            }
          }
        }
        step(block, block === blockBefore);
      }
    },

    finish(): SpeakerPath {
      traceBack(trackStart, blocks);
      return { speakers, firstBlock };
    },
  };
}
