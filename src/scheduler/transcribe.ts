import packageJson from "../../package.json" with { type: "json" };
import type { DecoderWork } from "../admission/decoder-places.ts";
import { remainingMsOf } from "../admission/remaining-work.ts";
import type { RecognitionEnding } from "../domain/ending.ts";
import { type InstalledModel, recordedDecoding } from "../domain/model.ts";
import { modelHashOf } from "../domain/model-hash.ts";
import type { DoubtfulText, TranscriptionResult } from "../domain/result.ts";
import type { RecognitionMeans } from "../domain/story.ts";
import type { Engine } from "../engine/engine.ts";
import type { ChunkSlots, Recording } from "../recognition/context.ts";
import { recognizeRecording } from "../recognition/recognize.ts";
import { requestOf } from "../services/transcriptions/acceptance.ts";
import { countEndedChunks } from "../store/chunks.ts";
import { isWaitedOut } from "../store/disk-full.ts";
import { packResult } from "../store/results.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";
import { findUpload, readingOf } from "../store/uploads.ts";
import { isSynchronous, type RunContext } from "./context.ts";
import { createRowCheckpoint } from "./row-checkpoint.ts";

/**
 * Carries one transcription from `queued` to its end. Leaves it in its present state when `signal` is aborted, and does
 * nothing when it is not `queued`.
 *
 * @throws errors that neither the recording nor the engine caused, such as that the store cannot be written
 */
