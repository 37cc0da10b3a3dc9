import { COEFFICIENTS } from "./diarize-features.ts";
import { likelihoodRatio, modelCost } from "./diarize-gaussian.ts";
import { logLikelihood, trainMixture } from "./diarize-mixture.ts";
import { type FrameSample, framesOf } from "./diarize-sample.ts";
import type { YieldToLoop } from "./diarize-tracks.ts";
import { type Cluster, segmentsOf } from "./diarize-tree.ts";

export type SpeakerBounds = { minSpeakers: number; maxSpeakers: number };

/** The clusters that are speakers, and whether the evidence for their number is weak. */
export type SpeakerChoice = { speakers: Cluster[]; isCountUncertain: boolean };

/** Less speech than this may be a noise, and is not a speaker of its own unless the number is given. */
const MIN_FOUND_FRAMES = 300;
const MIN_GIVEN_FRAMES = 150;
/** A third and every further speaker need more speech. */
const MIN_FURTHER_FRAMES = 600;
/**
 * The evidence from which a part is another speaker. Measured with `scripts/bench/diarization.ts`: two speakers mostly
 * reach 1.9, two similar ones 0.8 to 1.1, and parts of one speaker's sound 0.1 to 0.65. Within a minute of speech even
 * different speakers reach only 0.7. There a client that asks for speakers is assumed to expect two, and not more.
 */
const SECOND_SPEAKER = 0.75;
const SECOND_SPEAKER_IN_SHORT = 0.65;
const SHORT_FRAMES = 6_000;
const FURTHER_SPEAKER = 0.95;
/** Evidence this close to the bound leaves the choice open. */
const DOUBTFUL = { below: 0.15, above: 0.35 };
/** Larger clusters count like ones of this size: the ratio grows with the recording, the evidence does not. */
const MOST_RATIO_FRAMES = 2_000;
const MOST_RATIO = 10;

/**
 * Goes down the tree from its roots and decides at each joining whether the two parts are two speakers.
 *
 * The parts must be dissimilar by the Bayesian information criterion. And they must persist in time: the sound of one
 * speaker also falls into clusters, but then neighbouring half seconds change between them at random, while a real
 * speaker continues to speak (`persistence`).
 *
 * @param roots one for each group of tracks that cannot share a speaker; each is at least one speaker
 */
export async function chooseSpeakers(
  roots: readonly Cluster[],
  sample: FrameSample,
  bounds: SpeakerBounds,
  yieldToLoop: YieldToLoop,
): Promise<SpeakerChoice> {
  const choice = await descend(roots, sample, bounds, MIN_GIVEN_FRAMES, yieldToLoop);
  if (choice.speakers.length >= bounds.minSpeakers) return choice;
  // The client asked for more speakers than were found, so some of them say little.
  return descend(roots, sample, bounds, 1, yieldToLoop);
}

async function descend(
  roots: readonly Cluster[],
  sample: FrameSample,
  { minSpeakers, maxSpeakers }: SpeakerBounds,
  minGivenFrames: number,
  yieldToLoop: YieldToLoop,
): Promise<SpeakerChoice> {
  const open: Candidate[] = roots.map((root) => ({ whole: root, node: root }));
  const speakers: Cluster[] = [];
  let isCountUncertain = false;
  for (let next = takeLatest(open); next; next = takeLatest(open)) {
    const { whole, node } = next;
    const count = open.length + speakers.length + 1;
    const [a, b] = node.children ?? [];
    if (!a || !b || count >= maxSpeakers) {
      speakers.push(whole);
      continue;
    }
    const isGiven = count < minSpeakers;
    const [larger, smaller] = a.gaussian.frames >= b.gaussian.frames ? [a, b] : [b, a];
    if (smaller.gaussian.frames < (isGiven ? minGivenFrames : MIN_FOUND_FRAMES)) {
      open.push({ whole, node: larger });
      continue;
    }
    const bound = boundFor(count, node);
    const isLongEnough = isGiven || count === 1 || smaller.gaussian.frames >= MIN_FURTHER_FRAMES;
    let isSplit = isLongEnough;
    if (isLongEnough && !isGiven) {
      const evidence = (await persistence(a, b, sample, yieldToLoop)) + dissimilarity(a, b) / 10;
      isCountUncertain ||= evidence > bound - DOUBTFUL.below && evidence < bound + DOUBTFUL.above;
      isSplit = evidence >= bound;
    }
    if (isSplit) open.push({ whole: a, node: a }, { whole: b, node: b });
    else speakers.push(whole);
  }
  return { speakers, isCountUncertain };
}

/**
 * A cluster to examine, and the part of it that is left without the small clusters that were joined last. If that part
 * is two speakers, the small clusters go to the speaker who is most similar to them.
 */
type Candidate = { whole: Cluster; node: Cluster };

