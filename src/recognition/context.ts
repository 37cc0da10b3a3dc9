import type { InstalledModel, PunctuationModel, SpeakerWeights } from "../domain/model.ts";
import type { Reading } from "../domain/reading.ts";
import type { TranscriptionRequest } from "../domain/transcription.ts";
import type { Engine } from "../engine/engine.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import type { FamilyRules } from "../pipeline/family-rules.ts";
import type { Checkpoint } from "./checkpoint.ts";

/** A recording, and the folder of its decoded audio. */
export type Recording = {
  /** Path of the recording as it was received. */
  path: string;
  /** Folder of the decoded tracks. Recognition creates and replaces it. The caller removes it. */
  directory: string;
  /** How the file is read. Where it is left out, decoding finds it. */
  reading?: Reading | undefined;
  /** Values that verification of the file found. Where they are absent, decoding finds them. */
  verified?: { durationMs: number; channels: number };
};

export type RecognitionJob = { recording: Recording; request: TranscriptionRequest; model: InstalledModel };

/** A chunk that asks for a slot. */
export type SlotWish = {
  position: number;
  /** Speech in the chunk, milliseconds. */
  speechMs: number;
  /** More chunks of the recording are about to ask for slots, so this one must not take the whole machine. */
  hasSuccessors: boolean;
};

/** The right to recognize one chunk now. The caller releases it. */
export type ChunkSlot = {
  /** Chunks that are likely to run side by side, this one included. */
  sharers: number;
  release(): void;
};

/** Decides how many chunks run side by side, and which is next. */
export type ChunkSlots = {
  /** Returns the number of chunks that can run side by side. */
  count(): number;
  /** Waits for a slot. Rejects with the signal's reason when that aborts first. */
  acquire(wish: SlotWish, signal: AbortSignal): Promise<ChunkSlot>;
};

/** The parts that recognition works with. */
export type RecognitionTools = {
  engine: Engine;
  checkpoint: Checkpoint;
  slots: ChunkSlots;
  /** Called after each chunk with the milliseconds of recording it accounts for, and its work in the executor's unit. */
  onRecognized?: (recordingMs: number, workMs: number) => void;
  /**
   * Called for each recording with its milliseconds over all tracks, and those in which its speakers were distinguished: 0
   * where the request does not ask for them.
   */
  onSpeakers?: (recordingMs: number, elapsedMs: number) => void;
  clock: Clock;
  /** Adds the fields that name the recording to each line. */
  log: Log;
  /** Returns the family of a model by the family's name. */
  familyOf: (name: string) => FamilyRules;
  /** Returns the pairs of nets that distinguish speakers, in the order in which they are tried; none: the built-in method. */
  speakerWeights: () => readonly SpeakerWeights[];
  /** Returns the model that adds punctuation to texts without any; undefined or left out: none is installed or wanted. */
  punctuation?: () => PunctuationModel | undefined;
  /** Longest recording that is decoded. A verified recording may be longer. */
  maxDurationMs: number;
  /** Failed attempts after which a chunk becomes a gap. */
  mostAttempts: number;
  /** Text of a lower confidence than the model's floor stays in the transcript. */
  keepsDoubtful: boolean;
  /** Reports whether the work waits without limit for the end of a failure's cause, such as a full disk. */
  isWaitedOut: (error: unknown) => boolean;
};
