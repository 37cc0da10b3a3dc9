import { expect, test } from "bun:test";
import { randomFrom } from "../testing/makers/voices.ts";
import { COEFFICIENTS } from "./diarize-features.ts";
import { addFrame, emptySums, gaussianOf } from "./diarize-gaussian.ts";
import type { SpeakerSegment } from "./diarize-segments.ts";
import { buildTree, cutTree, segmentsOf } from "./diarize-tree.ts";

const yieldToLoop = async () => undefined;

/** Segments of 60 frames around the mean of their speaker. */
function segmentsAround(speakers: readonly number[], trackOf: (index: number) => number): SpeakerSegment[] {
  const random = randomFrom(5);
  const scratch = new Float64Array((COEFFICIENTS * (COEFFICIENTS + 1)) / 2);
  return speakers.map((speaker, index) => {
    const sums = emptySums(COEFFICIENTS);
    for (let frame = 0; frame < 60; frame++) {
      const features = Float32Array.from(
        { length: COEFFICIENTS },
        (_, c) => speaker * (c % 3) + 4 * random(),
      );
      addFrame(sums, features, 0);
    }
    const place = { stretch: index, startFrame: index * 60, endFrame: index * 60 + 60 };
    return { track: trackOf(index), ...place, gaussian: gaussianOf(sums, scratch) };
  });
}

test("segments of one mean are joined first, and the cut separates them again", async () => {
  const speakers = [0, 5, 0, 9, 5, 9, 0, 5, 9, 0];
  const roots = await buildTree(
    segmentsAround(speakers, () => 0),
    { mayJoinTracks: false, yieldToLoop },
  );
  expect(roots).toHaveLength(1);
  const groups = cutTree(roots, 3).map((cluster) => segmentsOf(cluster));
  expect(groups.map((group) => new Set(group.map((index) => speakers[index])).size)).toEqual([1, 1, 1]);
  expect(groups.flat().sort((a, b) => a - b)).toEqual(speakers.map((_, index) => index));
});

test("tracks are not joined unless this is allowed", async () => {
  const segments = segmentsAround([0, 0, 0, 0], (index) => index % 2);
  expect(await buildTree(segments, { mayJoinTracks: false, yieldToLoop })).toHaveLength(2);
  expect(await buildTree(segments, { mayJoinTracks: true, yieldToLoop })).toHaveLength(1);
  expect(await buildTree([], { mayJoinTracks: true, yieldToLoop })).toEqual([]);
});

test("with more segments than are compared at once, none is lost", async () => {
  const speakers = Array.from({ length: 1_700 }, (_, index) => (index % 2) * 6);
  const roots = await buildTree(
    segmentsAround(speakers, () => 0),
    { mayJoinTracks: false, yieldToLoop },
  );
  const groups = cutTree(roots, 2).map((cluster) => segmentsOf(cluster));
  expect(groups.flat()).toHaveLength(1_700);
  expect(groups.map((group) => new Set(group.map((index) => speakers[index])).size)).toEqual([1, 1]);
}, 60_000);
