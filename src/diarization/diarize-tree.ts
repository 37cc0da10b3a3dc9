import { COEFFICIENTS } from "./diarize-features.ts";
import {
  addSums,
  emptySums,
  type Gaussian,
  gaussianOf,
  likelihoodRatio,
  modelCost,
} from "./diarize-gaussian.ts";
import type { SpeakerSegment } from "./diarize-segments.ts";
import type { YieldToLoop } from "./diarize-tracks.ts";

/** A segment, or two clusters that were joined. */
export type Cluster = {
  track: number;
  gaussian: Gaussian;
  /** Index of the segment; only in a leaf. */
  segment?: number;
  children?: readonly [Cluster, Cluster];
  /** Number of the joining, 0 in a leaf. Children that were joined later are less alike. */
  order: number;
};

/** Shorter segments have no usable covariance. Their speaker is decided at the end. */
const SHORTEST_FRAMES = 50;
/** The number of distances grows with the square, so more clusters than this are first joined in groups … */
const GROUP_SIZE = 800;
/** … until this many are left in each, far more than there are speakers. */
const KEPT_OF_GROUP = 100;
const DISTANCES_PER_YIELD = 500;

export type TreeOptions = {
  /** Whether segments of different tracks can be of one speaker. */
  mayJoinTracks: boolean;
  yieldToLoop: YieldToLoop;
};

/**
 * Joins segments to ever larger clusters until nothing can be joined any more. Each step joins the two that the Bayesian
 * information criterion prefers (Chen and Gopalakrishnan 1998; local criterion of Tritschler and Gopinath 1999).
 *
 * @returns the roots: one, or one for each track if tracks cannot be joined
 */
export async function buildTree(
  segments: readonly SpeakerSegment[],
  { mayJoinTracks, yieldToLoop }: TreeOptions,
): Promise<Cluster[]> {
  const all = segments.map(({ track, gaussian }, segment) => ({ track, gaussian, segment, order: 0 }));
  const long = all.filter(({ gaussian }) => gaussian.frames >= SHORTEST_FRAMES);
  let clusters: Cluster[] = long.length > 0 ? long : all.filter(({ gaussian }) => gaussian.frames > 0);
  const counter = { joined: 0 };
  while (clusters.length > GROUP_SIZE) {
    const kept: Cluster[] = [];
    for (let start = 0; start < clusters.length; start += GROUP_SIZE) {
      const group = clusters.slice(start, start + GROUP_SIZE);
      kept.push(...(await join(group, KEPT_OF_GROUP, { mayJoinTracks, yieldToLoop }, counter)));
    }
    // Groups whose tracks cannot be joined may keep more clusters. Without progress, the rest is joined at once.
    if (kept.length >= clusters.length) break;
    clusters = kept;
  }
  return join(clusters, 1, { mayJoinTracks, yieldToLoop }, counter);
}

async function join(
  clusters: readonly Cluster[],
  until: number,
  { mayJoinTracks, yieldToLoop }: TreeOptions,
  counter: { joined: number },
): Promise<Cluster[]> {
  const scratch = new Float64Array((COEFFICIENTS * (COEFFICIENTS + 1)) / 2);
  const table = createDistanceTable(clusters.length);
  const nodes: (Cluster | undefined)[] = [...clusters];
  const distance = (a: Cluster, b: Cluster): number => {
    if (!mayJoinTracks && a.track !== b.track) return Number.POSITIVE_INFINITY;
    const frames = a.gaussian.frames + b.gaussian.frames;
    return likelihoodRatio(a.gaussian, b.gaussian, scratch) - modelCost(COEFFICIENTS, frames);
  };
  let measured = 0;
  const measure = async (row: number): Promise<void> => {
    const cluster = nodes[row];
    for (let other = 0; other < nodes.length; other++) {
      const against = nodes[other];
      if (!cluster || !against || other === row) continue;
      if (Number.isNaN(table.get(row, other))) table.set(row, other, distance(cluster, against));
      if (++measured % DISTANCES_PER_YIELD === 0) await yieldToLoop();
    }
  };
  for (let row = 0; row < nodes.length; row++) await measure(row);
  table.findNearest();
  let left = nodes.length;
  while (left > until) {
    const pair = table.closest();
    const [a, b] = pair ? [nodes[pair.a], nodes[pair.b]] : [];
    if (!pair || !a || !b) break;
    const sums = emptySums(COEFFICIENTS);
    addSums(sums, a.gaussian);
    addSums(sums, b.gaussian);
    nodes[pair.a] = {
      track: a.track,
      gaussian: gaussianOf(sums, scratch),
      children: [a, b],
      order: ++counter.joined,
    };
    nodes[pair.b] = undefined;
    table.forget(pair.a, pair.b);
    await measure(pair.a);
    table.refresh(pair.a);
    left--;
  }
  return nodes.filter((node) => node !== undefined);
}

