import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { Speech } from "../domain/outline.ts";
import type { Clock } from "../lib/clock.ts";
import type { Checkpoint, NewChunk } from "../recognition/checkpoint.ts";
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
import { insertOutline } from "../store/outlines.ts";
import { moveTranscription, raiseProgress, type TranscriptionRow } from "../store/transcriptions.ts";

const SAMPLES_PER_MS = SAMPLE_RATE_HZ / 1000;

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
  clock: Clock,
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
    savePreparation: ({ warnings, chunks, outline }) =>
      transaction(store, (tx) => {
        // First: it may have been cancelled meanwhile, and its content deleted. Then nothing of the recording is kept.
        const change = { audioWarnings: warnings };
        if (!moveTranscription(tx, id, "prepared", clock.now(), change)) return false;
        if (chunks) insertChunks(tx, id, chunks);
        else renewAttempts(tx, id);
        if (outline) {
          const isDoubled = warnings.includes("identical_channels");
          const speech = speechOf(chunks ?? listChunks(tx, id), outline.lanes.length, isDoubled);
          insertOutline(tx, id, outline, speech, clock.now());
        }
        return true;
      }),
    chunks: () => listChunks(store, id),
    completeChunk: (position, attempt, text, doneMs) =>
      end(doneMs, (tx) => completeChunk(tx, keyOf(position, attempt), text)),
    giveUpChunk: (position, attempt, reason, doneMs) =>
      end(doneMs, (tx) => giveUpChunk(tx, keyOf(position, attempt), reason)),
    countFailure: (position, attempt, hasCrashed) =>
      countChunkFailure(store, keyOf(position, attempt), hasCrashed),
    renewAttempt: (position, attempt) => renewAttempt(store, keyOf(position, attempt))?.attempt,
    finishChunks: () => moveTranscription(store, id, "transcribed", clock.now()) !== undefined,
  };
}

/** Returns where the chunks have speech, for each lane. Of two identical channels only the first has chunks. */
function speechOf(chunks: readonly NewChunk[], lanes: number, isDoubled: boolean): Speech {
  return Array.from({ length: lanes }, (_, lane) => {
    const speech: Speech[number] = [];
    for (const chunk of chunks) {
      if (chunk.channel !== (isDoubled ? 0 : lane)) continue;
      for (const { startSample, endSample } of chunk.regions) {
        const startMs = Math.floor(startSample / SAMPLES_PER_MS);
        const endMs = Math.ceil(endSample / SAMPLES_PER_MS);
        const last = speech.at(-1);
        // Long speech was cut where there was not a pause.
        if (last && startMs <= last[1]) last[1] = Math.max(last[1], endMs);
        else speech.push([startMs, endMs]);
      }
    }
    return speech;
  });
}
