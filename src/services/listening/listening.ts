import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { createDecoderPlaces, type DecoderWork } from "../../admission/decoder-places.ts";
import { createSharedWork } from "../../admission/shared-work.ts";
import type { Caller } from "../../domain/api-key.ts";
import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import { AppError } from "../../domain/errors.ts";
import type { Outline } from "../../domain/outline.ts";
import { requireOwned } from "../../domain/ownership.ts";
import type { FileToRead } from "../../domain/reading.ts";
import { type ChannelMode, recognizedChannels } from "../../domain/transcription.ts";
import type { Clock } from "../../lib/clock.ts";
import { type Database, gatedTransaction, type Store } from "../../store/database.ts";
import { findPoints, findWaveform, insertOutline, type StoredWaveform } from "../../store/outlines.ts";
import { findTranscription, type TranscriptionRow } from "../../store/transcriptions.ts";
import { findUpload, readingOf } from "../../store/uploads.ts";
import { REQUEST_WAIT } from "../../store/write-gate.ts";
import type { ApiKeyService } from "../api-keys.ts";
import { type AudioLinks, createAudioLinks } from "./audio-links.ts";

type OutlineJob = FileToRead & { channels: ChannelMode; maxDurationMs: number; file: string };
type PlayJob = FileToRead & {
  channels: ChannelMode;
  lanes: number;
  fromSample: number;
  samples: number;
  points?: Uint8Array | undefined;
};

