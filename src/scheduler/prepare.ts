import { existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { AppError } from "../domain/errors.ts";
import type { InstalledModel, ModelDecoding } from "../domain/model.ts";
import type { Warning } from "../domain/result.ts";
import { EngineError, type SpeechRegion } from "../engine/protocol.ts";
import { audioWarnings } from "../pipeline/audio-facts.ts";
import { chunkLimits, packChunks } from "../pipeline/chunks.ts";
import { type ChunkRow, insertChunks, listChunks, type NewChunk } from "../store/chunks.ts";
import { transaction } from "../store/database.ts";
import { isOutOfRoom } from "../store/out-of-room.ts";
import { moveTranscription, type TranscriptionRow } from "../store/transcriptions.ts";
import { MAX_INTERRUPTIONS, type RunContext } from "./context.ts";

/** A recording that is ready to be transcribed: PCM files on disk, chunks in the store. */
export type Prepared = { pcmPaths: string[]; chunks: ChunkRow[]; warnings: Warning[] };

/** Told of all chunks so far that nothing will change any more, while the rest of the speech is looked for. */
export type OnChunksFound = (chunks: readonly NewChunk[]) => void;

/**
 * Decodes the recording and finds its speech, or finds that an earlier run of the program did.
 *
 * @param onChunks is told of the first chunks of a recording that has one track, before any is a row
 * @returns undefined when the transcription ended meanwhile
 * @throws AppError when the audio cannot be decoded, EngineError
 */
export async function prepareRecording(
  context: RunContext,
  row: TranscriptionRow,
  model: Pick<InstalledModel, "decoding">,
  onChunks: OnChunksFound,
  signal: AbortSignal,
): Promise<Prepared | undefined> {
  const directory = context.workingDir(row.id);
  const isCheckpointed = row.audioWarnings !== null;
  let warnings = row.audioWarnings ?? [];
  if (!isCheckpointed || !decodedPaths(context, row).every((path) => existsSync(path))) {
    warnings = await patiently(context, row.id, signal, () => decodeInto(context, row, directory, signal));
  }
  const pcmPaths = decodedPaths(context, row);
  // Of two channels with the same sound one is transcribed.
  const heard = warnings.includes("identical_channels") ? pcmPaths.slice(0, 1) : pcmPaths;
  const found = isCheckpointed
    ? undefined
    : await patiently(context, row.id, signal, () =>
        findChunks(context, heard, model.decoding, onChunks, signal),
      );
  const moved = transaction(context.database.store, (tx) => {
    if (found) insertChunks(tx, row.id, found);
    return moveTranscription(tx, row.id, "prepared", { audioWarnings: warnings });
  });
  if (!moved) return undefined;
  return { pcmPaths, chunks: listChunks(context.database.store, row.id), warnings };
}

/** Tries before the engine's failure is the transcription's, where the recording may be to blame or not. */
const MAX_FAILURES = 3;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;

/**
 * Repeats what the engine did not deliver: a decoder or detector that was stopped from outside or had no room on the
 * disk says nothing of the recording, and one that broke may have been broken by another recording beside it.
 * Without room, work waits for as long as it takes somebody to make some.
 *
 * @param longestPauseMs between two tries; replaced in tests
 * @throws what `work` throws when it may not be tried again, the signal's reason when it is aborted meanwhile
 */
export async function patiently<T>(
  context: RunContext,
  transcriptionId: string,
  signal: AbortSignal,
  work: () => Promise<T>,
  longestPauseMs = LONGEST_PAUSE_MS,
): Promise<T> {
  let failures = 0;
  let interruptions = 0;
  for (let tries = 0; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted || !(error instanceof EngineError) || error.kind === "unusable_model") throw error;
      if (!isOutOfRoom(error)) {
        const mayRepeat =
          error.kind === "interrupted" ? ++interruptions <= MAX_INTERRUPTIONS : ++failures < MAX_FAILURES;
        if (!mayRepeat) throw error;
      }
      const fields = { transcription_id: transcriptionId, kind: error.kind, reason: error.message };
      context.log.warn(fields, "work on a recording failed and is tried again");
      await pause(Math.min(longestPauseMs, FIRST_PAUSE_MS * 2 ** tries), undefined, { signal });
    }
  }
}

