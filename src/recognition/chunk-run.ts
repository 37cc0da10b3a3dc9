import type { InstalledModel } from "../domain/model.ts";
import type { TranscriptionRequest } from "../domain/transcription.ts";
import { EngineError } from "../engine/protocol.ts";
import { layoutChunk } from "../pipeline/chunk-audio.ts";
import { type ChunkText, recognizeGuarded } from "../pipeline/guarded-recognition.ts";
import type { ChunkRecord, NewChunk } from "./checkpoint.ts";
import { MAX_INTERRUPTIONS, type RecognitionTools } from "./context.ts";
import type { Progress } from "./progress.ts";

/** Where chunks come from, and what they are recognized with. */
export type ChunkSource = {
  tracks: readonly string[];
  durationMs: number;
  request: TranscriptionRequest;
  model: InstalledModel;
};

/** What all chunks of a recording share. */
export type ChunkTask = ChunkSource & {
  progress: Progress;
  /** The first attempt at a chunk where one began before the chunk was recorded. */
  takeBegun: (chunk: ChunkRecord) => Promise<RecognizedChunk> | undefined;
};

/** What one attempt at a chunk came to, and what it cost. */
export type RecognizedChunk = { text: ChunkText; workMs: number };

/** After this many crashes of its worker process a chunk becomes a gap. */
const MAX_CRASHES = 2;

/**
 * Brings one chunk to its outcome, text or gap, through as many attempts as it may have. After a crash the chunk
 * runs alone in its worker process.
 *
 * @throws the signal's reason when it is aborted, EngineError `unusable_model`, what the checkpoint throws
 */
export async function runChunk(
  tools: RecognitionTools,
  task: ChunkTask,
  chunk: ChunkRecord,
  signal: AbortSignal,
): Promise<void> {
  const { checkpoint, log } = tools;
  const { progress } = task;
  const { position } = chunk;
  let { attempt, failures, crashes } = chunk;
  let begun = task.takeBegun(chunk);
  let interruptions = 0;
  while (true) {
    signal.throwIfAborted();
    try {
      const { text, workMs } = await (begun ??
        recognizeOnce(tools, task, chunk, { isAlone: crashes > 0 }, signal));
      if (checkpoint.completeChunk(position, attempt, text, progress.finish(position)))
        tools.onRecognized?.(progress.shareOf(position), workMs);
      return;
    } catch (error) {
      begun = undefined;
      if (signal.aborted) throw error;
      if (!(error instanceof EngineError) || error.kind === "unusable_model") throw error;
      if (error.kind === "interrupted" && interruptions++ < MAX_INTERRUPTIONS) {
        const renewed = checkpoint.renewAttempt(position, attempt);
        if (renewed === undefined) return;
        attempt = renewed;
        continue;
      }
      log.warn({ chunk: position, kind: error.kind, reason: error.message }, "a chunk failed");
      const counted = checkpoint.countFailure(position, attempt, error.kind === "crashed");
      if (!counted) return;
      ({ attempt, failures, crashes } = counted);
      if (failures < tools.chunkAttempts && crashes < MAX_CRASHES) continue;
      const reason = error.kind === "hung" ? "time_limit" : "engine_error";
      checkpoint.giveUpChunk(position, attempt, reason, progress.finish(position));
      return;
    }
  }
}

/**
 * Waits for a slot and makes one attempt at a chunk.
 *
 * @throws EngineError, or the signal's reason when it is aborted
 */
export async function recognizeOnce(
  tools: RecognitionTools,
  { tracks, durationMs, request, model }: ChunkSource,
  chunk: NewChunk & Pick<ChunkRecord, "position">,
  { isAlone, hasSuccessors = false }: { isAlone: boolean; hasSuccessors?: boolean },
  signal: AbortSignal,
): Promise<RecognizedChunk> {
  const { position, speechMs } = chunk;
  const pcmPath = tracks[chunk.channel];
  if (pcmPath === undefined) throw new EngineError("failed", "the chunk's channel has no decoded audio");
  const family = tools.familyOf(model.family);
  const slot = await tools.slots.acquire({ position, speechMs, hasSuccessors }, signal);
  const { sharers } = slot;
  let workMs = 0;
  try {
    const guarded = { model, family, request, durationMs };
    const text = await recognizeGuarded(guarded, chunk, async (regions, settings) => {
      const { pieces, totalSamples } = layoutChunk(regions);
      const audio = { pcmPath, slices: pieces, totalSamples };
      const { windowMs } = family;
      const outcome = await tools.engine.recognize(
        { model, windowMs, audio, settings, sharers, isAlone },
        signal,
      );
      workMs += outcome.workMs;
      // The request's code: the model may know the language by another.
      return outcome.segments.map((segment) => ({ ...segment, language: request.language }));
    });
    return { text, workMs };
  } finally {
    slot.release();
  }
}
