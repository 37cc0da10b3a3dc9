import type { YieldToLoop } from "./diarize-tracks.ts";

/** Two clusters become one: an item of each, and the mean distance between the items of one and of the other. */
export type Joint = { one: number; other: number; distance: number };

/**
 * The distances of items from each other: those of the first from all others, then those of the second from all after it,
 * and so on. They take 2 bytes times the square of the number of items.
 */
export type PairDistances = { count: number; values: Float32Array };

/** Returns where the distances of an item from those after it begin, less the number of the item itself and 1. */
export function rowOf(item: number, count: number): number {
  return (item * (2 * count - item - 1)) / 2 - item - 1;
}

/**
 * Clusters items bottom-up by average linkage: the distance of two clusters is the mean over all pairs of an item of
 * each. The algorithm follows chains of nearest neighbours (Müllner 2011, "Modern hierarchical, agglomerative clustering
 * algorithms"). It works on a copy of the distances.
 *
 * @returns one joint less than items, in order of the distance
 */
export async function linkItems(
  { count, values }: PairDistances,
  yieldToLoop: YieldToLoop,
): Promise<Joint[]> {
  const distances = values.slice();
  const at = (one: number, other: number) =>
    one < other ? rowOf(one, count) + other : rowOf(other, count) + one;
  const left = Array.from({ length: count }, (_, item) => item);
  const sizes = new Uint32Array(count).fill(1);
  const joints: Joint[] = [];
  const chain: number[] = [];
  while (left.length > 1) {
    await yieldToLoop();
    if (chain.length === 0) chain.push(left[0] ?? 0);
    const last = chain.at(-1) ?? 0;
    const before = chain.at(-2);
    let nearest = before ?? -1;
    let distance = before === undefined ? Number.POSITIVE_INFINITY : (distances[at(last, before)] ?? 0);
    for (const item of left) {
      if (item === last) continue;
      const found = distances[at(last, item)] ?? 0;
      if (found < distance || nearest < 0) {
        nearest = item;
        distance = found;
      }
    }
    if (nearest !== before) {
      chain.push(nearest);
      continue;
    }
    chain.length -= 2;
    joints.push({ one: last, other: nearest, distance });
    left.splice(left.indexOf(last), 1);
    const [its, theirs] = [sizes[last] ?? 1, sizes[nearest] ?? 1];
    sizes[nearest] = its + theirs;
    for (const item of left) {
      if (item === nearest) continue;
      const joined = at(nearest, item);
      const sum = its * (distances[at(last, item)] ?? 0) + theirs * (distances[joined] ?? 0);
      distances[joined] = sum / (its + theirs);
    }
  }
  return joints.sort((one, other) => one.distance - other.distance);
}

/**
 * Computes the distance of each pair of vectors, which is 1 − cosine.
 *
 * @param units unit vectors of the same length
 */
export async function distancesBetween(
  units: readonly Float32Array[],
  yieldToLoop: YieldToLoop,
): Promise<PairDistances> {
  const distances = new Float32Array((units.length * (units.length - 1)) / 2);
  let filled = 0;
  for (const [index, one] of units.entries()) {
    for (let other = index + 1; other < units.length; other++) {
      distances[filled++] = Math.max(0, 1 - product(one, units[other] ?? one));
    }
    await yieldToLoop();
  }
  return { count: units.length, values: distances };
}

export function unitOf(vector: Float32Array): Float32Array {
  const length = Math.sqrt(product(vector, vector));
  return length > 0 ? vector.map((value) => value / length) : vector;
}

export function product(one: Float32Array, other: Float32Array): number {
  let sum = 0;
  for (let index = 0; index < one.length; index++) sum += (one[index] ?? 0) * (other[index] ?? 0);
  return sum;
}

/** Returns how many clusters are left when those closer than a distance are joined. */
export function countBelow(joints: readonly Joint[], distance: number): number {
  return joints.length + 1 - joints.filter((joint) => joint.distance < distance).length;
}

/**
 * Joins items until a number of clusters is left.
 *
 * @param joints in order, one less than there are items
 * @returns the cluster of each item; clusters are numbered in the order of their first items
 */
export function clustersOf(joints: readonly Joint[], clusters: number): Int32Array {
  const items = joints.length + 1;
  const parents = Int32Array.from({ length: items }, (_, item) => item);
  const rootOf = (item: number): number => {
    let root = item;
    while (parents[root] !== root) {
      parents[root] = parents[parents[root] ?? root] ?? root;
      root = parents[root] ?? root;
    }
    return root;
  };
  for (const { one, other } of joints.slice(0, Math.max(0, items - Math.max(1, clusters)))) {
    parents[rootOf(one)] = rootOf(other);
  }
  const numbers = new Map<number, number>();
  return parents.map((_, item) => {
    const root = rootOf(item);
    const number = numbers.get(root) ?? numbers.size;
    numbers.set(root, number);
    return number;
  });
}
