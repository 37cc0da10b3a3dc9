import { describe, expect, test } from "bun:test";
import { randomFrom } from "../testing/makers/voices.ts";
import { clustersOf, countBelow, distancesBetween, linkItems, product, unitOf } from "./neural-linkage.ts";

const noYield = async () => undefined;

const NONE = new Float32Array();

/** Unit vectors around random directions. */
function makeVectors(count: number, groups: number, spread: number, seed: number): Float32Array[] {
  const random = randomFrom(seed);
  const middles = Array.from({ length: groups }, () =>
    Float32Array.from({ length: 8 }, () => random() - 0.5),
  );
  return Array.from({ length: count }, (_, index) =>
    unitOf((middles[index % groups] ?? NONE).map((value) => value + spread * (random() - 0.5))),
  );
}

/** Joins the two nearest clusters again and again, as the definition says. */
function joinedByDefinition(vectors: readonly Float32Array[], below: number): Set<number>[] {
  const clusters = vectors.map((_, index) => new Set([index]));
  const distance = (one: Set<number>, other: Set<number>) => {
    let sum = 0;
    for (const a of one) for (const b of other) sum += 1 - product(vectors[a] ?? NONE, vectors[b] ?? NONE);
    return sum / (one.size * other.size);
  };
  while (clusters.length > 1) {
    let best = { distance: Number.POSITIVE_INFINITY, one: 0, other: 0 };
    for (let one = 0; one < clusters.length; one++)
      for (let other = one + 1; other < clusters.length; other++) {
        const found = distance(clusters[one] ?? new Set(), clusters[other] ?? new Set());
        if (found < best.distance) best = { distance: found, one, other };
      }
    if (best.distance >= below) break;
    for (const item of clusters[best.other] ?? []) clusters[best.one]?.add(item);
    clusters.splice(best.other, 1);
  }
  return clusters;
}

function groupsOf(labels: Int32Array): string[] {
  const groups = new Map<number, number[]>();
  for (const [index, label] of labels.entries()) groups.set(label, [...(groups.get(label) ?? []), index]);
  return [...groups.values()].map((group) => group.join()).sort();
}

describe("clusters of voices", () => {
  test.each([
    [1, 0.2],
    [2, 0.5],
    [3, 0.9],
    [4, 1.4],
  ])("are those of the definition, seed %d", async (seed, below) => {
    const vectors = makeVectors(40, 5, 0.6, seed);
    const distances = await distancesBetween(vectors, noYield);
    const before = distances.values.slice();
    const joints = await linkItems(distances, noYield);
    expect(distances.values).toEqual(before);
    expect(joints).toHaveLength(vectors.length - 1);
    const labels = clustersOf(joints, countBelow(joints, below));
    const expected = joinedByDefinition(vectors, below).map((set) => [...set].sort((a, b) => a - b).join());
    expect(groupsOf(labels)).toEqual(expected.sort());
  });

  test("are as many as wanted, numbered by their first voices", async () => {
    const joints = await linkItems(await distancesBetween(makeVectors(12, 3, 0.05, 9), noYield), noYield);
    expect([...clustersOf(joints, 3)]).toEqual([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
    expect(new Set(clustersOf(joints, 1)).size).toBe(1);
    expect(new Set(clustersOf(joints, 100)).size).toBe(12);
  });
});
