import { assign } from "../../lib/assign.ts";
import type { YieldToLoop } from "./diarize-tracks.ts";
import { clustersOf, countBelow, product, unitOf } from "./neural-linkage.ts";
import type { VoiceTree } from "./neural-voices.ts";

/** Who no one is: the voice of a cluster that was dropped, or one too many in its window. */
const NOBODY = -1;

/** Average linkage joins clusters that are nearer than this share of the distance of different people. */
const JOIN_BELOW = 0.6;
/** A cluster needs the smaller of this time and this share of all time. */
const LEAST_MS = 2_000;
const LEAST_SHARE = 0.01;
/** A cluster with a smaller share, within this share of the distance of people from a larger one, is not a person. */
const NEAR = 0.5;
const NEAR_SHARE = 0.07;
/** Clusters into which the tree is cut at most to find a given number of people. */
const MOST_CUTS = 60;
/** Centres are computed this many times, each time from the voices that are nearest to the ones before. */
const ROUNDS = 3;

/** The least time that a cluster needs to be a person, milliseconds. */
export function leastMsOf({ linkedMs }: VoiceTree): number {
  return Math.min(LEAST_MS, LEAST_SHARE * sumOf(linkedMs));
}

/**
 * Finds the clusters that are people: the tree is cut at a share of the distance that different people of this track
 * have; clusters with too little time are dropped, and so are small ones near a larger one, which hold two mixed voices.
 *
 * @returns the number of the person of each linked voice, or −1
 */
export function foundClusters(tree: VoiceTree): Int32Array {
  const { joints, apart, linked, linkedMs } = tree;
  const clusters = clustersOf(joints, countBelow(joints, JOIN_BELOW * apart));
  const times = timesOf(clusters, linkedMs);
  const least = leastMsOf(tree);
  const all = [...times.keys()];
  const longest = all.reduce((one, other) => ((times[other] ?? 0) > (times[one] ?? 0) ? other : one), 0);
  const large = all.filter((cluster) => (times[cluster] ?? 0) >= least || cluster === longest);
  const middles = middlesOf(linked, clusters);
  const kept = new Set(large);
  for (const cluster of large.toSorted((one, other) => (times[one] ?? 0) - (times[other] ?? 0))) {
    const time = times[cluster] ?? 0;
    if (time >= NEAR_SHARE * sumOf(times)) continue;
    const isNear = [...kept].some(
      (other) =>
        (times[other] ?? 0) > time &&
        1 - product(middles[cluster] ?? EMPTY, middles[other] ?? EMPTY) < NEAR * apart,
    );
    if (isNear) kept.delete(cluster);
  }
  return renumber(clusters, [...kept]);
}

/**
 * Finds the coarsest cut of the tree with this many clusters of enough time.
 *
 * @param leastMs time that is enough
 * @returns the number of the person of each linked voice, or −1; undefined when no cut has so many
 */
export function givenClusters({ joints, linkedMs }: VoiceTree, people: number, leastMs: number) {
  for (let count = people; count <= Math.min(linkedMs.length, MOST_CUTS); count++) {
    const clusters = clustersOf(joints, count);
    const times = timesOf(clusters, linkedMs);
    if (times.filter((time) => time >= leastMs).length < people) continue;
    const order = [...times.keys()].sort((one, other) => (times[other] ?? 0) - (times[one] ?? 0));
    return renumber(clusters, order.slice(0, people));
  }
  return undefined;
}

/**
 * Gives each voice of the track to a person: to the nearest centre, and voices of one window to different people.
 *
 * @param clusters the person of each linked voice, or −1
 * @returns the person of each voice of the track; −1: its window has more voices than there are people
 */
export async function peopleOf(
  { units, windows, usable, linked }: VoiceTree,
  clusters: Int32Array,
  yieldToLoop: YieldToLoop,
): Promise<Int32Array> {
  let middles = middlesOf(linked, clusters);
  const usableUnits = usable.flatMap((index) => units[index] ?? []);
  for (let round = 1; round < ROUNDS; round++) {
    const nearest = new Int32Array(usableUnits.length);
    for (const [index, unit] of usableUnits.entries()) {
      nearest[index] = nearestOf(middles, unit);
      await yieldToLoop();
    }
    middles = middlesOf(usableUnits, nearest, middles);
  }
  const people = new Int32Array(units.length);
  for (let first = 0, end = 0; first < units.length; first = end) {
    while (end < units.length && windows[end] === windows[first]) end++;
    people.set(differentPeople(middles, units.slice(first, end)), first);
    await yieldToLoop();
  }
  return people;
}

/** Returns the people of the voices of one window. */
function differentPeople(middles: readonly Float32Array[], voices: readonly Float32Array[]): number[] {
  const people = voices.map((voice) => nearestOf(middles, voice));
  if (new Set(people).size === people.length) return people;
  return assign(voices.map((voice) => middles.map((middle) => product(voice, middle))));
}

const EMPTY = new Float32Array();

/** Returns the time of each cluster, milliseconds. */
function timesOf(clusters: Int32Array, linkedMs: readonly number[]): number[] {
  const times: number[] = [];
  for (const [index, cluster] of clusters.entries()) {
    times[cluster] = (times[cluster] ?? 0) + (linkedMs[index] ?? 0);
  }
  return times;
}

/** Numbers the clusters that are kept in their order, from 0. */
function renumber(clusters: Int32Array, kept: readonly number[]): Int32Array {
  const numbers = new Map(kept.map((cluster, number) => [cluster, number]));
  return clusters.map((cluster) => numbers.get(cluster) ?? NOBODY);
}

/** @param before what a cluster without vectors keeps */
function middlesOf(
  units: readonly Float32Array[],
  clusters: Int32Array,
  before: readonly Float32Array[] = [],
): Float32Array[] {
  const sums: (Float32Array | undefined)[] = [];
  for (const [index, unit] of units.entries()) {
    const cluster = clusters[index] ?? NOBODY;
    if (cluster === NOBODY) continue;
    const sum = sums[cluster] ?? new Float32Array(unit.length);
    sums[cluster] = sum;
    for (let position = 0; position < unit.length; position++) {
      sum[position] = (sum[position] ?? 0) + (unit[position] ?? 0);
    }
  }
  const count = Math.max(sums.length, before.length);
  return Array.from({ length: count }, (_, cluster) => {
    const sum = sums[cluster];
    return sum ? unitOf(sum) : (before[cluster] ?? EMPTY);
  });
}

function nearestOf(middles: readonly Float32Array[], unit: Float32Array): number {
  let nearest = 0;
  let most = Number.NEGATIVE_INFINITY;
  for (const [index, middle] of middles.entries()) {
    const likeness = product(middle, unit);
    if (likeness > most) {
      nearest = index;
      most = likeness;
    }
  }
  return nearest;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}
