import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { Speech } from "../domain/outline.ts";
import type { Clock } from "../lib/clock.ts";
import { inSlices, nextTurn } from "../lib/in-slices.ts";
import type { Checkpoint, NewChunk, Preparation } from "../recognition/checkpoint.ts";
import {
  CHUNKS_AT_ONCE,
  completeChunk,
  countChunkFailure,
  deleteSlice,
  giveUpChunk,
  insertChunks,
  listChunks,
  renewAttempt,
  renewAttempts,
  sliceStarts,
} from "../store/chunks.ts";
import { type Database, gatedTransaction, type Store } from "../store/database.ts";
import type { GroupCommit } from "../store/group-commit.ts";
import { insertOutline, speechText } from "../store/outlines.ts";
import {
  findTranscription,
  moveTranscription,
  raiseProgress,
  type TranscriptionRow,
} from "../store/transcriptions.ts";

/** A part of what is written. Each is short. */
type Step = (tx: Store) => void;

const SAMPLES_PER_MS = SAMPLE_RATE_HZ / 1000;

/**
 * Keeps the progress of a transcription in its rows, so that a restart continues from the last finished chunk. A
 * finished chunk and the transcription's progress are written in one transaction.
 *
 * The checkpoint makes the moves `prepared` and `transcribed`, because they belong to the rows that it writes. All other
 * moves of a transcription are made by `services/`. `prepared` is in one transaction with the last chunks.
 *
 * Those before them are written slice by slice while the transcription is still `preparing`. They mean nothing until it is
 * `prepared`: an end of the program between two slices leaves rows that the next preparation deletes, and so does the end of
 * the transcription.
 */
export function createRowCheckpoint(
  database: Pick<Database, "store" | "gate">,
  { id, audioWarnings }: Pick<TranscriptionRow, "id" | "audioWarnings">,
  commits: GroupCommit,
  clock: Clock,
  onChunkEnded: (transcriptionId: string) => void = () => {},
): Checkpoint {
  const { store, gate } = database;
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

  /** Writes something unless the transcription has ended. Its content may be deleted then, and nothing must come after it. */
  function writeWhilePreparing(write: Step, signal: AbortSignal): Promise<boolean> {
    const writeNow = (tx: Store) => {
      const isPreparing = findTranscription(tx, id)?.state === "preparing";
      if (isPreparing) write(tx);
      return isPreparing;
    };
    return gatedTransaction(database, writeNow, { signal });
  }

  /** Returns the steps that replace all chunks. There are some only when the program ended between such steps. */
  function replacement(chunks: readonly NewChunk[]): Step[] {
    const deletions = sliceStarts(store, id).map(
      (from): Step =>
        (tx) =>
          deleteSlice(tx, id, from),
    );
    const insertions: Step[] = [];
    for (let from = 0; from < chunks.length; from += CHUNKS_AT_ONCE)
      insertions.push((tx) => insertChunks(tx, id, chunks.slice(from, from + CHUNKS_AT_ONCE), from));
    // The last slices first: what is left is always a beginning.
    return [...deletions.reverse(), ...insertions];
  }

  const renewal = () =>
    sliceStarts(store, id).map(
      (from): Step =>
        (tx) =>
          renewAttempts(tx, id, from),
    );

  return {
    preparedWarnings: () => audioWarnings ?? undefined,
    async savePreparation(preparation, signal) {
      const { warnings, outline } = preparation;
      const speech = outline && (await speechTextOf(preparation, () => listChunks(store, id)));
      const steps = preparation.chunks ? replacement(preparation.chunks) : renewal();
      const last = steps.pop();
      for (const step of steps) {
        signal.throwIfAborted();
        if (!(await writeWhilePreparing(step, signal))) return false;
        await nextTurn();
      }
      signal.throwIfAborted();
      const prepare = (tx: Store) => {
        // First: it may have been cancelled meanwhile, and its content deleted. Then nothing of the recording is kept.
        const change = { audioWarnings: warnings };
        if (!moveTranscription(tx, id, "prepared", clock.now(), change)) return false;
        last?.(tx);
        if (outline) insertOutline(tx, id, outline, speech ?? null, clock.now());
        return true;
      };
      return gatedTransaction(database, prepare, { signal });
    },
    chunks: () => listChunks(store, id),
    completeChunk: (position, attempt, text, doneMs) =>
      end(doneMs, (tx) => completeChunk(tx, keyOf(position, attempt), text)),
    giveUpChunk: (position, attempt, reason, doneMs) =>
      end(doneMs, (tx) => giveUpChunk(tx, keyOf(position, attempt), reason)),
    countFailure: (position, attempt, hasCrashed) =>
      gate.run(() => countChunkFailure(store, keyOf(position, attempt), hasCrashed)),
    renewAttempt: (position, attempt) =>
      gate.run(() => renewAttempt(store, keyOf(position, attempt))?.attempt),
    saveProgress: (doneMs) => gate.run(() => raiseProgress(store, id, doneMs)),
    finishChunks: () =>
      gate.run(() => moveTranscription(store, id, "transcribed", clock.now()) !== undefined),
  };
}

/**
 * Returns where the chunks have speech, for each lane of the outline. Of two identical channels only the first has chunks.
 *
 * @param stored returns the chunks of an earlier preparation
 */
async function speechTextOf(
  { chunks, warnings, outline }: Preparation,
  stored: () => Promise<readonly NewChunk[]>,
): Promise<string> {
  const isDoubled = warnings.includes("identical_channels");
  const speech: Speech = (outline?.lanes ?? []).map(() => []);
  await inSlices(chunks ?? (await stored()), (slice) => {
    for (const chunk of slice)
      for (const [lane, stretches] of speech.entries())
        if (chunk.channel === (isDoubled ? 0 : lane)) addSpeech(stretches, chunk);
    return [];
  });
  return speechText(speech);
}

function addSpeech(stretches: Speech[number], { regions }: NewChunk): void {
  for (const { startSample, endSample } of regions) {
    const startMs = Math.floor(startSample / SAMPLES_PER_MS);
    const endMs = Math.ceil(endSample / SAMPLES_PER_MS);
    const last = stretches.at(-1);
    // Long speech was cut where there was not a pause.
    if (last && startMs <= last[1]) last[1] = Math.max(last[1], endMs);
    else stretches.push([startMs, endMs]);
  }
}