function takeLatest(candidates: Candidate[]): Candidate | undefined {
  let latest = 0;
  for (const [index, { node }] of candidates.entries()) {
    if (node.order > (candidates[latest]?.node.order ?? 0)) latest = index;
  }
  return candidates.splice(latest, 1)[0];
}

function boundFor(count: number, { gaussian }: Cluster): number {
  if (count > 1) return FURTHER_SPEAKER;
  return gaussian.frames < SHORT_FRAMES ? SECOND_SPEAKER_IN_SHORT : SECOND_SPEAKER;
}

/**
 * Computes the likelihood ratio in units of the Bayesian information criterion's cost, for clusters of a limited size.
 */
function dissimilarity(a: Cluster, b: Cluster): number {
  const scratch = new Float64Array((COEFFICIENTS * (COEFFICIENTS + 1)) / 2);
  const harmonic = (a.gaussian.frames * b.gaussian.frames) / (a.gaussian.frames + b.gaussian.frames);
  const scale = Math.min(1, MOST_RATIO_FRAMES / harmonic);
  const ratio = scale * likelihoodRatio(a.gaussian, b.gaussian, scratch);
  return Math.min(
    MOST_RATIO,
    ratio / modelCost(COEFFICIENTS, scale * (a.gaussian.frames + b.gaussian.frames)),
  );
}

const FOLDS = 4;
const BLOCK_FRAMES = 50;
const MIN_BLOCK_FRAMES = 25;
const TRAINING = { maxComponents: 4, maxFrames: 3_000 };

type Block = { stretch: number; startFrame: number; isSecond: boolean };

/**
 * Computes how much more often than by chance neighbouring half seconds belong to the same of two clusters: Cohen's
 * kappa, 1 for perfect persistence, 0 for none. Each half second is judged alone, by mixtures that were trained without
 * its segment.
 */
async function persistence(
  a: Cluster,
  b: Cluster,
  sample: FrameSample,
  yieldToLoop: YieldToLoop,
): Promise<number> {
  const parts = [segmentsOf(a), segmentsOf(b)].map((segments) =>
    segments.filter((segment) => sample.rangeOf.has(segment)),
  );
  const all = parts.flat().sort((x, y) => x - y);
  const foldOf = new Map(all.map((segment, index) => [segment, index % FOLDS]));
  const blocks: Block[] = [];
  for (let fold = 0; fold < FOLDS; fold++) {
    const [first, second] = parts.map((segments) => {
      const others = segments.filter((segment) => foldOf.get(segment) !== fold);
      return trainMixture(sample.features, framesOf(sample, others), TRAINING);
    });
    await yieldToLoop();
    if (!first || !second) continue;
    for (const segment of all) {
      if (foldOf.get(segment) !== fold) continue;
      const range = sample.rangeOf.get(segment) ?? { from: 0, to: 0 };
      for (const { from, to } of divide(sample, range)) {
        let evidence = 0;
        for (let frame = from; frame < to; frame++) {
          const offset = frame * COEFFICIENTS;
          evidence +=
            logLikelihood(second, sample.features, offset) - logLikelihood(first, sample.features, offset);
        }
        const stretch = sample.stretchOf[from] ?? 0;
        blocks.push({ stretch, startFrame: sample.frameOf[from] ?? 0, isSecond: evidence > 0 });
      }
    }
    await yieldToLoop();
  }
  return kappa(blocks);
}

/** Divides a segment's sampled frames into half seconds, and leaves out those that are mostly pause. */
function divide(sample: FrameSample, range: { from: number; to: number }): { from: number; to: number }[] {
  const blocks: { from: number; to: number }[] = [];
  const first = sample.frameOf[range.from] ?? 0;
  const blockOf = (frame: number) => Math.floor(((sample.frameOf[frame] ?? 0) - first) / BLOCK_FRAMES);
  for (let from = range.from; from < range.to; ) {
    let to = from + 1;
    while (to < range.to && blockOf(to) === blockOf(from)) to++;
    if (to - from >= MIN_BLOCK_FRAMES) blocks.push({ from, to });
    from = to;
  }
  return blocks;
}

function kappa(blocks: readonly Block[]): number {
  const sorted = blocks.toSorted((a, b) => a.stretch - b.stretch || a.startFrame - b.startFrame);
  let pairs = 0;
  let equal = 0;
  for (const [index, block] of sorted.entries()) {
    const before = sorted[index - 1];
    if (!before || before.stretch !== block.stretch) continue;
    pairs++;
    if (before.isSecond === block.isSecond) equal++;
  }
  const share = sorted.filter(({ isSecond }) => isSecond).length / Math.max(1, sorted.length);
  const byChance = share ** 2 + (1 - share) ** 2;
  if (pairs === 0 || byChance >= 1) return 0;
  return (equal / pairs - byChance) / (1 - byChance);
}
