import type { ChunkLimits } from "../domain/chunk.ts";
import type { ModelFamilyName, ModelFiles, SpeakerWeights } from "../domain/model.ts";
import type { RecognizedSegment, RecognizerSettings } from "../domain/recognition.ts";
import type { NativeFiles } from "./native-files.ts";
import type { WhisperDevice } from "./whisper.ts";

/**
 * What parent and worker say to each other, and what the rest of the program asks an engine for. Every message
 * stands for itself and can be repeated: audio goes by file and sample range, never by state kept on either side.
 */

/** The hidden argument under which the executable starts as a worker. */
export const WORKER_COMMAND = "engine-worker";

/** Where a stretch of 16 kHz s16 mono samples lies in a file, and where it goes in a chunk's audio. */
export type AudioSlice = { sourceStartSample: number; samples: number; targetStartSample: number };

/** A chunk's audio as slices of one PCM file on this machine, with silence between them. */
export type FileAudio = { pcmPath: string; slices: readonly AudioSlice[]; totalSamples: number };

/** A chunk's audio itself: 16-bit samples, little-endian, 16 kHz mono. */
export type BytesAudio = { pcm: Uint8Array; totalSamples: number };

/** A chunk's audio, wherever it is. */
export type AudioRef = FileAudio | BytesAudio;

/** The model that recognizes a chunk. */
export type EngineModel = { id: string; version: string; family: ModelFamilyName; files: ModelFiles };

/** Where a model runs (`[engine] device`). */
export type DevicePreference = "auto" | "cpu" | "cuda" | "vulkan" | "metal";

export type ChunkJob = {
  model: EngineModel;
  /** The model's window, milliseconds: how long a chunk takes depends on it. */
  windowMs: number;
  audio: AudioRef;
  /** Made by the model's family. */
  settings: RecognizerSettings;
  /** Chunks that are likely to run beside it, itself included: what the executor has is shared out over them. */
  sharers: number;
  /** Nothing else may run in the process meanwhile: set for a chunk that has ended a process before. */
  isAlone: boolean;
};

export type ChunkOutcome = {
  segments: RecognizedSegment[];
  /** What the chunk cost: time over all threads it kept busy, milliseconds. */
  workMs: number;
};

/** A chunk for the worker processes of this machine. */
export type PoolJob = Pick<ChunkJob, "model" | "audio" | "settings" | "isAlone"> & {
  /** 1 to 256. */
  threads: number;
  /** After so long the worker process counts as hung and is killed. */
  timeoutMs: number;
};

/** What a worker process made of a chunk. */
export type WorkerOutcome = { segments: RecognizedSegment[]; elapsedMs: number };

/** A stretch of speech in samples of the PCM file; the end is exclusive. */
export type SpeechRegion = { startSample: number; endSample: number };

export type SpeechJob = {
  pcmPath: string;
  /** Of the chunks that the speech will be packed into: long speech is cut in pauses to fill them. */
  limits: ChunkLimits;
};

/** Told of the next regions in order, certain although more of the file is being read. */
export type OnSpeechFound = (regions: SpeechRegion[]) => void;

/** Whose speech is in a recording's channels. Speakers of different channels are different people where that fits. */
export type DiarizeJob = {
  /** One for each channel that is transcribed on its own. */
  tracks: { pcmPath: string; regions: readonly SpeechRegion[] }[];
  /** 1 to 20 each; left out: found. */
  minSpeakers?: number;
  maxSpeakers?: number;
  /** Left out: the built-in acoustic method. */
  weights?: SpeakerWeights;
};

/** A stretch in which one speaker talks, on the recording's clock. */
export type SpeakerTurn = { startMs: number; endMs: number; speaker: number };

export type DiarizeOutcome = {
  /** By track, in order of time; speakers are counted from 0 over all tracks. */
  turns: SpeakerTurn[][];
  /** The number of speakers was found, and could as well be another. */
  isCountUncertain: boolean;
};

/**
 * What a worker process opens before it has started: the recognizer of a family, or the speech detector. It loads the
 * native libraries of these parts only.
 */
export type WorkerPart = ModelFamilyName | "speech";

export type WorkerRequest =
  | {
      type: "start";
      nativeFiles: NativeFiles;
      backendDirs: string[];
      /** Names of code for processors that is not to be used (cpu-variants.ts). */
      avoidedVariants: string[];
      opens: WorkerPart[];
    }
  | { type: "load"; files: ModelFiles; device: DevicePreference }
  | {
      type: "transcribe";
      id: number;
      audio: AudioRef;
      settings: RecognizerSettings;
      threads: number;
    }
  | ({ type: "detect_speech"; id: number; isTold: boolean } & SpeechJob)
  | { type: "diarize"; id: number; job: DiarizeJob }
  | { type: "abort"; id: number };

export type WorkerReply =
  /** `engine`: what the recognizer found, where one was opened. */
  | { type: "started"; engine?: EngineInfo }
  /** `gpuFailure`: why the processor does the work of the GPU that `auto` chose. */
  | { type: "loaded"; device: string; gpuFailure?: string }
  /** The worker cannot do what it was started for; it says why and ends. */
  | { type: "unusable"; reason: string }
  | { type: "transcribed"; id: number; outcome: WorkerOutcome }
  /** What is certain while speech is still being looked for: the next regions in order. */
  | { type: "speech_found"; id: number; regions: SpeechRegion[] }
  /** All regions. */
  | { type: "speech"; id: number; regions: SpeechRegion[] }
  | { type: "diarized"; id: number; outcome: DiarizeOutcome }
  | { type: "failed"; id: number; reason: string };

/** What the native side found on this machine. */
export type EngineInfo = {
  whisperVersion: string;
  cpuVariant: string;
  /** What could be used in place of `cpuVariant`, with fewer and fewer of the processor's instructions. */
  plainerVariants: string[];
  devices: WhisperDevice[];
  backendFailures: { path: string; reason: string }[];
};

export type EngineErrorKind =
  /** The weights cannot be loaded, or the device that was asked for is missing. */
  | "unusable_model"
  /** The decoder refused or failed; the worker lives. */
  | "failed"
  /** The worker died with this chunk in it. */
  | "crashed"
  /** The worker was killed because this chunk took too long. */
  | "hung"
  /** The worker ended for a reason that is not this chunk's: try again, nobody is to blame. */
  | "interrupted"
  | "aborted";

/** Why the engine did not deliver. */
export class EngineError extends Error {
  readonly kind: EngineErrorKind;

  constructor(kind: EngineErrorKind, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = "EngineError";
    this.kind = kind;
  }
}
