import { COEFFICIENTS } from "./diarize-features.ts";
import type { SpeakerSegment } from "./diarize-segments.ts";
import type { Piece, Stretch } from "./diarize-tracks.ts";
import { type Cluster, cutTree, segmentsOf } from "./diarize-tree.ts";

/** Loud frames of some segments of every cluster. They stay in memory for training. */
export type FrameSample = {
  /** `COEFFICIENTS` numbers a frame. */
  features: Float32Array;
  /** For each sampled frame: its number in the track, its segment, its stretch. */
  frameOf: Int32Array;
  segmentOf: Int32Array;
  stretchOf: Int32Array;
  frames: number;
  /** The frames of each sampled segment; the end is exclusive. */
  rangeOf: Map<number, { from: number; to: number }>;
};

/** Far more clusters than speakers that can be distinguished. Each gives up to 25 s. */
const SAMPLED_CLUSTERS = 48;
const FRAMES_PER_CLUSTER = 2_500;

/**
 * Chooses segments, evenly over time, from each of the clusters at the top of the tree. Call `take` with all pieces in
 * order, then `finish`.
 */
export function createSampler(
  roots: readonly Cluster[],
  segments: readonly SpeakerSegment[],
  stretches: readonly Stretch[],
) {
  const chosen = new Uint8Array(segments.length);
  let capacity = 0;
  for (const cluster of cutTree(roots, SAMPLED_CLUSTERS)) {
    const stride = Math.max(1, Math.ceil(cluster.gaussian.frames / FRAMES_PER_CLUSTER));
    for (const [index, segment] of segmentsOf(cluster).entries()) {
      if (index % stride !== 0) continue;
      chosen[segment] = 1;
      capacity += segments[segment]?.gaussian.frames ?? 0;
    }
  }
  const sample: FrameSample = {
    features: new Float32Array(capacity * COEFFICIENTS),
    frameOf: new Int32Array(capacity),
    segmentOf: new Int32Array(capacity),
    stretchOf: new Int32Array(capacity),
    frames: 0,
    rangeOf: new Map(),
  };
  let segment = 0;

  return {
    take({ stretch, startFrame, frames, features, isLoud }: Piece): void {
      const track = stretches[stretch]?.track;
      for (let index = 0; index < frames; index++) {
        const frame = startFrame + index;
        // Segments are in the order in which they are read.
        while (isBefore(segments[segment], stretch, frame)) segment++;
        if (!chosen[segment] || !isLoud[index] || segments[segment]?.track !== track) continue;
        const at = sample.frames;
        if (at >= capacity) return;
        sample.features.set(
          features.subarray(index * COEFFICIENTS, (index + 1) * COEFFICIENTS),
          at * COEFFICIENTS,
        );
        sample.frameOf[at] = frame;
        sample.segmentOf[at] = segment;
        sample.stretchOf[at] = stretch;
        sample.frames++;
        const range = sample.rangeOf.get(segment) ?? { from: at, to: at };
        range.to = at + 1;
        sample.rangeOf.set(segment, range);
      }
    },
    finish: (): FrameSample => sample,
  };
}

function isBefore(segment: SpeakerSegment | undefined, stretch: number, frame: number): boolean {
  if (!segment) return false;
  return segment.stretch < stretch || (segment.stretch === stretch && segment.endFrame <= frame);
}

/** Returns the sampled frames of some segments, in order. */
export function framesOf(sample: FrameSample, segments: readonly number[]): Int32Array {
  const ranges = segments
    .map((segment) => sample.rangeOf.get(segment))
    .filter((range) => range !== undefined);
  const frames = new Int32Array(ranges.reduce((sum, { from, to }) => sum + to - from, 0));
  let filled = 0;
  for (const { from, to } of ranges) for (let frame = from; frame < to; frame++) frames[filled++] = frame;
  return frames;
}
