import type { ChunkRegion } from "../domain/chunk.ts";
import type { EffortLimit, Recognition } from "../domain/recognition.ts";
import { lengthMs } from "./spans.ts";

/** A chunk with all its attempts costs at most so many times as much as one with clear speech. */
const MOST_EFFORT = 2.5;

/** What a chunk has cost, and how much its next attempt may cost. */
export type ChunkEffort = {
  /** The limit of the next attempt; undefined: nothing is left. */
  left(): EffortLimit | undefined;
  /** Counts an attempt at some regions of the chunk. */
  add(recognition: Pick<Recognition, "effort">, regions: readonly ChunkRegion[]): void;
};

/**
 * Creates the budget that all attempts at a chunk share. Nothing else bounds their number.
 *
 * A recognizer that measures its effort also keeps within the limit while it writes. For others, which do the same work for
 * all audio of a length, an attempt costs the share of the chunk that it hears.
 */
export function createChunkEffort(chunk: readonly ChunkRegion[]): ChunkEffort {
  const ofMs = lengthMs(chunk);
  let most = MOST_EFFORT;
  return {
    left: () => (most > 0 ? { ofMs, most } : undefined),
    add({ effort }, regions) {
      most -= effort ?? lengthMs(regions) / ofMs;
    },
  };
}
