import { AppError } from "../domain/errors.ts";
import type { InstalledModel } from "../domain/model.ts";
import type { Gap, Warning } from "../domain/result.ts";
import { EngineError } from "../engine/protocol.ts";
import { assembleResult, type LooseSegment } from "../pipeline/stitch.ts";
import { hasTwinChannel, withTwins } from "../pipeline/twin-channel.ts";
import { wordSegments } from "../pipeline/worded.ts";
import { billedChannels, type Ending } from "../services/settlement.ts";
import { type ChunkRow, listChunks } from "../store/chunks.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";
import { type Ahead, createAhead } from "./ahead.ts";
import { type ChunkTask, type DecodedOnce, decodeOnce, runChunk } from "./chunk-run.ts";
import type { RunContext } from "./context.ts";
import { decodedPaths, type Prepared, prepareRecording } from "./prepare.ts";
import { labelSegments } from "./speakers.ts";

/**
 * Takes one transcription from `queued` to its end, or leaves it where it is when `signal` is aborted.
 *
 * @throws what is neither the recording's nor the engine's failure, as a store that cannot be written
 */
export async function runTranscription(context: RunContext, id: string, signal: AbortSignal): Promise<void> {
  const row = context.transcriptions.move(id, "claim", { startedAt: context.clock.now() });
  if (!row) return;
  try {
    const ending = await transcribe(context, row, signal);
    if (ending) context.transcriptions.finish(id, ending);
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof AppError || error instanceof EngineError)) throw error;
    context.log.error({ transcription_id: id, err: error }, "transcription failed");
    context.transcriptions.finish(id, failureOf(error));
  }
}

async function transcribe(
  context: RunContext,
  row: TranscriptionRow,
  signal: AbortSignal,
): Promise<Ending | undefined> {
  const model = context.findModel(row.modelId);
  if (!model) {
    return { kind: "failed", code: "capacity_unavailable", message: "The model was removed." };
  }
  if (model.version !== row.modelVersion) {
    const message = `Version ${row.modelVersion} of the model has been replaced by ${model.version}.`;
    return { kind: "failed", code: "capacity_unavailable", message };
  }
  const prepared = await prepareAndDecode(context, row, model, signal);
  if (!prepared) return undefined;
  if (!context.transcriptions.move(row.id, "transcribed")) return undefined;
  const done = listChunks(context.database.store, row.id);
  const chunks = hasTwinChannel(prepared.warnings, done) ? withTwins(done) : done;
  const worded = wordSegments(
    chunks.flatMap((chunk) => chunk.segments ?? []),
    row.mode,
  );
  const spoken = await labelSegments(context, row, chunks, worded, prepared.pcmPaths, signal);
  return endingOf(row, chunks, spoken.segments, [...prepared.warnings, ...spoken.warnings]);
}

/**
 * From the recording to chunks that all have their outcome. The first chunks are decoded while the detector still
 * reads: it needs a hundredth of a recording's length, and the decoder else idles for as long.
 */
async function prepareAndDecode(
  context: RunContext,
  row: TranscriptionRow,
  model: InstalledModel,
  signal: AbortSignal,
): Promise<Prepared | undefined> {
  const source = { row, model, pcmPaths: decodedPaths(context, row) };
  const ahead = createAhead(
    context.slots.status().workers + OUTSTANDING_BESIDE_WORKERS,
    (chunk, either) => {
      const hasSuccessors = row.durationMs - chunk.endMs > LONGEST_CHUNK_MS;
      return decodeOnce(context, source, chunk, { isAlone: false, hasSuccessors }, either);
    },
    signal,
  );
  try {
    const prepared = await prepareRecording(context, row, model, ahead.offer, signal);
    if (prepared) await transcribeChunks(context, row, model, prepared, ahead, signal);
    return prepared;
  } finally {
    await ahead.stop();
  }
}

/** What is left beyond this is more than one chunk, unless it is silent. */
const LONGEST_CHUNK_MS = 30_000;

/** More requests for places than there are places would only make the queue longer. */
const OUTSTANDING_BESIDE_WORKERS = 1;

