import { AppError } from "../domain/errors.ts";
import { recognizedChannels } from "../domain/transcription.ts";
import { EngineError } from "../engine/protocol.ts";
import { chunkLimits } from "../pipeline/chunks.ts";
import { hasTwinChannel, withTwins } from "../pipeline/twin-channel.ts";
import { wordSegments } from "../pipeline/worded.ts";
import type { ChunkRecord } from "./checkpoint.ts";
import {
  type ChunkSource,
  type ChunkTask,
  type RecognizedChunk,
  recognizeOnce,
  runChunk,
} from "./chunk-run.ts";
import type { RecognitionJob, RecognitionTools } from "./context.ts";
import { type Ending, endingOf, failureOf } from "./ending.ts";
import { createPrefetch, type Prefetch } from "./prefetch.ts";
import { type DecodedRecording, decodeRecording, findChunks } from "./prepare.ts";
import { createProgress } from "./progress.ts";
import { withRetries } from "./retry.ts";
import { labelSpeakers } from "./speakers.ts";

/** More requests for slots than there are slots would only make the queue longer. */
const WAITING_BESIDE_SLOTS = 1;

/**
 * Recognizes a recording: decodes it, finds its speech, recognizes chunk after chunk, applies the wording, labels
 * speakers and assembles the result. Continues from the checkpoint where there is one.
 *
 * @returns undefined when the checkpoint reports that the transcription has ended meanwhile
 * @throws the signal's reason, or an error that it caused, when it is aborted; what is a failure neither of the
 *   recording nor of the engine, such as a checkpoint that cannot be written
 */
export async function recognizeRecording(
  job: RecognitionJob,
  tools: RecognitionTools,
  signal: AbortSignal,
): Promise<Ending | undefined> {
  try {
    const decoded = await decodeRecording(job, tools, signal);
    const isDone = await recognizeChunks(job, decoded, tools, signal);
    if (!isDone || !tools.checkpoint.finishChunks()) return undefined;
    return await assemble(job, decoded, tools, signal);
  } catch (error) {
    if (signal.aborted || !(error instanceof AppError || error instanceof EngineError)) throw error;
    return failureOf(error);
  }
}

/**
 * Brings all chunks of a decoded recording to their outcomes. The first chunks are recognized while the detector
 * still reads: it takes a hundredth of a recording's length, and the recognizer would be idle for that time.
 *
 * @returns false when the transcription has ended meanwhile
 */
async function recognizeChunks(
  job: RecognitionJob,
  decoded: DecodedRecording,
  tools: RecognitionTools,
  signal: AbortSignal,
): Promise<boolean> {
  const { request, model } = job;
  const { tracks, durationMs } = decoded;
  const maxChunkMs = maxChunkMsOf(job, tools);
  const source: ChunkSource = { tracks, durationMs, request, model };
  const prefetch = createPrefetch(
    tools.slots.count() + WAITING_BESIDE_SLOTS,
    (chunk, either) => {
      // More is left than one chunk holds, unless it is silent.
      const hasSuccessors = durationMs - chunk.endMs > maxChunkMs;
      return recognizeOnce(tools, source, chunk, { isAlone: false, hasSuccessors }, either);
    },
    signal,
  );
  try {
    if (!(await prepareChunks(job, decoded, tools, prefetch, signal))) return false;
    const chunks = tools.checkpoint.chunks();
    const channelsEach = hasTwinChannel(decoded.warnings, chunks) ? 2 : 1;
    const progress = createProgress({ durationMs, chunks, channelsEach });
    const task: ChunkTask = { ...source, progress, takeBegun: prefetch.take };
    await runChunks(tools, task, chunks, prefetch, signal);
    // Another run took a chunk over, and nothing it does may be lost: this one must not end without it.
    if (tools.checkpoint.chunks().some(({ state }) => state === "waiting"))
      throw new Error("another run has taken over a chunk");
    return true;
  } finally {
    await prefetch.stop();
  }
}

/** Finds the chunks unless they are recorded already, and records them. False when the transcription has ended. */
async function prepareChunks(
  job: RecognitionJob,
  { tracks, warnings, durationMs, channels }: DecodedRecording,
  tools: RecognitionTools,
  prefetch: Prefetch<RecognizedChunk>,
  signal: AbortSignal,
): Promise<boolean> {
  const totalMs = durationMs * recognizedChannels({ channelMode: job.request.channelMode, channels });
  if (tools.checkpoint.preparedWarnings()) return tools.checkpoint.savePreparation({ warnings, totalMs });
  // Of two channels with the same sound one is recognized.
  const own = warnings.includes("identical_channels") ? tracks.slice(0, 1) : tracks;
  const limits = chunkLimits(maxChunkMsOf(job, tools));
  const chunks = await withRetries(tools, signal, () =>
    findChunks(tools, own, limits, prefetch.offer, signal),
  );
  return tools.checkpoint.savePreparation({ warnings, totalMs, chunks });
}

/** The longest chunk that a model is given. */
function maxChunkMsOf({ model }: RecognitionJob, { familyOf }: RecognitionTools): number {
  return model.decoding.maxChunkMs ?? familyOf(model.family).maxChunkMs;
}

/** Runs all waiting chunks. The first error that ends the recording stops the others, and is thrown. */
async function runChunks(
  tools: RecognitionTools,
  task: ChunkTask,
  chunks: readonly ChunkRecord[],
  prefetch: Prefetch<RecognizedChunk>,
  signal: AbortSignal,
): Promise<void> {
  const waiting = chunks.filter(({ state }) => state === "waiting").values();
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const work = async () => {
    for (const chunk of waiting) await runChunk(tools, task, chunk, either);
  };
  const runners = Math.min(chunks.length, tools.slots.count() + WAITING_BESIDE_SLOTS);
  await Promise.allSettled(
    Array.from({ length: runners }, () =>
      work().catch((error: unknown) => {
        stop.abort(error);
        void prefetch.stop();
        throw error;
      }),
    ),
  );
  // The first error is the cause; the others were stopped because of it. None of them uses the engine any more.
  stop.signal.throwIfAborted();
}

/** Puts the outcomes of all chunks together. */
async function assemble(
  { request }: RecognitionJob,
  { tracks, warnings, durationMs, channels }: DecodedRecording,
  tools: RecognitionTools,
  signal: AbortSignal,
): Promise<Ending> {
  const done = tools.checkpoint.chunks();
  const chunks = hasTwinChannel(warnings, done) ? withTwins(done) : done;
  const segments = wordSegments(
    chunks.flatMap((chunk) => chunk.segments ?? []),
    request.mode,
  );
  const { diarization } = request;
  const spoken = await labelSpeakers(tools, { diarization, tracks, chunks, segments }, signal);
  return endingOf({
    request,
    durationMs,
    channels,
    chunks,
    segments: spoken.segments,
    warnings: [...warnings, ...spoken.warnings],
  });
}