export type ListeningDeps = {
  database: Database;
  clock: Clock;
  dataDir: string;
  apiKeys: Pick<ApiKeyService, "callerOf">;
  /** Returns the path of an upload's file. */
  audioPath: (uploadId: string) => string;
  /** The engine's two ways of decoding for listeners. */
  engine: {
    outline(job: OutlineJob, signal: AbortSignal): Promise<Outline>;
    play(job: PlayJob, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>>;
  };
};

/** The audio of a transcription as it is sent: 16 kHz, 16 bit, the lanes of a sample side by side. */
export type PlayableAudio = {
  transcription: TranscriptionRow;
  lanes: number;
  /** Samples of each lane. */
  samples: number;
};

/** Listening to recordings (docs/console.md section 2). */
export type ListeningService = AudioLinks & {
  /**
   * Finds the audio of a transcription of the caller's project.
   *
   * @throws AppError `not_found`, `forbidden`; `content_deleted` when the recording is deleted
   */
  audio(caller: Caller, id: string): PlayableAudio;
  /**
   * Decodes a stretch of it.
   *
   * @throws AppError `capacity_unavailable` when no decoder gets free in time; what the engine throws
   */
  read(
    audio: PlayableAudio,
    stretch: { fromSample: number; samples: number },
    signal: AbortSignal,
  ): Promise<Uint8Array<ArrayBuffer>>;
  /**
   * Returns the waveform of a transcription of the caller's project. Where there is none, the recording is decoded for it.
   *
   * @throws AppError as `audio` and `read`
   */
  waveform(
    caller: Caller,
    id: string,
    signal: AbortSignal,
  ): Promise<StoredWaveform & { transcription: TranscriptionRow }>;
  /** Returns how many decoders work for listeners, and how many requests wait for one. */
  status(): { places: number; running: number; waiting: number };
};

/** Decoders for listeners that one organization can have at once. A stretch takes some tens of milliseconds. */
const PLACES_OF_ONE = 4;
const WAIT_MS = 10_000;
const RETRY_SECONDS = 2;
/** Sound before a stretch that is decoded rather than made an outline for. */
const DECODED_BEFORE_SAMPLES = 60 * SAMPLE_RATE_HZ;
/** Length from which making an outline is large work: such work never takes all decoders. */
const LARGE_MS = 600_000;
/** Outlines whose points are kept in memory, 256 KiB each at most. */
const KEPT_POINTS = 16;
/** Bytes and headers may claim more than what was verified; the outline is made of what there is. */
const MAX_DURATION_FACTOR = 2;

export function createListeningService(deps: ListeningDeps): ListeningService {
  const { database, clock, engine } = deps;
  const { store } = database;
  // These decoders are apart from those of recognition, so that a listener waits for no recording.
  const places = createDecoderPlaces(PLACES_OF_ONE);
  const points = createKeptPoints();

  /** Decodes a recording once a decoder is free. A recording that is deleted meanwhile is the reason of any failure. */
  async function inPlace<T>(
    row: TranscriptionRow,
    work: Pick<DecoderWork, "purpose" | "isLarge">,
    signal: AbortSignal,
    decode: (file: FileToRead) => Promise<T>,
  ): Promise<T> {
    const wait = new AbortController();
    const timer = setTimeout(() => wait.abort(noPlace()), WAIT_MS);
    const { organizationId } = row;
    try {
      return await places.run({ ...work, organizationId }, AbortSignal.any([signal, wait.signal]), () => {
        clearTimeout(timer);
        return decode(requireFile(deps, row));
      });
    } catch (error) {
      if (!signal.aborted) requireFile(deps, row);
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Decodes the whole recording for its outline, and keeps that unless the content was deleted meanwhile. */
  const makeOutline = createSharedWork(async (id, signal) => {
    const row = findTranscription(store, id);
    if (!row) throw new AppError("not_found");
    const { channelMode, durationMs } = row;
    const directory = join(deps.dataDir, "work");
    const work = { purpose: "upload", isLarge: durationMs > LARGE_MS } as const;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const outline = await inPlace(row, work, signal, (input) =>
      engine.outline(
        {
          ...input,
          channels: channelMode,
          maxDurationMs: durationMs * MAX_DURATION_FACTOR + 1000,
          file: join(directory, `outline-${randomBytes(8).toString("hex")}`),
        },
        signal,
      ),
    );
    const keep = (tx: Store) => {
      const now = findTranscription(tx, id);
      if (!now || now.contentDeletedAt !== null) throw new AppError("content_deleted");
      insertOutline(tx, id, outline, null, clock.now());
    };
    await gatedTransaction(database, keep, REQUEST_WAIT);
  });

  async function pointsFor(
    { transcription }: PlayableAudio,
    fromSample: number,
    signal: AbortSignal,
  ): Promise<Uint8Array | undefined> {
    const { id } = transcription;
    const found = points.get(id) ?? findPoints(store, id);
    if (found) return points.keep(id, found);
    if (fromSample <= DECODED_BEFORE_SAMPLES) return undefined;
    await makeOutline(id, signal);
    return findPoints(store, id);
  }

  const owned = (caller: Caller, id: string) => requireOwned(findTranscription(store, id), caller);

  return {
    ...createAudioLinks(deps.apiKeys, clock),
    audio(caller, id) {
      const transcription = owned(caller, id);
      requireFile(deps, transcription);
      const samples = (transcription.durationMs * SAMPLE_RATE_HZ) / 1000;
      return { transcription, lanes: recognizedChannels(transcription), samples };
    },
    async read(audio, { fromSample, samples }, signal) {
      const { transcription, lanes } = audio;
      const known = await pointsFor(audio, fromSample, signal);
      return inPlace(transcription, { purpose: "synchronous", isLarge: false }, signal, (file) => {
        const job = {
          ...file,
          channels: transcription.channelMode,
          lanes,
          fromSample,
          samples,
          points: known,
        };
        return engine.play(job, signal);
      });
    },
    async waveform(caller, id, signal) {
      const transcription = owned(caller, id);
      if (transcription.contentDeletedAt !== null) throw new AppError("content_deleted");
      let found = findWaveform(store, id);
      if (!found) {
        requireFile(deps, transcription);
        await makeOutline(id, signal);
        found = findWaveform(store, id);
      }
      if (!found) throw new AppError("content_deleted");
      return { ...found, transcription };
    },
    status: places.status,
  };
}

function noPlace(): AppError {
  return new AppError("capacity_unavailable", {
    message: "No decoder is free for listeners at the moment.",
    retryAfterSeconds: RETRY_SECONDS,
  });
}

/** Returns the recording, and how it is read. @throws AppError `content_deleted` */
function requireFile({ database, audioPath }: ListeningDeps, { id, uploadId }: TranscriptionRow): FileToRead {
  const row = findTranscription(database.store, id);
  if (!row || row.contentDeletedAt !== null) throw new AppError("content_deleted");
  const upload = findUpload(database.store, uploadId);
  const path = audioPath(uploadId);
  if (!upload || upload.deletedAt !== null || !existsSync(path)) {
    throw new AppError("content_deleted", { message: "The recording of this transcription is deleted." });
  }
  return { path, reading: readingOf(upload) };
}

/** Keeps the points of the recordings that were listened to last: a player asks for stretch after stretch. */
function createKeptPoints() {
  const kept = new Map<string, Uint8Array>();
  return {
    get: (id: string) => kept.get(id),
    keep(id: string, points: Uint8Array): Uint8Array {
      kept.delete(id);
      kept.set(id, points);
      for (const oldest of kept.keys()) {
        if (kept.size <= KEPT_POINTS) break;
        kept.delete(oldest);
      }
      return points;
    },
  };
}
