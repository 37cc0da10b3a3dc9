import type { RecognitionEnding } from "../domain/ending.ts";
import { AppError } from "../domain/errors.ts";
import type { TranscriptionResult } from "../domain/result.ts";
import { billedMsOf } from "../domain/transcription.ts";
import { EngineError } from "../engine/protocol.ts";
import { inSlices } from "../lib/in-slices.ts";
import { chunkLimits } from "../pipeline/chunks.ts";
import { joinSpeakers } from "../pipeline/speakers.ts";
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
import { endingOf, failureOf } from "./ending.ts";
import { createPrefetch, type Prefetch } from "./prefetch.ts";
import { type DecodedRecording, decodeRecording, findChunks } from "./prepare.ts";
import { createProgress, type Progress } from "./progress.ts";
import { punctuate } from "./punctuation-run.ts";
import { withRetries } from "./retry.ts";
import { createSpeakerRun, type SpeakerRun } from "./speaker-run.ts";
import { segmentWriter } from "./written-form.ts";

/** Chunks that wait for slots while all slots are taken. More of them would only make the queue longer. */
const WAITING_BESIDE_SLOTS = 1;
/**
 * The part of the work that distinguishes speakers: the nets need about as much time of the processor as a small Whisper
 * model, the built-in method a tenth of that.
 */
const SPEAKERS_SHARE = 0.5;
const BUILT_IN_SPEAKERS_SHARE = 0.1;
const PROGRESS_EVERY_MS = 1_000;

/**
 * Recognizes a recording: decodes it, finds its speech, recognizes its chunks, applies the wording, labels speakers and
 * assembles the result. Continues from the checkpoint where it holds earlier progress.
 *
 * @returns undefined when the checkpoint reports that the transcription has ended meanwhile
 * @throws the signal's reason, or an error that it caused, when it is aborted; errors that neither the recording nor the
 *   engine caused, such as that the checkpoint cannot be written
 */
export async function recognizeRecording(
  job: RecognitionJob,
  tools: RecognitionTools,
  signal: AbortSignal,
): Promise<RecognitionEnding<TranscriptionResult> | undefined> {
  try {
    const limits = chunkLimits(maxChunkMsOf(job, tools));
    const decoded = await decodeRecording(job, limits, tools, signal);
    const recognized = await recognizeChunks(job, decoded, tools, signal);
    if (!recognized) return undefined;
    try {
      if (!(await tools.checkpoint.finishChunks())) return undefined;
      return await assemble(job, tools, { ...decoded, ...recognized }, signal);
    } finally {
      await recognized.speakers?.stop();
    }
  } catch (error) {
    if (signal.aborted || !(error instanceof AppError || error instanceof EngineError)) throw error;
    return failureOf(error);
  }
}

type Recognized = { ended: ChunkRecord[]; speakers: SpeakerRun | undefined };

/**
 * Recognizes all chunks of a decoded recording. The first chunks are recognized while the detector still reads the rest:
 * detection takes a hundredth of the recording's length, and the recognizer would be idle for that time. Speakers are
 * distinguished beside them as soon as chunks leave cores idle.
 *
 * @returns the chunks, each with its outcome; undefined when the transcription has ended meanwhile
 */
async function recognizeChunks(
  job: RecognitionJob,
  decoded: DecodedRecording,
  tools: RecognitionTools,
  signal: AbortSignal,
): Promise<Recognized | undefined> {
  const { request, model } = job;
  const { tracks, durationMs } = decoded;
  const maxChunkMs = maxChunkMsOf(job, tools);
  const source: ChunkSource = { tracks, durationMs, request, model };
  const prefetch = createPrefetch(
    tools.slots.count() + WAITING_BESIDE_SLOTS,
    (chunk, either) => {
      // More audio is left than one chunk holds. It may be silent.
      const hasSuccessors = durationMs - chunk.endMs > maxChunkMs;
      return recognizeOnce(tools, source, chunk, { isAlone: false, hasSuccessors }, either);
    },
    signal,
  );
  let speakers: SpeakerRun | undefined;
  try {
    if (!(await prepareChunks(job, decoded, tools, prefetch, signal))) return undefined;
    const chunks = await tools.checkpoint.chunks();
    const channelsEach = hasTwinChannel(decoded.warnings, chunks) ? 2 : 1;
    const speakersShare = speakersShareOf(job, tools);
    const progress = createProgress({ durationMs, chunks, channelsEach, speakersShare });
    speakers = speakersOf(job, decoded, { tools, chunks, progress }, signal);
    const task: ChunkTask = { ...source, progress, takeBegun: prefetch.take };
    await runChunks(tools, task, chunks, { prefetch, speakers }, signal);
    // Another run has begun an attempt at a chunk. This run must not end without that outcome.
    const ended = await tools.checkpoint.chunks();
    if (ended.some(({ state }) => state === "waiting")) throw new Error("another run has taken over a chunk");
    return { ended, speakers };
  } catch (error) {
    await speakers?.stop();
    throw error;
  } finally {
    await prefetch.stop();
  }
}

/** Returns the part of the work that distinguishes speakers. */
function speakersShareOf({ request }: RecognitionJob, tools: RecognitionTools): number {
  if (!request.diarization) return 0;
  return tools.speakerWeights().length > 0 ? SPEAKERS_SHARE : BUILT_IN_SPEAKERS_SHARE;
}

