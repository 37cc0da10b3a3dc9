import type { Chunk } from "../domain/chunk.ts";
import type { GapReason, Warning } from "../domain/result.ts";
import type { ChunkText } from "../pipeline/guarded-recognition.ts";
import type { LooseSegment } from "../pipeline/stitch.ts";

/** A chunk before it has a record. */
export type NewChunk = Chunk & { channel: number };

/** A chunk and what became of it so far. */
export type ChunkRecord = NewChunk & {
  /** Place among the chunks of the recording, from 0. */
  position: number;
  state: "waiting" | "done" | "failed";
  /** Attempts that ended in an error or a dead worker process. */
  failures: number;
  /** The attempts among them that ended their worker process. */
  crashes: number;
  /** With state `done`. */
  segments: LooseSegment[] | null;
  /** With state `done`. */
  warnings: Warning[] | null;
  /** With state `failed`. */
  gapReason: GapReason | null;
};

/** What preparation found out about a recording. */
export type Preparation = {
  warnings: Warning[];
  /** Absent: the chunks are recorded already. */
  chunks?: NewChunk[];
  /** Audio to recognize, milliseconds over the channels that are recognized. */
  totalMs: number;
};

/**
 * What recognition remembers of its progress. On the server these are rows, so that work continues after a restart
 * from the last finished chunk; for a command they are kept in memory.
 *
 * All functions are synchronous. Those that write may throw what the store throws; recognition passes that on.
 */
export type Checkpoint = {
  /** Warnings of an earlier preparation, whose chunks are recorded; undefined when there was none. */
  preparedWarnings(): Warning[] | undefined;
  /** Records the preparation. False when the transcription has ended meanwhile. */
  savePreparation(preparation: Preparation): boolean;
  /** All chunks in order of position. */
  chunks(): ChunkRecord[];
  /**
   * Ends a waiting chunk with its text. Changes nothing when the chunk has ended already.
   *
   * @param doneMs audio that has its outcome with this chunk, milliseconds over the channels
   */
  completeChunk(position: number, text: ChunkText, doneMs: number): void;
  /** Ends a waiting chunk without text. Changes nothing when the chunk has ended already. */
  giveUpChunk(position: number, reason: GapReason, doneMs: number): void;
  /** Counts a failed attempt of a waiting chunk. Undefined when the chunk has ended already. */
  countFailure(position: number, hasCrashed: boolean): Pick<ChunkRecord, "failures" | "crashes"> | undefined;
  /** Records that every chunk has its outcome. False when the transcription has ended meanwhile. */
  finishChunks(): boolean;
};

/**
 * Keeps progress in memory, for work that nobody continues after the program has ended.
 *
 * @param onProgress called after each chunk with the share of the recording that has its outcome, 0 to 1
 */
export function createMemoryCheckpoint(onProgress: (share: number) => void = () => {}): Checkpoint {
  let warnings: Warning[] | undefined;
  let totalMs = 0;
  let records: ChunkRecord[] = [];

  function end(position: number, outcome: Partial<ChunkRecord>, doneMs: number): void {
    const record = records[position];
    if (record?.state !== "waiting") return;
    Object.assign(record, outcome);
    onProgress(totalMs === 0 ? 1 : Math.min(1, doneMs / totalMs));
  }

  return {
    preparedWarnings: () => warnings,
    savePreparation(preparation) {
      ({ warnings, totalMs } = preparation);
      if (preparation.chunks) records = preparation.chunks.map(newRecord);
      return true;
    },
    chunks: () => records.map((record) => ({ ...record })),
    completeChunk: (position, text, doneMs) => end(position, { state: "done", ...text }, doneMs),
    giveUpChunk: (position, gapReason, doneMs) => end(position, { state: "failed", gapReason }, doneMs),
    countFailure(position, hasCrashed) {
      const record = records[position];
      if (record?.state !== "waiting") return undefined;
      record.failures++;
      if (hasCrashed) record.crashes++;
      return { failures: record.failures, crashes: record.crashes };
    },
    finishChunks: () => true,
  };
}

function newRecord(chunk: NewChunk, position: number): ChunkRecord {
  const outcome = { segments: null, warnings: null, gapReason: null };
  return { ...chunk, position, state: "waiting", failures: 0, crashes: 0, ...outcome };
}