async function transcribeChunks(
  context: RunContext,
  row: TranscriptionRow,
  model: InstalledModel,
  prepared: Prepared,
  ahead: Ahead<DecodedOnce>,
  signal: AbortSignal,
): Promise<void> {
  const channelsEach = hasTwinChannel(prepared.warnings, prepared.chunks) ? 2 : 1;
  const progress = createProgress(row, prepared.chunks, channelsEach);
  const waiting = prepared.chunks.filter(({ state }) => state === "waiting").values();
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const task: ChunkTask = { row, model, pcmPaths: prepared.pcmPaths, progress, takeBegun: ahead.take };
  const work = async () => {
    for (const chunk of waiting) await runChunk(context, task, chunk, either);
  };
  const runners = Math.min(
    prepared.chunks.length,
    context.slots.status().workers + OUTSTANDING_BESIDE_WORKERS,
  );
  await Promise.allSettled(
    Array.from({ length: runners }, () =>
      work().catch((error: unknown) => {
        stop.abort(error);
        void ahead.stop();
        throw error;
      }),
    ),
  );
  // What ended first is the cause; the others were stopped because of it. Now none of them uses the engine any more.
  stop.signal.throwIfAborted();
}

/** Audio that has its outcome, milliseconds over all channels; rises with every chunk. */
export type Progress = {
  /** The part of the recording that a chunk stands for. */
  shareOf(position: number): number;
  /** Counts a chunk; the sum so far. */
  finish(position: number): number;
};

/**
 * A chunk accounts for the audio from the end of the one before it in its channel, the last for the rest; for that of
 * two channels where one is transcribed for both.
 */
function createProgress(row: TranscriptionRow, chunks: readonly ChunkRow[], channelsEach: number): Progress {
  const shares = new Map<number, number>();
  const lastOfChannel = new Map<number, ChunkRow>();
  for (const chunk of chunks) {
    const previous = lastOfChannel.get(chunk.channel);
    shares.set(chunk.position, chunk.endMs - (previous?.endMs ?? 0));
    lastOfChannel.set(chunk.channel, chunk);
  }
  for (const last of lastOfChannel.values()) {
    shares.set(last.position, (shares.get(last.position) ?? 0) + Math.max(0, row.durationMs - last.endMs));
  }
  const shareOf = (position: number) => (shares.get(position) ?? 0) * channelsEach;
  let doneMs = 0;
  for (const chunk of chunks) if (chunk.state !== "waiting") doneMs += shareOf(chunk.position);
  return {
    shareOf,
    finish(position) {
      doneMs += shareOf(position);
      return Math.round(doneMs);
    },
  };
}

/** Result, partial result or failure from what the chunks came to (docs/decisions.md section 4). */
export function endingOf(
  row: TranscriptionRow,
  chunks: readonly ChunkRow[],
  segments: readonly LooseSegment[],
  recordingWarnings: readonly Warning[],
): Ending {
  const isSeparate = row.channelMode === "separate";
  const failed = chunks.filter(({ state }) => state === "failed");
  if (failed.length > 0 && failed.length === chunks.length) {
    return {
      kind: "failed",
      code: "transcription_failed",
      message: "No part of the speech could be transcribed.",
    };
  }
  const gaps: Gap[] = failed.map(({ startMs, endMs, gapReason, channel }) => ({
    startMs,
    endMs: Math.min(endMs, row.durationMs),
    reason: gapReason ?? "engine_error",
    ...(isSeparate ? { channel } : {}),
  }));
  const result = assembleResult({
    segments,
    gaps,
    warnings: [...recordingWarnings, ...chunks.flatMap((chunk) => chunk.warnings ?? [])],
    durationMs: row.durationMs,
    channels: row.channels,
    request: { channelMode: row.channelMode },
  });
  const gapMs = gaps.reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0);
  return { kind: "result", result, billedMs: Math.max(0, row.durationMs * billedChannels(row) - gapMs) };
}

function failureOf(error: AppError | EngineError): Ending {
  if (error instanceof AppError) return { kind: "failed", code: error.code, message: error.message };
  if (error.kind === "unusable_model") {
    return { kind: "failed", code: "capacity_unavailable", message: "The model could not be loaded." };
  }
  return {
    kind: "failed",
    code: "transcription_failed",
    message: "The transcription failed.",
  };
}
