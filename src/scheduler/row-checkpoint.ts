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
import type { GroupCommit } from "../store/group-commit.ts";
import { moveTranscription, raiseProgress, type TranscriptionRow } from "../store/transcriptions.ts";

/**
 * Keeps the progress of a transcription in its rows, so that a restart continues from the last finished chunk. A
 * finished chunk and the transcription's progress are written in one transaction.
 *
 * The checkpoint makes the moves `prepared` and `transcribed`, because they belong to the rows that it writes. All other
 * moves of a transcription are made by `services/`. `prepared` is in one transaction with the chunks.
 */
export function createRowCheckpoint(
  { store }: Database,
  { id, audioWarnings }: Pick<TranscriptionRow, "id" | "audioWarnings">,
  commits: GroupCommit,
  onChunkEnded: (transcriptionId: string) => void = () => {},
): Checkpoint {
  const keyOf = (position: number, attempt: string) => ({ transcriptionId: id, position, attempt });

  async function end(doneMs: number, endChunk: (tx: Store) => boolean): Promise<boolean> {
    const isOwn = await commits.run((tx) => {
      const hasEnded = endChunk(tx);
      if (hasEnded) raiseProgress(tx, id, doneMs);
      return hasEnded;
    });
    if (isOwn) onChunkEnded(id);
    return isOwn;
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
