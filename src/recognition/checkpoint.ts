import type { Chunk } from "../domain/chunk.ts";
import type { Outline } from "../domain/outline.ts";
import type { ChunkDoubts, GapReason, Warning } from "../domain/result.ts";
import type { ChunkText } from "../pipeline/guarded-recognition.ts";
import type { LooseSegment } from "../pipeline/stitch.ts";

/** A chunk that is not recorded yet. */
export type NewChunk = Chunk & { channel: number };

/** A recorded chunk and its outcome so far. */
export type ChunkRecord = NewChunk & {
  /** Number among the chunks of the recording, from 0. */
  position: number;
  state: "waiting" | "done" | "failed";
  /** Token of the attempt whose outcome counts. */
  attempt: string;
  /** Attempts that ended in an error or a dead worker process. */
  failures: number;
  /** The attempts among them that ended their worker process. */
  crashes: number;
  /** Text of a chunk in state `done`, else null. */
  segments: LooseSegment[] | null;
  /** Warnings of a chunk in state `done`, else null. */
  warnings: Warning[] | null;
  /** Doubts about a chunk in state `done`, else null. */
  doubts: ChunkDoubts | null;
  /** Reason of a chunk in state `failed`, else null. */
  gapReason: GapReason | null;
};

/** What decoding and speech detection found in a recording. */
export type Preparation = {
  warnings: Warning[];
  /** Absent where the chunks are recorded already. */
  chunks?: NewChunk[];
  /** Outline of the recording's sound; absent where the decoded files of an earlier run were used. */
  outline?: Outline | undefined;
  /** Audio to recognize, milliseconds over the channels that are recognized. */
  totalMs: number;
};

/** The counts of a chunk when an attempt at it begins. */
export type AttemptCounts = Pick<ChunkRecord, "attempt" | "failures" | "crashes">;

/**
 * Records the progress of one recognition. The server keeps it in rows, so that work continues after a restart from the
 * last finished chunk. A command keeps it in memory.
 *
 * Errors of the store are thrown, or reject, and recognition passes them on.
 */
export type Checkpoint = {
  /** Returns the warnings of an earlier preparation, whose chunks are recorded, or undefined when there was none. */
  preparedWarnings(): Warning[] | undefined;
  /**
   * Records the preparation, and begins another attempt at every waiting chunk. Resolves with false when the transcription
   * has ended meanwhile. Rejects with the signal's reason when it is aborted first; then nothing is recorded.
   */
  savePreparation(preparation: Preparation, signal: AbortSignal): Promise<boolean>;
  /** Returns all chunks in order of position. */
  chunks(): Promise<ChunkRecord[]>;
  /**
   * Ends a waiting chunk with its text, and resolves once that is durable. Changes nothing, and resolves with false, when the chunk has ended already or
   * another attempt has begun. Outcomes may come late or twice.
   *
   * @param doneMs audio with an outcome, this chunk included, milliseconds over the channels
   */
  completeChunk(position: number, attempt: string, text: ChunkText, doneMs: number): Promise<boolean>;
  /** Ends a waiting chunk as a gap. Resolves with false where `completeChunk` would. */
  giveUpChunk(position: number, attempt: string, reason: GapReason, doneMs: number): Promise<boolean>;
  /** Counts a failed attempt and begins another. Resolves with undefined where `completeChunk` would resolve with false. */
  countFailure(position: number, attempt: string, hasCrashed: boolean): Promise<AttemptCounts | undefined>;
  /**
   * Begins another attempt without counting the last one. Resolves with its token, or with undefined where
   * `completeChunk` would resolve with false.
   */
  renewAttempt(position: number, attempt: string): Promise<string | undefined>;
  /** Raises the progress, milliseconds over the channels, while speakers are distinguished. Less than before changes nothing. */
  saveProgress(doneMs: number): Promise<void>;
  /** Records that every chunk has an outcome. Resolves with false when the transcription has ended meanwhile. */
  finishChunks(): Promise<boolean>;
};

/**
 * Keeps progress in memory, for work that is not continued after the program has ended.
 *
 * @param onProgress called after each chunk with the share of the recording that has an outcome, 0 to 1
 */
export function createMemoryCheckpoint(onProgress: (share: number) => void = () => {}): Checkpoint {
  let warnings: Warning[] | undefined;
  let totalMs = 0;
  let records: ChunkRecord[] = [];

  function report(doneMs: number): void {
    onProgress(totalMs === 0 ? 1 : Math.min(1, doneMs / totalMs));
  }

  /** Finds a waiting chunk whose latest attempt is this one. */
  function find(position: number, attempt: string): ChunkRecord | undefined {
    const record = records[position];
    return record?.state === "waiting" && record.attempt === attempt ? record : undefined;
  }

  function end(record: ChunkRecord | undefined, outcome: Partial<ChunkRecord>, doneMs: number): boolean {
    if (!record) return false;
    Object.assign(record, outcome);
    report(doneMs);
    return true;
  }

  function renew(record: ChunkRecord): string {
    record.attempt = crypto.randomUUID();
    return record.attempt;
  }

  return {
    preparedWarnings: () => warnings,
    async savePreparation(preparation) {
      ({ warnings, totalMs } = preparation);
      if (preparation.chunks) records = preparation.chunks.map(newRecord);
      for (const record of records) if (record.state === "waiting") renew(record);
      return true;
    },
    chunks: async () => records.map((record) => ({ ...record })),
    completeChunk: async (position, attempt, text, doneMs) =>
      end(find(position, attempt), { state: "done", ...text }, doneMs),
    giveUpChunk: async (position, attempt, gapReason, doneMs) =>
      end(find(position, attempt), { state: "failed", gapReason }, doneMs),
    async countFailure(position, attempt, hasCrashed) {
      const record = find(position, attempt);
      if (!record) return undefined;
      record.failures++;
      if (hasCrashed) record.crashes++;
      return { attempt: renew(record), failures: record.failures, crashes: record.crashes };
    },
    async renewAttempt(position, attempt) {
      const record = find(position, attempt);
      return record && renew(record);
    },
    saveProgress: async (doneMs) => report(doneMs),
    finishChunks: async () => true,
  };
}

function newRecord(chunk: NewChunk, position: number): ChunkRecord {
  const outcome = { segments: null, warnings: null, doubts: null, gapReason: null };
  return { ...chunk, position, state: "waiting", attempt: "", failures: 0, crashes: 0, ...outcome };
}
