import type { InstalledModel } from "../domain/model.ts";
import type { TranscriptionRequest } from "../domain/transcription.ts";
import { EngineError } from "../engine/protocol.ts";
import { layoutChunk } from "../pipeline/chunk-audio.ts";
import { type ChunkText, recognizeGuarded } from "../pipeline/guarded-recognition.ts";
import type { ChunkRecord, NewChunk } from "./checkpoint.ts";
import type { RecognitionTools } from "./context.ts";
import type { Progress } from "./progress.ts";
import { MAX_CRASHES, MAX_INTERRUPTIONS, requireRepeatable } from "./retry-policy.ts";

/** The recording that chunks come from, and the request and model that they are recognized with. */
export type ChunkSource = {
  /** Paths of the decoded PCM files, by channel. */
  tracks: readonly string[];
  durationMs: number;
  request: TranscriptionRequest;
  model: InstalledModel;
};

/** What the runs of all chunks of a recording share. */
export type ChunkTask = ChunkSource & {
  progress: Progress;
  /** Returns the first attempt at a chunk where it began before the chunk was recorded. */
  takeBegun: (chunk: ChunkRecord) => Promise<RecognizedChunk> | undefined;
};

/** The outcome of one attempt at a chunk, and its work in the executor's unit. `onStored` is called once it is stored. */
export type RecognizedChunk = { text: ChunkText; workMs: number; onStored: () => void };

/**
 * Attempts a chunk until it has text, or until it becomes a gap, as `retry-policy.ts` says. After a crash, or the end of a
 * process in which its steps were made with those of others, the chunk runs alone in its worker process. Ends without an outcome when another run has begun an attempt at the chunk.
 *
 * @throws the signal's reason when it is aborted; EngineError `unusable_model`; errors of the checkpoint
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
  let isSuspect = false;
  while (true) {
    signal.throwIfAborted();
    try {
      const { text, workMs, onStored } = await (begun ??
        recognizeOnce(tools, task, chunk, { isAlone: crashes > 0 || isSuspect }, signal));
      if (await checkpoint.completeChunk(position, attempt, text, progress.finish(position)))
        tools.onRecognized?.(progress.shareOf(position), workMs);
      onStored();
      return;
    } catch (error) {
      begun = undefined;
      const failure = requireRepeatable(error, signal);
      const { kind, message } = failure;
      if (kind === "interrupted" && interruptions++ < MAX_INTERRUPTIONS) {
        isSuspect ||= failure.isSuspect;
        const renewed = await checkpoint.renewAttempt(position, attempt);
        if (renewed === undefined) return;
        attempt = renewed;
        continue;
      }
      const counted = await checkpoint.countFailure(position, attempt, kind === "crashed");
      // The transcription has ended, and its files may be gone. The log would name a failure that does not matter.
      if (!counted) return;
      log.warn({ chunk: position, kind, reason: message }, "a chunk failed");
      ({ attempt, failures, crashes } = counted);
      if (failures < tools.mostAttempts && crashes < MAX_CRASHES) continue;
      const reason = kind === "hung" ? "time_limit" : "engine_error";
      await checkpoint.giveUpChunk(position, attempt, reason, progress.finish(position));
      return;
    }
  }
}

/**
 * Waits for a slot and makes one attempt at a chunk.
 *
 * @throws EngineError; the signal's reason when it is aborted while the chunk waits
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
  const stored: (() => void)[] = [];
  try {
    const { keepsDoubtful } = tools;
    const guarded = { model, family, request, durationMs, keepsDoubtful };
    const text = await recognizeGuarded(guarded, chunk, async (regions, settings) => {
      const { slices, totalSamples } = layoutChunk(regions);
      const audio = { pcmPath, slices, totalSamples };
      const { windowMs } = family;
      const outcome = await tools.engine.recognize(
        { model, windowMs, audio, settings, sharers, hasSuccessors, isAlone },
        signal,
      );
      workMs += outcome.workMs;
      if (outcome.onStored) stored.push(outcome.onStored);
      return outcome;
    });
    const onStored = () => {
      for (const each of stored) each();
    };
    return { text, workMs, onStored };
  } finally {
    slot.release();
  }
}