/** Decoding a longer one takes so much time that small work should find another lane. */
const LONG_RECORDING_MS = 600_000;

/** Decodes beside the final folder and renames it: a decoder that outlives a killed program writes elsewhere. */
async function decodeInto(
  context: RunContext,
  row: TranscriptionRow,
  directory: string,
  signal: AbortSignal,
): Promise<Warning[]> {
  const unfinished = `${directory}.${process.pid}.${context.clock.now()}`;
  mkdirSync(unfinished, { recursive: true, mode: 0o700 });
  try {
    const job = {
      path: context.audioPath(row.uploadId),
      directory: unfinished,
      channels: row.channelMode,
      maxDurationMs: Math.max(row.durationMs, context.config.limits.max_duration_seconds * 1000),
    };
    const decoded = await inLane(context, row, signal, () => context.engine.decode(job, signal));
    requireVerifiedSound(row, decoded);
    rmSync(directory, { recursive: true, force: true });
    renameSync(unfinished, directory);
    return audioWarnings(decoded.facts, row.channelMode);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}

/** Verification and decoding count the same samples; only recordings verified by an older version differ a little. */
const VERIFIED_WITHIN_MS = 100;

/**
 * What is charged is what was verified, so nothing else is transcribed.
 *
 * @throws AppError `transcription_failed` when the recording has another length, or fewer tracks, than was verified
 */
function requireVerifiedSound(
  row: Pick<TranscriptionRow, "durationMs" | "channels" | "channelMode">,
  decoded: { durationMs: number; files: readonly string[] },
): void {
  const tracks = row.channelMode === "mix" ? 1 : row.channels;
  const isAsLong = Math.abs(decoded.durationMs - row.durationMs) <= VERIFIED_WITHIN_MS;
  if (isAsLong && decoded.files.length === tracks) return;
  const found = `${decoded.durationMs} ms in ${decoded.files.length} tracks`;
  throw new AppError("transcription_failed", {
    message: `The recording decodes to ${found}, and was verified as ${row.durationMs} ms in ${tracks}.`,
  });
}

/** Takes a decoder lane. A synchronous request's has its deadline before it, and goes first. */
function inLane<T>(
  { decoders }: RunContext,
  { organizationId, entrance, durationMs }: TranscriptionRow,
  signal: AbortSignal,
  decode: () => Promise<T>,
): Promise<T> {
  const purpose = entrance === "synchronous" ? "synchronous" : "transcription";
  const isLarge = durationMs > LONG_RECORDING_MS;
  return decoders.run({ organizationId, purpose, isLarge }, signal, decode);
}

/** Where a recording's decoded tracks lie, or will lie. */
export function decodedPaths(
  context: Pick<RunContext, "workingDir">,
  row: Pick<TranscriptionRow, "id" | "channelMode" | "channels">,
): string[] {
  const directory = context.workingDir(row.id);
  if (row.channelMode === "mix") return [join(directory, "mix.pcm")];
  return Array.from({ length: row.channels }, (_, channel) => join(directory, `channel_${channel}.pcm`));
}

async function findChunks(
  context: RunContext,
  pcmPaths: readonly string[],
  decoding: ModelDecoding,
  onChunks: OnChunksFound,
  signal: AbortSignal,
): Promise<NewChunk[]> {
  // With several tracks a chunk's place among the others is not known before all of them have been read.
  const isOnlyTrack = pcmPaths.length === 1;
  const limits = chunkLimits(decoding);
  const perChannel = await Promise.all(
    pcmPaths.map(async (pcmPath, channel) => {
      if (statSync(pcmPath).size === 0) return [];
      const pack = (regions: readonly SpeechRegion[]) =>
        packChunks(regions, limits).map((chunk) => ({ ...chunk, channel }));
      const found: SpeechRegion[] = [];
      const onFound = (regions: SpeechRegion[]) => {
        found.push(...regions);
        // The last chunk may take more.
        onChunks(pack(found).slice(0, -1));
      };
      const job = { pcmPath, limits };
      return pack(await context.engine.detectSpeech(job, signal, isOnlyTrack ? onFound : undefined));
    }),
  );
  return perChannel.flat().sort((a, b) => a.startMs - b.startMs || a.channel - b.channel);
}
