import type { YieldToLoop } from "./diarize-tracks.ts";
import { rowOf } from "./neural-linkage.ts";
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
 * @param clusters the cluster of each linked voice, from 0; −1: it belongs to none
 */
export async function compareClusters(
  { distances, linkedAt, windows, windowsApart }: VoiceTree,
  clusters: Int32Array,
  yieldToLoop: YieldToLoop,
): Promise<ClusterDistances> {
  const count = clusters.reduce((most, cluster) => Math.max(most, cluster + 1), 0);
  const sums = new Float64Array(count * count);
  const pairs = new Float64Array(count * count);
  const windowOf = (index: number) => windows[linkedAt[index] ?? 0] ?? 0;
  for (let index = 0; index < distances.count; index++) {
    const its = clusters[index] ?? -1;
    const row = rowOf(index, distances.count);
    for (let later = index + 1; its >= 0 && later < distances.count; later++) {
      const theirs = clusters[later] ?? -1;
      const isApart = windowOf(later) - windowOf(index) >= windowsApart;
      if (theirs < 0 || (its === theirs && !isApart)) continue;
      const cell = its < theirs ? its * count + theirs : theirs * count + its;
      sums[cell] = (sums[cell] ?? 0) + (distances.values[row + later] ?? 0);
      pairs[cell] = (pairs[cell] ?? 0) + 1;
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
 * Finds the two clusters that are nearest to each other by the energy distance (Székely and Rizzo 2013, "Energy
 * statistics"): the mean distance between both, less the mean of those within each. So clusters are near when the voices of
 * one are hardly further from those of the other than they are from each other.
 *
 * @param among clusters to choose from
 * @returns both, and a distance that is infinite when there are not two
 */
export function nearestClusters({ count, sums, pairs, usual }: ClusterDistances, among?: readonly number[]) {
  const within = (cluster: number) => {
    const own = cluster * (count + 1);
    return ((sums[own] ?? 0) + USUAL_PAIRS * usual) / ((pairs[own] ?? 0) + USUAL_PAIRS);
  };
  const clusters = among ?? Array.from({ length: count }, (_, cluster) => cluster);
  let nearest = { one: -1, other: -1, distance: Number.POSITIVE_INFINITY };
  for (const [index, one] of clusters.entries()) {
    for (let later = index + 1; later < clusters.length; later++) {
      const other = clusters[later] ?? 0;
      const cell = one * count + other;
      const between = (sums[cell] ?? 0) / (pairs[cell] ?? 0);
      const distance = between - (within(one) + within(other)) / 2;
      if (distance < nearest.distance) nearest = { one, other, distance };
    }
  }
  return nearest;
}

/**
 * Joins clusters that are the same person, nearest first.
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
  for (;;) {
    const { one, other, distance } = nearestClusters({ count, sums, pairs, usual }, left);
    if (distance >= limit) return joined;
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
}
