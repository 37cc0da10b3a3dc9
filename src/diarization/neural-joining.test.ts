import { describe, expect, test } from "bun:test";
import { randomFrom } from "../testing/makers/voices.ts";
import { compareClusters, joinClusters } from "./neural-joining.ts";
import { clustersOf, product, unitOf } from "./neural-linkage.ts";
import { growVoiceTree } from "./neural-voices.ts";

const noYield = async () => undefined;
const WINDOW = { windowSamples: 160_000 };
const SHIFT_SAMPLES = 40_000;

/** Grows the tree of voices around a few directions, which alternate. */
async function treeOf(directions: number, voices: number, spread: number) {
  const random = randomFrom(11);
  const heard = Array.from({ length: voices }, (_, window) => ({
    window,
    speaker: 0,
    aloneMs: 3_000,
    unit: unitOf(
      Float32Array.from(
        { length: 12 },
        (_number, axis) => (axis === window % directions ? 1 : 0) + spread * (random() - 0.5),
      ),
    ),
  }));
  return growVoiceTree(WINDOW, { voices: heard, shiftSamples: SHIFT_SAMPLES }, 1, noYield);
}

describe("clusters", () => {
  test("are compared by all pairs of their voices, within one only by those that share no sound", async () => {
    const tree = await treeOf(3, 30, 0.4);
    const clusters = clustersOf(tree.joints, 5);
    const { count, sums, pairs } = await compareClusters(tree, clusters, noYield);
    expect(count).toBe(5);
    for (let one = 0; one < count; one++) {
      for (let other = 0; other < count; other++) {
        const distances = tree.linked.flatMap((a, i) =>
          tree.linked.flatMap((b, j) => {
            const isPair = clusters[i] === one && clusters[j] === other && (one !== other || j - i >= 4);
            return isPair ? [1 - product(a, b)] : [];
          }),
        );
        expect(pairs[one * count + other]).toBe(distances.length);
        expect(sums[one * count + other]).toBeCloseTo(
          distances.reduce((sum, distance) => sum + distance, 0),
          4,
        );
      }
    }
  });

  test("are joined when they are the same person, whatever their number was", async () => {
    const tree = await treeOf(3, 60, 0.5);
    for (const first of [3, 10, 40, 60]) {
      const clusters = clustersOf(tree.joints, first);
      const joined = joinClusters(await compareClusters(tree, clusters, noYield), 0.2);
      const people = Array.from(clusters, (cluster) => joined[cluster]);
      expect(new Set(people).size).toBe(3);
      expect(people.every((person, index) => person === people[index % 3])).toBe(true);
    }
  });

  test("stay apart at the limit of nothing, and are one without a limit", async () => {
    const tree = await treeOf(2, 20, 0.1);
    const distances = await compareClusters(tree, clustersOf(tree.joints, 4), noYield);
    expect([...joinClusters(distances, Number.NEGATIVE_INFINITY)]).toEqual([0, 1, 2, 3]);
    expect([...joinClusters(distances, Number.POSITIVE_INFINITY)]).toEqual([0, 0, 0, 0]);
  });
});
