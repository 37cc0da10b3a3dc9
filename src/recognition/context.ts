import type { InstalledModel, ModelFamilyName, SpeakerWeights } from "../domain/model.ts";
import type { TranscriptionRequest } from "../domain/transcription.ts";
import type { Engine } from "../engine/engine.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import type { ModelFamily } from "../pipeline/families/family.ts";
import type { Checkpoint } from "./checkpoint.ts";

/** A recording, and where its decoded audio goes. */
export type Recording = {
  /** The recording as it was received. */
  path: string;
  /** Folder of the decoded tracks. Recognition creates it, and replaces it as a whole; the caller removes it. */
  directory: string;
  /** What an earlier check of the file found. Absent: decoding finds it. */
  verified?: { durationMs: number; channels: number };
};

export type RecognitionJob = { recording: Recording; request: TranscriptionRequest; model: InstalledModel };

/** A chunk that waits for a slot. */
export type SlotWish = {
  position: number;
  speechMs: number;
  /** More chunks of the recording are about to ask for slots, so this one must not take the whole machine. */
  hasSuccessors: boolean;
};

/** The right to recognize one chunk, held until it is released. */
export type ChunkSlot = {
  /** Chunks that are likely to run side by side, this one included. */
  sharers: number;
  release(): void;
};

/** Admits chunks to the engine: how many run side by side, and whose turn it is. */
export type ChunkSlots = {
  /** Chunks that can run side by side. */
  count(): number;
  /** Waits for a slot. Rejects with the signal's reason when that aborts first. */
  acquire(wish: SlotWish, signal: AbortSignal): Promise<ChunkSlot>;
};

/** What recognition works with. */
export type RecognitionTools = {
  engine: Engine;
  checkpoint: Checkpoint;
  slots: ChunkSlots;
  /** Called with each finished chunk: the recording it stands for, and its work as the executor counts it. */
  onRecognized?: (recordingMs: number, workMs: number) => void;
  clock: Clock;
  /** Carries the fields that name the recording. */
  log: Log;
  /** The family of a model, by its name. */
  familyOf: (name: ModelFamilyName) => ModelFamily;
  /** Weights for telling speakers apart; undefined: the built-in method. */
  speakerWeights: () => SpeakerWeights | undefined;
  /** Longest recording that is decoded, unless its verified length is more. */
  maxDurationMs: number;
  /** Failed attempts after which a chunk becomes a gap. */
  chunkAttempts: number;
  /** Whether to wait for the end of a failure's cause for as long as it takes, such as a full disk. */
  isWaitedOut: (error: unknown) => boolean;
};

/** Attempts that ended for a reason elsewhere, such as the crash of a neighbour, before they count as failures. */
export const MAX_INTERRUPTIONS = 20;
