import type { InstalledModel } from "../domain/model.ts";
import type { TranscriptionRequest } from "../domain/transcription.ts";
import type { Engine } from "../engine/engine.ts";
import type { ChunkSlots, Recording } from "../recognition/context.ts";
import type { Ending } from "../recognition/ending.ts";
import { recognizeRecording } from "../recognition/recognize.ts";
import { isOutOfRoom } from "../store/out-of-room.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";
import type { RunContext } from "./context.ts";
import { createRowCheckpoint } from "./row-checkpoint.ts";

/**
 * Takes one transcription from `queued` to its end, or leaves it where it is when `signal` is aborted.
 *
 * @throws what is a failure neither of the recording nor of the engine, such as a store that cannot be written
 */
export async function runTranscription(context: RunContext, id: string, signal: AbortSignal): Promise<void> {
  const row = context.transcriptions.move(id, "claim", { startedAt: context.clock.now() });
  if (!row) return;
  try {
    const ending = await recognize(context, row, signal);
    if (!ending) return;
    if (ending.kind === "result") {
      const { result, recognizedMs } = ending;
      context.transcriptions.finish(id, { kind: "result", result, billedMs: recognizedMs });
      return;
    }
    const { code, message, cause } = ending;
    if (cause) context.log.error({ transcription_id: id, err: cause }, "transcription failed");
    context.transcriptions.finish(id, { kind: "failed", code, message });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

async function recognize(
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
  const { durationMs, channels } = row;
  const recording: Recording = {
    path: context.audioPath(row.uploadId),
    directory: context.workingDir(row.id),
    verified: { durationMs, channels },
  };
  const tools = {
    engine: { ...context.engine, decode: decodeInLane(context, row) },
    checkpoint: createRowCheckpoint(context.database, row),
    slots: slotsFor(context, row, model),
    clock: context.clock,
    onRecognized: context.throughput.observe,
    log: context.log.child({ transcription_id: row.id }),
    familyOf: context.familyOf,
    speakerWeights: context.speakerWeights,
    maxDurationMs: context.config.limits.max_duration_seconds * 1000,
    chunkAttempts: context.config.engine.chunk_attempts,
    // Accepted work waits until somebody has made space.
    isWaitedOut: isOutOfRoom,
  };
  return recognizeRecording({ recording, request: requestOf(row), model }, tools, signal);
}

/** Decoding a longer one takes so much time that small work should find another lane. */
const LONG_RECORDING_MS = 600_000;

/** Decodes in a lane that is shared between organizations. A synchronous request has a deadline, and goes first. */
function decodeInLane(
  { engine, decoders }: RunContext,
  { organizationId, entrance, durationMs }: TranscriptionRow,
): Engine["decode"] {
  const purpose = entrance === "synchronous" ? "synchronous" : "transcription";
  const isLarge = durationMs > LONG_RECORDING_MS;
  return (job, signal) =>
    decoders.run({ organizationId, purpose, isLarge }, signal, () => engine.decode(job, signal));
}

/** The slots of the machine, as chunks of this transcription ask for them. */
function slotsFor(
  { slots, engine, weightOf }: RunContext,
  { id, entrance, organizationId }: TranscriptionRow,
  model: InstalledModel,
): ChunkSlots {
  return {
    count: () => slots.status().workers,
    acquire: ({ position, speechMs, hasSuccessors }, signal) =>
      slots.acquire(
        {
          isSynchronous: entrance === "synchronous",
          organizationId,
          weight: weightOf(organizationId),
          transcriptionId: id,
          position,
          costMs: speechMs,
          model: { id: model.id, places: engine.capacity(model).chunks },
          hasSuccessors,
        },
        signal,
      ),
  };
}

function requestOf(row: TranscriptionRow): TranscriptionRequest {
  const { language, mode, timestamps, channelMode, minSpeakers, maxSpeakers } = row;
  const diarization = {
    ...(minSpeakers === null ? {} : { minSpeakers }),
    ...(maxSpeakers === null ? {} : { maxSpeakers }),
  };
  return { language, mode, timestamps, channelMode, ...(row.diarization ? { diarization } : {}) };
}
