import { assign } from "../lib/assign.ts";
import type { YieldToLoop } from "./diarize-tracks.ts";
import { type ClusterDistances, compareClusters, joinClusters, nearestClusters } from "./neural-joining.ts";
import { clustersOf, countBelow, product, unitOf } from "./neural-linkage.ts";
import type { VoiceTree } from "./neural-voices.ts";

/** Who no one is: the voice of a cluster that was dropped, or one too many in its window. */
const NOBODY = -1;

/** Average linkage joins voices that are nearer than this share of the distance of people, and than this distance. */
const JOIN_BELOW = 0.3;
const JOIN_SURELY_BELOW = 0.17;
const MOST_CLUSTERS = 200;
/** Clusters are the same person below this share of the distance between people, less that within a person. */
const SAME_BELOW = 0.3;
/** In a short track nearly all windows share sound. Few pairs tell how much a voice changes there, and less than it does. */
const SAME_BELOW_IN_SHORT = 0.5;
/** The difference of these distances is at least this, also where one person's voice changes more than people differ. */
const LEAST_DIFFERENCE = 0.1;
/** A cluster needs the smaller of this time and this share of all time. */
const LEAST_MS = 2_000;
const LEAST_SHARE = 0.01;
/** A small cluster within this share of the distance of people from a larger one is not a person. */
const NEAR = 0.5;
/** Such a cluster has less than this time, or the first share in long tracks and the second in short ones. */
const NEAR_MS = 5_000;
const NEAR_SHARE = 0.04;
const NEAR_SHARE_IN_SHORT = 0.07;
/** Clusters into which the tree is cut at most to find a given number of people. */
const MOST_CUTS = 60;
/**
 * A person on whom windows agree less does not exist: windows took two people for one. In short tracks such a person may be all
 * that is found of one who says little, and stays.
 */
const LEAST_AGREEMENT = 0.4;
/** Centres are computed this many times, each time from the voices that are nearest to the ones before. */
const ROUNDS = 3;

/** The least time that a cluster needs to be a person, milliseconds. */
export function leastMsOf({ linkedMs }: VoiceTree): number {
  return Math.min(LEAST_MS, LEAST_SHARE * sumOf(linkedMs));
}

/** Says how far windows agree on each person, 0 to 1 (`agreementOf`). */
export type AgreementIn = (people: Int32Array) => Promise<Float64Array>;

/**
 * Finds the people of a track. Where two of them are as near as one person once each voice has gone to the nearest, they
 * are joined. In a longer track one on whom the windows do not agree is dropped. Such voices come wherever two people follow
 * each other in the same way, so their time grows with the recording.
 *
 * @returns the person of each voice as `peopleOf` does, and how far the two nearest people are apart: 1 is the limit below
 * which they would be one
 */
export async function findPeople(
  tree: VoiceTree,
  agreementIn: AgreementIn,
  yieldToLoop: YieldToLoop,
): Promise<{ people: Int32Array; nearness: number }> {
  let clusters = await foundClusters(tree, yieldToLoop);
  for (;;) {
    const people = await peopleOf(tree, clusters, yieldToLoop);
    clusters = Int32Array.from(tree.linkedAt, (index) => people[index] ?? NOBODY);
    const distances = await compareClusters(tree, clusters, yieldToLoop);
    const { one, other, distance } = nearestClusters(distances);
    const nearness = distance / limitOf(tree, distances);
    const joined = nearness < 1 ? { from: other, to: one } : undefined;
    const changed = joined ?? (tree.isShort ? undefined : await leastAgreed(agreementIn, people));
    if (!changed) return { people, nearness };
    const left = clusters.map((cluster) => (cluster === changed.from ? changed.to : cluster));
    clusters = renumber(
      left,
      [...new Set(left)].filter((cluster) => cluster !== NOBODY),
    );
  }
}

/** Finds the person on whom windows agree least, who is dropped if that is too little. */
async function leastAgreed(agreementIn: AgreementIn, people: Int32Array) {
  const agreement = await agreementIn(people);
  const least = Math.min(...agreement);
  return least < LEAST_AGREEMENT ? { from: agreement.indexOf(least), to: NOBODY } : undefined;
}

/**
 * Finds the clusters that are people: voices that are surely the same person are linked, and clusters that are hardly
 * further from each other than their own voices are joined. Those with too little time are dropped, and so are small ones
 * near a larger one, which hold two mixed voices.
 *
 * @returns the number of the person of each linked voice, or −1
 */
async function foundClusters(tree: VoiceTree, yieldToLoop: YieldToLoop): Promise<Int32Array> {
  const { joints, apart } = tree;
  const first = countBelow(joints, Math.max(JOIN_SURELY_BELOW, JOIN_BELOW * apart));
  const clusters = clustersOf(joints, Math.min(MOST_CLUSTERS, first));
  const distances = await compareClusters(tree, clusters, yieldToLoop);
  const joined = joinClusters(distances, limitOf(tree, distances));
  return keepPeople(
    tree,
    clusters.map((cluster) => joined[cluster] ?? cluster),
  );
}

/** Returns the distance below which two clusters are the same person. */
function limitOf({ apart, isShort }: VoiceTree, { usual }: ClusterDistances): number {
  return (isShort ? SAME_BELOW_IN_SHORT : SAME_BELOW) * Math.max(LEAST_DIFFERENCE, apart - usual);
}

/** Drops the clusters that are not people, and numbers the others from 0. */
function keepPeople({ apart, linked, linkedMs }: VoiceTree, clusters: Int32Array): Int32Array {
  const times = timesOf(clusters, linkedMs);
  const whole = sumOf(linkedMs);
  const least = Math.min(LEAST_MS, LEAST_SHARE * whole);
  const small = Math.min(NEAR_SHARE_IN_SHORT * whole, Math.max(NEAR_MS, NEAR_SHARE * whole));
  const timeOf = (cluster: number) => times.get(cluster) ?? 0;
  const byTime = [...times.keys()].sort((one, other) => timeOf(one) - timeOf(other));
  const large = byTime.filter((cluster) => timeOf(cluster) >= least || cluster === byTime.at(-1));
  const middles = middlesOf(linked, clusters);
  const kept = new Set(large);
  for (const [index, cluster] of large.entries()) {
    if (timeOf(cluster) >= small) break;
    const isNear = large
      .slice(index + 1)
      .some((other) => 1 - product(middles[cluster] ?? EMPTY, middles[other] ?? EMPTY) < NEAR * apart);
    if (isNear) kept.delete(cluster);
  }
  return renumber(
    clusters,
    [...kept].sort((one, other) => one - other),
  );
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
    const times = [...timesOf(clusters, linkedMs)];
    if (times.filter(([, time]) => time >= leastMs).length < people) continue;
    times.sort(([, one], [, other]) => other - one);
    return renumber(
      clusters,
      times.slice(0, people).map(([cluster]) => cluster),
    );
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
function timesOf(clusters: Int32Array, linkedMs: readonly number[]): Map<number, number> {
  const times = new Map<number, number>();
  for (const [index, cluster] of clusters.entries()) {
    times.set(cluster, (times.get(cluster) ?? 0) + (linkedMs[index] ?? 0));
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
