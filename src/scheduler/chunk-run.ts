import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { InstalledModel } from "../domain/model.ts";
import type { GapReason } from "../domain/result.ts";
import { type ChunkOutcome, EngineError, type EngineModel } from "../engine/protocol.ts";
import { layoutChunk } from "../pipeline/chunk-audio.ts";
import { type ChunkText, decodeGuarded } from "../pipeline/guarded-decode.ts";
import {
  type ChunkRow,
  completeChunk,
  countChunkFailure,
  giveUpChunk,
  type NewChunk,
} from "../store/chunks.ts";
import { transaction } from "../store/database.ts";
import { raiseProgress, type TranscriptionRow } from "../store/transcriptions.ts";
import { MAX_INTERRUPTIONS, type RunContext } from "./context.ts";
import type { DecodeFacts } from "./speed.ts";
import type { Progress } from "./transcribe.ts";

const SAMPLES_PER_MS = SAMPLE_RATE_HZ / 1000;

/** Where the chunks of a transcription come from, and what they are decoded with. */
export type ChunkSource = { row: TranscriptionRow; model: InstalledModel; pcmPaths: string[] };

/** What all chunks of a transcription share. */
export type ChunkTask = ChunkSource & {
  progress: Progress;
  /** A chunk's first run where one was begun before the chunk was a row. */
  takeBegun: (chunk: ChunkRow) => Promise<DecodedOnce> | undefined;
};

/** What one run of a chunk came to, and for how long it kept threads busy. */
export type DecodedOnce = { text: ChunkText; threadMs: number };

/** A chunk that has cost a worker so often is set aside. */
const MAX_CRASHES = 2;

/**
 * Brings one chunk to its outcome, text or gap, through as many runs as it may have.
 *
 * @throws the signal's reason when it is aborted, EngineError `unusable_model`
 */
export async function runChunk(
  context: RunContext,
  task: ChunkTask,
  chunk: ChunkRow,
  signal: AbortSignal,
): Promise<void> {
  const { row } = task;
  let { failures, crashes } = chunk;
  let begun = task.takeBegun(chunk);
  let interruptions = 0;
  while (true) {
    signal.throwIfAborted();
    try {
      const { text, threadMs } = await (begun ??
        decodeOnce(context, task, chunk, { isAlone: crashes > 0 }, signal));
      transaction(context.database.store, (tx) => {
        if (completeChunk(tx, chunk, text)) raiseProgress(tx, row.id, task.progress.finish(chunk.position));
      });
      context.speed.observeProgress(task.progress.shareOf(chunk.position), threadMs);
      return;
    } catch (error) {
      begun = undefined;
      if (signal.aborted) throw error;
      if (!(error instanceof EngineError) || error.kind === "unusable_model") throw error;
      if (error.kind === "interrupted" && interruptions++ < MAX_INTERRUPTIONS) continue;
      const hasCrashed = error.kind === "crashed";
      context.log.warn(
        { transcription_id: row.id, chunk: chunk.position, kind: error.kind, reason: error.message },
        "a chunk failed",
      );
      const counted = countChunkFailure(context.database.store, chunk, hasCrashed);
      if (!counted) return;
      ({ failures, crashes } = counted);
      if (failures < context.config.engine.chunk_attempts && crashes < MAX_CRASHES) continue;
      giveUp(context, task, chunk, error.kind === "hung" ? "time_limit" : "engine_error");
      return;
    }
  }
}

function giveUp(context: RunContext, task: ChunkTask, chunk: ChunkRow, reason: GapReason): void {
  transaction(context.database.store, (tx) => {
    if (giveUpChunk(tx, chunk, reason)) raiseProgress(tx, task.row.id, task.progress.finish(chunk.position));
  });
}

/**
 * Waits for a place and decodes a chunk, whatever becomes of it.
 *
 * @throws EngineError, or the signal's reason when it is aborted
 */
export async function decodeOnce(
  context: RunContext,
  task: ChunkSource,
  chunk: NewChunk & Pick<ChunkRow, "position">,
  { isAlone, hasSuccessors = false }: { isAlone: boolean; hasSuccessors?: boolean },
  signal: AbortSignal,
): Promise<DecodedOnce> {
  const { row } = task;
  const pcmPath = task.pcmPaths[chunk.channel];
  if (pcmPath === undefined) throw new EngineError("failed", "the chunk's channel has no decoded audio");
  const slot = await context.slots.acquire(
    {
      isSynchronous: row.entrance === "synchronous",
      organizationId: row.organizationId,
      weight: context.weightOf(row.organizationId),
      transcriptionId: row.id,
      position: chunk.position,
      costMs: chunk.speechMs,
      model: { id: task.model.id, places: context.placesFor(task.model) },
      hasSuccessors,
    },
    signal,
  );
  let threadMs = 0;
  try {
    const guardTask = { model: task.model, request: row, durationMs: row.durationMs };
    const text = await decodeGuarded(guardTask, chunk, async (regions, settings) => {
      const layout = layoutChunk(regions);
      const audio = { pcmPath, slices: layout.pieces, totalSamples: layout.totalSamples };
      const audioMs = layout.totalSamples / SAMPLES_PER_MS;
      const decode = { modelId: task.model.id, audioMs, threads: slot.threads };
      const outcome = await timed(context, decode, (timeoutMs) =>
        context.engine.transcribe(
          {
            model: engineModel(task.model),
            audio,
            options: { ...settings, threads: slot.threads },
            isAlone,
            timeoutMs,
          },
          signal,
        ),
      );
      threadMs += outcome.elapsedMs * slot.threads;
      // The request's code, where the decoder was told another that its weights know.
      return outcome.segments.map((segment) => ({ ...segment, language: row.language }));
    });
    return { text, threadMs };
  } finally {
    slot.release();
  }
}

/** Decodes within the time that this machine should need, and learns from what it needed. */
async function timed(
  { speed }: RunContext,
  decode: DecodeFacts,
  work: (timeoutMs: number) => Promise<ChunkOutcome>,
): Promise<ChunkOutcome> {
  try {
    const outcome = await work(speed.chunkTimeoutMs(decode));
    speed.observe(decode, outcome.elapsedMs);
    return outcome;
  } catch (error) {
    if (error instanceof EngineError && error.kind === "hung") speed.observeTimeout(decode.modelId);
    throw error;
  }
}

function engineModel({ id, version, weightsPath }: InstalledModel): EngineModel {
  return { id, version, weightsPath };
}
