import type { YieldToLoop } from "./diarize-tracks.ts";
import { clustersOf, countBelow, linkVectors, product, unitOf } from "./neural-linkage.ts";

/** Vectors of voices, clustered once, so that they can be divided into any number of people. */
export type VoiceTree = {
  /** Returns how many people there are when voices closer than a cosine distance belong to one. */
  countBelow(distance: number): number;
  /** Returns the person of each vector. People are numbered from 0. */
  divide(people: number): Promise<Int32Array>;
};

/**
 * Memory for clustering grows with the square of this number: 290 MB. Two and a half hours of two speakers have about
 * as many voices.
 */
export const MOST_LINKED = 12_000;

/**
 * Clusters voices. Of a longer recording, evenly distributed voices are clustered, and each of the others goes to the
 * person whose voices are nearest on average.
 *
 * @param mostLinked replaced in tests
 */
export async function growVoiceTree(
  vectors: readonly Float32Array[],
  yieldToLoop: YieldToLoop,
  mostLinked = MOST_LINKED,
): Promise<VoiceTree> {
  const step = Math.max(1, vectors.length / mostLinked);
  const linked = Array.from({ length: Math.min(vectors.length, mostLinked) }, (_, n) => Math.floor(n * step));
  const chosen = linked.flatMap((index) => vectors[index] ?? []);
  const joints = await linkVectors(chosen, yieldToLoop);
  return {
    countBelow: (distance) => countBelow(joints, distance),
    async divide(people) {
      const clusters = clustersOf(joints, people);
      if (linked.length === vectors.length) return clusters;
      const middles = middlesOf(chosen, clusters);
      const divided = new Int32Array(vectors.length);
      for (const [index, vector] of vectors.entries()) {
        divided[index] = nearestOf(middles, vector);
        await yieldToLoop();
      }
      for (const [n, index] of linked.entries()) divided[index] = clusters[n] ?? 0;
      return divided;
    },
  };
}

function middlesOf(vectors: readonly Float32Array[], clusters: Int32Array): Float32Array[] {
  const sums: Float32Array[] = [];
  for (const [index, vector] of vectors.entries()) {
    const cluster = clusters[index] ?? 0;
    sums[cluster] ??= new Float32Array(vector.length);
    const sum = sums[cluster];
    for (const [position, value] of unitOf(vector).entries()) sum[position] = (sum[position] ?? 0) + value;
  }
  return sums.map(unitOf);
}

function nearestOf(middles: readonly Float32Array[], vector: Float32Array): number {
  let nearest = 0;
  let most = Number.NEGATIVE_INFINITY;
  for (const [index, middle] of middles.entries()) {
    const likeness = product(middle, vector);
    if (likeness > most) {
      nearest = index;
      most = likeness;
    }
  }
  return nearest;
}