export async function runTranscription(context: RunContext, id: string, signal: AbortSignal): Promise<void> {
  const { transcriptions, database } = context;
  // Work is neither repeated nor lost because another program holds the write lock: it waits.
  const write = <T>(work: () => T) => database.gate.run(work, { signal });
  try {
    const row = await write(() => claim(context, id));
    if (!row) return;
    const model = modelFor(context, row);
    // It may change while the recording is recognized.
    const doubtfulText = context.config.engine.doubtful_text;
    const ending = "kind" in model ? model : await recognize(context, row, { model, doubtfulText }, signal);
    if (!ending) return;
    const means = "kind" in model ? {} : { means: { ...meansOf(context, model, ending), doubtfulText } };
    if (ending.kind === "result") {
      // Outside the transaction, because both take long where the recording is long.
      const packed = { ...ending, result: await packResult(ending.result) };
      const work = { ...means, chunks: await countEndedChunks(database.store, id) };
      await write(() => transcriptions.finish(id, packed, work));
      return;
    }
    if (ending.cause) context.log.error({ transcription_id: id, err: ending.cause }, "transcription failed");
    await write(() => transcriptions.finish(id, ending, means));
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

type Recognized = RecognitionEnding<TranscriptionResult>;

/** Claims a transcription. The first claim notes the weights that recognition begins with. */
function claim({ transcriptions, findModel, clock }: RunContext, id: string): TranscriptionRow | undefined {
  const waiting = transcriptions.find(id);
  const model = waiting?.modelSha256 === null ? findModel(waiting.modelId) : undefined;
  const modelSha256 = model && model.version === waiting?.modelVersion ? modelHashOf(model) : undefined;
  const change = modelSha256 === undefined ? {} : { modelSha256 };
  return transcriptions.move(id, "claim", { startedAt: clock.now(), ...change });
}

/** Returns with what a recording was recognized. The engine loads no weights but those of the manifest. */
function meansOf(
  { engine, config, commit }: RunContext,
  model: InstalledModel,
  ending: Recognized,
): RecognitionMeans {
  const { device, cpuVariant } = engine.status().models.find(({ modelId }) => modelId === model.id) ?? {};
  const { sha256: modelSha256, decoding, parts } = model;
  const { precision } = config.engine;
  return {
    ...{ device: device ?? null, cpuVariant: cpuVariant ?? null, modelSha256, isHashedAtLoad: true },
    ...(parts ? { modelFiles: parts.map(({ name, sha256 }) => ({ name, sha256 })) } : {}),
    ...("speakerWeights" in ending ? { speakerWeights: ending.speakerWeights } : {}),
    ...("punctuation" in ending ? { punctuation: ending.punctuation } : {}),
    ...{ executable: packageJson.version, commit, precision, decoding: recordedDecoding(decoding) },
  };
}

/** Finds the version and the weights of the model that the transcription was accepted for, and begun with. */
function modelFor({ findModel }: RunContext, row: TranscriptionRow): InstalledModel | Recognized {
  const model = findModel(row.modelId);
  const failed = (message: string): Recognized => ({ kind: "failed", code: "capacity_unavailable", message });
  if (!model) return failed("The model was removed.");
  if (model.version !== row.modelVersion)
    return failed(`Version ${row.modelVersion} of the model has been replaced by ${model.version}.`);
  if (row.modelSha256 !== null && row.modelSha256 !== modelHashOf(model))
    return failed("The weights of the model have been replaced.");
  return model;
}

/** Recognizes the recording. */
async function recognize(
  context: RunContext,
  row: TranscriptionRow,
  { model, doubtfulText }: { model: InstalledModel; doubtfulText: DoubtfulText },
  signal: AbortSignal,
): Promise<Recognized | undefined> {
  const { durationMs, channels } = row;
  const upload = findUpload(context.database.store, row.uploadId);
  const recording: Recording = {
    path: context.audioPath(row.uploadId),
    directory: context.workingDir(row.id),
    reading: upload && readingOf(upload),
    verified: { durationMs, channels },
  };
  const tools = {
    engine: {
      ...context.engine,
      elsewhere: elsewhereInPlace(context, row),
      decode: decodeInPlace(context, row),
      detectSpeech: detectSpeechInPlace(context, row),
      recognize: recognizeFor(context, row),
    },
    checkpoint: createRowCheckpoint(
      context.database,
      row,
      context.commits,
      context.clock,
      context.onChunkEnded,
    ),
    slots: slotsFor(context, row, model),
    clock: context.clock,
    onRecognized: context.throughput.observe,
    onSpeakers: context.throughput.observeSpeakers,
    log: context.log.child({ transcription_id: row.id }),
    familyOf: context.familyOf,
    speakerWeights: context.speakerWeights,
    punctuation: context.punctuation,
    maxDurationMs: context.config.limits.max_duration_seconds * 1000,
    mostAttempts: context.config.engine.chunk_attempts,
    keepsDoubtful: doubtfulText === "keep",
    // Accepted work waits until an admin has freed disk space.
    isWaitedOut,
  };
  return recognizeRecording({ recording, request: requestOf(row), model }, tools, signal);
}

/** Returns a recognizing function that says whether a client waits for the text. */
function recognizeFor({ engine }: RunContext, row: TranscriptionRow): Engine["recognize"] {
  return (job, signal) => engine.recognize({ ...job, isUrgent: isSynchronous(row) }, signal);
}

/** A longer recording takes so long to decode that small work must find another place. */
const LONG_RECORDING_MS = 600_000;

/**
 * Returns a decoding function that waits for a decoder place, which organizations share. Synchronous work has a deadline
 * and goes first.
 */
function decodeInPlace({ engine, decoders }: RunContext, row: TranscriptionRow): Engine["decode"] {
  const work = preparationOf(row);
  return (job, signal) => decoders.run(work, signal, () => engine.decode(job, signal));
}

/** Returns a function that finds speech in a place of its own kind, which organizations share in the same way. */
function detectSpeechInPlace(
  { engine, speechPlaces }: RunContext,
  row: TranscriptionRow,
): Engine["detectSpeech"] {
  const work = preparationOf(row);
  return (job, signal, onFound) =>
    speechPlaces.run(work, signal, () => engine.detectSpeech(job, signal, onFound));
}

/**
 * Returns the other machines that prepare recordings. Organizations share their places, too. Where a client waits, this
 * machine prepares: its recordings are short, and the way over the network would cost more than the work.
 */
function elsewhereInPlace(
  { engine: { elsewhere }, elsewherePlaces }: RunContext,
  row: TranscriptionRow,
): Engine["elsewhere"] {
  if (!elsewhere || isSynchronous(row)) return undefined;
  const work = preparationOf(row);
  return {
    places: elsewhere.places,
    prepare: (job, signal) => {
      const prepare = () => elsewhere.prepare(job, signal);
      return elsewhere.places() === 0 ? prepare() : elsewherePlaces.run(work, signal, prepare);
    },
  };
}

function preparationOf(row: TranscriptionRow): DecoderWork {
  return {
    organizationId: row.organizationId,
    purpose: isSynchronous(row) ? "synchronous" : "transcription",
    isLarge: row.durationMs > LONG_RECORDING_MS,
  };
}

/** Returns the machine's slots in the form in which one transcription asks for them. */
function slotsFor(
  { slots, engine, weightOf }: RunContext,
  row: TranscriptionRow,
  model: InstalledModel,
): ChunkSlots {
  const { id: transcriptionId, organizationId, projectId } = row;
  let remainingMs = remainingMsOf(row);
  return {
    count: () => slots.status().workers,
    async acquire({ position, speechMs, hasSuccessors }, signal) {
      const request = {
        ...{ isSynchronous: isSynchronous(row), organizationId, projectId, transcriptionId, position },
        weight: weightOf(organizationId),
        remainingMs: Math.max(0, remainingMs),
        costMs: speechMs,
        model: { id: model.id, slots: engine.capacity(model).chunks },
        hasSuccessors,
      };
      const slot = await slots.acquire(request, signal);
      // A repeated attempt is subtracted again. That only lets the transcription end a little sooner.
      remainingMs -= speechMs;
      return slot;
    },
  };
}