/**
 * Holds the distances of all pairs, and each cluster's nearest one, so that the closest pair is found in linear time.
 */
function createDistanceTable(size: number) {
  const distances = new Float32Array(size * size).fill(Number.NaN);
  const nearest = new Int32Array(size).fill(-1);
  const isGone = new Uint8Array(size);
  const get = (a: number, b: number) => distances[a * size + b] ?? Number.NaN;

  function search(row: number): void {
    let best = -1;
    for (let other = 0; other < size; other++) {
      if (other === row || isGone[other]) continue;
      if (best === -1 || get(row, other) < get(row, best)) best = other;
    }
    nearest[row] = best;
  }

  return {
    get,
    set(a: number, b: number, distance: number): void {
      distances[a * size + b] = distance;
      distances[b * size + a] = distance;
    },
    findNearest(): void {
      for (let row = 0; row < size; row++) search(row);
    },
    /** Returns the closest pair; undefined when no two clusters can be joined. */
    closest(): { a: number; b: number } | undefined {
      let best = -1;
      for (let row = 0; row < size; row++) {
        if (isGone[row] || nearest[row] === -1) continue;
        if (best === -1 || get(row, nearest[row] ?? 0) < get(best, nearest[best] ?? 0)) best = row;
      }
      const other = nearest[best] ?? -1;
      if (best === -1 || other === -1 || get(best, other) === Number.POSITIVE_INFINITY) return undefined;
      return { a: Math.min(best, other), b: Math.max(best, other) };
    },
    /** Forgets the distances of `kept`, which now also contains `gone`. */
    forget(kept: number, gone: number): void {
      isGone[gone] = 1;
      for (let other = 0; other < size; other++) {
        distances[kept * size + other] = Number.NaN;
        distances[other * size + kept] = Number.NaN;
      }
    },
    /** Updates the nearest ones after the distances of a changed cluster were set again. */
    refresh(changed: number): void {
      search(changed);
      for (let row = 0; row < size; row++) {
        if (isGone[row] || row === changed) continue;
        const known = nearest[row] ?? -1;
        if (known === -1 || known === changed || isGone[known]) search(row);
        else if (get(row, changed) < get(row, known)) nearest[row] = changed;
      }
    },
  };
}

/** Returns the indexes of a cluster's segments, in order. */
export function segmentsOf(cluster: Cluster): number[] {
  const segments: number[] = [];
  const waiting = [cluster];
  for (let node = waiting.pop(); node; node = waiting.pop()) {
    if (node.segment !== undefined) segments.push(node.segment);
    if (node.children) waiting.push(...node.children);
  }
  return segments.sort((a, b) => a - b);
}

/** Undoes the last joinings until there are `count` clusters, or no joining is left. */
export function cutTree(roots: readonly Cluster[], count: number): Cluster[] {
  const clusters = [...roots];
  while (clusters.length < count) {
    let latest = -1;
    for (const [index, { children, order }] of clusters.entries()) {
      if (children && (latest === -1 || order > (clusters[latest]?.order ?? 0))) latest = index;
    }
    const children = clusters[latest]?.children;
    if (!children) break;
    clusters.splice(latest, 1, ...children);
  }
  return clusters;
}