/** Prepares to distinguish the speakers, where the request asks for it and there is speech. */
function speakersOf(
  { request: { diarization } }: RecognitionJob,
  { tracks, durationMs, warnings }: DecodedRecording,
  {
    tools,
    chunks,
    progress,
  }: { tools: RecognitionTools; chunks: readonly ChunkRecord[]; progress: Progress },
  signal: AbortSignal,
): SpeakerRun | undefined {
  if (!diarization || chunks.length === 0) {
    tools.onSpeakers?.(durationMs * tracks.length, 0);
    return undefined;
  }
  let savedAt = Number.NEGATIVE_INFINITY;
  const onProgress = (share: number) => {
    const doneMs = progress.hear(share);
    if (share < 1 && performance.now() - savedAt < PROGRESS_EVERY_MS) return;
    savedAt = performance.now();
    // A failure here is one of the store, which the next outcome meets, too.
    tools.checkpoint.saveProgress(doneMs).catch(() => {});
  };
  const all = hasTwinChannel(warnings, chunks) ? withTwins(chunks) : chunks;
  return createSpeakerRun(tools, { diarization, tracks, chunks: all, durationMs, onProgress }, signal);
}

/**
 * Finds the chunks and records them, unless an earlier run did. Returns false when the transcription has ended meanwhile.
 */
async function prepareChunks(
  job: RecognitionJob,
  { tracks, warnings, durationMs, channels, outline, speech }: DecodedRecording,
  tools: RecognitionTools,
  prefetch: Prefetch<RecognizedChunk>,
  signal: AbortSignal,
): Promise<boolean> {
  const totalMs = billedMsOf({ durationMs, channelMode: job.request.channelMode, channels });
  if (tools.checkpoint.preparedWarnings()) {
    return tools.checkpoint.savePreparation({ warnings, totalMs, outline }, signal);
  }
  // Of two identical channels only the first is recognized.
  const paths = warnings.includes("identical_channels") ? tracks.slice(0, 1) : tracks;
  const limits = chunkLimits(maxChunkMsOf(job, tools));
  const { normalizesChunks: keepsPauses = false } = tools.familyOf(job.model.family);
  const chunks = await withRetries(tools, signal, () =>
    findChunks(tools, { paths, speech, keepsPauses }, limits, prefetch.offer, signal),
  );
  return tools.checkpoint.savePreparation({ warnings, totalMs, chunks, outline }, signal);
}

/** Returns the length of the longest chunk for this model, milliseconds. */
function maxChunkMsOf({ model }: RecognitionJob, { familyOf }: RecognitionTools): number {
  return model.decoding.maxChunkMs ?? familyOf(model.family).maxChunkMs;
}

/** Runs all waiting chunks. The first error that ends the recording stops the other chunks, and is thrown. */
async function runChunks(
  tools: RecognitionTools,
  task: ChunkTask,
  chunks: readonly ChunkRecord[],
  { prefetch, speakers }: { prefetch: Prefetch<RecognizedChunk>; speakers: SpeakerRun | undefined },
  signal: AbortSignal,
): Promise<void> {
  const all = chunks.filter(({ state }) => state === "waiting");
  const waiting = all.values();
  let left = all.length;
  const beginSpeakers = () => {
    if (tools.engine.idleCores(left) > 0) speakers?.begin();
  };
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const work = async () => {
    for (const chunk of waiting) {
      await runChunk(tools, task, chunk, either);
      left--;
      beginSpeakers();
    }
  };
  beginSpeakers();
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
  // The first error stopped the other runners, which no longer use the engine.
  stop.signal.throwIfAborted();
}

/**
 * Segments that are worded without a pause where their words have times. One of 30 s with a hesitation or a mark in every few
 * words takes 12 ms of the processor, at 240 words a minute 27 ms.
 */
const TIMED_SEGMENTS_AT_ONCE = 2;

/** Segments that are written in another form without a pause. A segment of half a minute takes up to half a millisecond. */
const WRITTEN_SEGMENTS_AT_ONCE = 10;

/** Assembles the result from the outcomes of all chunks. */
async function assemble(
  { request, model }: RecognitionJob,
  tools: RecognitionTools,
  { warnings, ended, speakers, ...recording }: DecodedRecording & Recognized,
  signal: AbortSignal,
): Promise<RecognitionEnding<TranscriptionResult>> {
  const chunks = hasTwinChannel(warnings, ended) ? withTwins(ended) : ended;
  const segments = await inSlices(
    chunks.flatMap((chunk) => chunk.segments ?? []),
    (slice) => wordSegments(slice, request.mode),
    request.timestamps === "word" ? TIMED_SEGMENTS_AT_ONCE : undefined,
  );
  signal.throwIfAborted();
  // Without text there is nothing to label.
  const found = segments.length > 0 ? await speakers?.finish() : undefined;
  const labelled = found ? joinSpeakers(segments, found.turns) : segments;
  const write = await segmentWriter(request);
  const marked = await punctuate(tools, model.family, labelled, signal);
  const written = await inSlices(marked.segments, write, WRITTEN_SEGMENTS_AT_ONCE);
  return endingOf({
    request,
    durationMs: recording.durationMs,
    channels: recording.channels,
    reading: recording.reading,
    chunks,
    segments: written,
    warnings: [...warnings, ...(found?.warnings ?? []), ...marked.warnings],
    ...(found?.speakerWeights ? { speakerWeights: found.speakerWeights } : {}),
    ...(marked.punctuation ? { punctuation: marked.punctuation } : {}),
  });
}
