import type { YieldToLoop } from "./diarize-tracks.ts";
import { product } from "./neural-linkage.ts";
import type { VoiceTree } from "./neural-voices.ts";

/**
 * Distances between the voices of clusters: for each pair of clusters, and each cluster with itself, their sum and how
 * many there are. Both are square: the entry of clusters a and b is at a × count + b.
 */
export type ClusterDistances = {
  count: number;
  sums: Float64Array;
  pairs: Float64Array;
  /** The mean distance of two voices of the same cluster in this track. */
  usual: number;
};

/** A cluster with few pairs of its own counts as if it had this many more, with the distance that is usual. */
const USUAL_PAIRS = 15;
/** The usual distance of a track with fewer pairs, and that many. */
const USUAL_WITHIN = 0.12;
const LEAST_PAIRS = 10;

/**
 * Compares all linked voices of a track. Voices of a cluster that share sound say nothing of how much the voice of a
 * person changes, so pairs of windows that overlap do not count within a cluster.
 *
 * @param clusters the cluster of each linked voice, from 0
 */
export async function compareClusters(
  { linked, linkedWindows, windowsApart }: VoiceTree,
  clusters: Int32Array,
  yieldToLoop: YieldToLoop,
): Promise<ClusterDistances> {
  const count = clusters.reduce((most, cluster) => Math.max(most, cluster + 1), 0);
  const sums = new Float64Array(count * count);
  const pairs = new Float64Array(count * count);
  for (const [index, one] of linked.entries()) {
    const its = clusters[index] ?? 0;
    for (let before = 0; before < index; before++) {
      const theirs = clusters[before] ?? 0;
      const isApart = (linkedWindows[index] ?? 0) - (linkedWindows[before] ?? 0) >= windowsApart;
      if (its === theirs && !isApart) continue;
      const distance = Math.max(0, 1 - product(one, linked[before] ?? one));
      const place = its < theirs ? its * count + theirs : theirs * count + its;
      sums[place] = (sums[place] ?? 0) + distance;
      pairs[place] = (pairs[place] ?? 0) + 1;
    }
    await yieldToLoop();
  }
  let [sum, number] = [0, 0];
  for (let cluster = 0; cluster < count; cluster++) {
    sum += sums[cluster * (count + 1)] ?? 0;
    number += pairs[cluster * (count + 1)] ?? 0;
    for (let other = 0; other < cluster; other++) {
      sums[cluster * count + other] = sums[other * count + cluster] ?? 0;
      pairs[cluster * count + other] = pairs[other * count + cluster] ?? 0;
    }
  }
  return { count, sums, pairs, usual: number < LEAST_PAIRS ? USUAL_WITHIN : sum / number };
}

/**
 * Joins clusters that are the same person, nearest first: the voices of one are hardly further from those of the other
 * than they are from each other. What they are further apart is the energy distance (Székely and Rizzo 2013, "Energy
 * statistics"): the mean distance between both, less the mean of those within each.
 *
 * @param limit clusters that are less far apart are joined
 * @returns for each cluster the first of those that it is joined with
 */
export function joinClusters(distances: ClusterDistances, limit: number): Int32Array {
  const { count, usual } = distances;
  const sums = distances.sums.slice();
  const pairs = distances.pairs.slice();
  const joined = Int32Array.from({ length: count }, (_, cluster) => cluster);
  const left = [...joined];
  const within = (cluster: number) => {
    const own = cluster * (count + 1);
    return ((sums[own] ?? 0) + USUAL_PAIRS * usual) / ((pairs[own] ?? 0) + USUAL_PAIRS);
  };
  const energy = (one: number, other: number) =>
    (sums[one * count + other] ?? 0) / (pairs[one * count + other] ?? 1) - (within(one) + within(other)) / 2;
  while (left.length > 1) {
    const { one, other, distance } = nearestOf(left, energy);
    if (distance >= limit) break;
    left.splice(left.indexOf(other), 1);
    for (const values of [sums, pairs]) {
      const at = (row: number, column: number) => values[row * count + column] ?? 0;
      values[one * (count + 1)] = at(one, one) + at(other, other) + at(one, other);
      for (const third of left) {
        if (third === one) continue;
        const sum = at(one, third) + at(other, third);
        values[one * count + third] = sum;
        values[third * count + one] = sum;
      }
    }
    for (const [cluster, to] of joined.entries()) if (to === other) joined[cluster] = one;
  }
  return joined;
}

/** Returns the two clusters that are nearest to each other. */
function nearestOf(clusters: readonly number[], distanceOf: (one: number, other: number) => number) {
  let nearest = { one: -1, other: -1, distance: Number.POSITIVE_INFINITY };
  for (const [index, one] of clusters.entries()) {
    for (const other of clusters.slice(index + 1)) {
      const distance = distanceOf(one, other);
      if (distance < nearest.distance) nearest = { one, other, distance };
    }
  }
  return nearest;
}
