import type { Checkpoint } from "../recognition/checkpoint.ts";
import { completeChunk, countChunkFailure, giveUpChunk, insertChunks, listChunks } from "../store/chunks.ts";
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
  const keyOf = (position: number) => ({ transcriptionId: id, position });

  function end(doneMs: number, endChunk: (tx: Store) => boolean): void {
    transaction(store, (tx) => {
      if (endChunk(tx)) raiseProgress(tx, id, doneMs);
    });
  }

  return {
    preparedWarnings: () => audioWarnings ?? undefined,
    savePreparation: ({ warnings, chunks }) =>
      transaction(store, (tx) => {
        if (chunks) insertChunks(tx, id, chunks);
        return moveTranscription(tx, id, "prepared", { audioWarnings: warnings }) !== undefined;
      }),
    chunks: () => listChunks(store, id),
    completeChunk: (position, text, doneMs) => end(doneMs, (tx) => completeChunk(tx, keyOf(position), text)),
    giveUpChunk: (position, reason, doneMs) => end(doneMs, (tx) => giveUpChunk(tx, keyOf(position), reason)),
    countFailure: (position, hasCrashed) => countChunkFailure(store, keyOf(position), hasCrashed),
    finishChunks: () => moveTranscription(store, id, "transcribed") !== undefined,
  };
}
