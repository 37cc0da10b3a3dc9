import type { EffortLimit, Recognition } from "../domain/recognition.ts";

/** A chunk with all its repetitions costs at most so many times as much as one with clear speech. */
const MOST_EFFORT = 2.5;

/** What a chunk has cost, and how much its next call may cost. */
export type ChunkEffort = {
  /** The limit of the next call; undefined: nothing is left. */
  left(): EffortLimit | undefined;
  add(recognition: Pick<Recognition, "effort">): void;
};

/** Creates the budget that all calls for a chunk share. */
export function createChunkEffort(speechMs: number): ChunkEffort {
  let most = MOST_EFFORT;
  return {
    left: () => (most > 0 ? { ofMs: speechMs, most } : undefined),
    add({ effort = 0 }) {
      most -= effort;
    },
  };
}
