import type { Checkpoint } from "../recognition/checkpoint.ts";
import {
  completeChunk,
  countChunkFailure,
  giveUpChunk,
  insertChunks,
  listChunks,
  renewAttempt,
  renewAttempts,
} from "../store/chunks.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import { moveTranscription, raiseProgress, type TranscriptionRow } from "../store/transcriptions.ts";

/**
 * Keeps the progress of a transcription in its rows. Each finished chunk and the progress that it means are written in
 * one transaction, so that a restart continues from there.
 */
export function createRowCheckpoint(
  { store }: Database,
  { id, audioWarnings }: Pick<TranscriptionRow, "id" | "audioWarnings">,
): Checkpoint {
  const keyOf = (position: number, attempt: string) => ({ transcriptionId: id, position, attempt });

  function end(doneMs: number, endChunk: (tx: Store) => boolean): boolean {
    return transaction(store, (tx) => {
      const hasEnded = endChunk(tx);
      if (hasEnded) raiseProgress(tx, id, doneMs);
      return hasEnded;
    });
  }

  return {
    preparedWarnings: () => audioWarnings ?? undefined,
    savePreparation: ({ warnings, chunks }) =>
      transaction(store, (tx) => {
        if (chunks) insertChunks(tx, id, chunks);
        else renewAttempts(tx, id);
        return moveTranscription(tx, id, "prepared", { audioWarnings: warnings }) !== undefined;
      }),
    chunks: () => listChunks(store, id),
    completeChunk: (position, attempt, text, doneMs) =>
      end(doneMs, (tx) => completeChunk(tx, keyOf(position, attempt), text)),
    giveUpChunk: (position, attempt, reason, doneMs) =>
      end(doneMs, (tx) => giveUpChunk(tx, keyOf(position, attempt), reason)),
    countFailure: (position, attempt, hasCrashed) =>
      countChunkFailure(store, keyOf(position, attempt), hasCrashed),
    renewAttempt: (position, attempt) => renewAttempt(store, keyOf(position, attempt))?.attempt,
    finishChunks: () => moveTranscription(store, id, "transcribed") !== undefined,
  };
}
