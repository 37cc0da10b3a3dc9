import type { DiarizeJob, DiarizeOutcome } from "../diarization/job.ts";
import type { ChunkLimits } from "../domain/chunk.ts";
import type { DevicePreference, EngineOptions } from "../domain/engine-options.ts";
import type { DraftModel, ModelFiles, ModelPart } from "../domain/model.ts";
import type { DescribedFile } from "../domain/model-hash.ts";
import type { Recognition, RecognizerSettings } from "../domain/recognition.ts";
import type { AudioSlice, SpeechRegion } from "../domain/speech.ts";
import type { ComputeDevice } from "../native/compute-device.ts";
import type { NativeFiles } from "../native/native-files.ts";
import type { PunctuateJob, PunctuateOutcome } from "../punctuation/job.ts";

export type { DiarizeJob, DiarizeOutcome, OnSpeakersHeard, SpeakerTurn } from "../diarization/job.ts";
export type { AudioSlice, SpeechRegion } from "../domain/speech.ts";
export type { ComputeDevice } from "../native/compute-device.ts";
export type { PunctuateJob, PunctuateOutcome } from "../punctuation/job.ts";

/**
 * The messages between the program and its worker processes, and the jobs that the rest of the program gives to an
 * engine. A message does not depend on earlier ones and can be repeated: it names audio by file and sample range, so
 * that neither side keeps state about it.
 */

/** The hidden argument with which the executable starts as a worker process. */
export const WORKER_COMMAND = "engine-worker";

/** A chunk's audio as slices of one PCM file on this machine, with silence between them. */
export type FileAudio = { pcmPath: string; slices: readonly AudioSlice[]; totalSamples: number };

/** A chunk's audio as bytes: 16-bit samples, little-endian, 16 kHz mono. */
export type BytesAudio = { pcm: Uint8Array; totalSamples: number };

/** A chunk's audio: a reference to a local file, or the bytes themselves. */
export type AudioRef = FileAudio | BytesAudio;

/** The model that recognizes a chunk. */
export type EngineModel = {
  id: string;
  version: string;
  family: string;
  files: ModelFiles;
  /** Hashes in the manifest. Executors on other machines find the model by them. */
  sha256?: string;
  parts?: ModelPart[];
  /** Only of models of this machine: other machines have no draft. */
  draft?: DraftModel;
};

export type ChunkJob = {
  model: EngineModel;
  /** The model's window, milliseconds: how long a chunk takes depends on it. */
  windowMs: number;
  audio: AudioRef;
  /** Made by the model's family. */
  settings: RecognizerSettings;
  /** How many chunks are likely to run at the same time, this one included: they share the executor's capacity. */
  sharers: number;
  /** More chunks of the recording are about to come, so this one takes no more than its part of the capacity. */
  hasSuccessors?: boolean;
  /** No other chunk may run in the process meanwhile. Set for a chunk that has ended a process before. */
  isAlone: boolean;
  /** A client waits for the chunk with an open connection. */
  isUrgent?: boolean;
};

export type ChunkOutcome = Recognition & {
  /** What the chunk cost: time over all threads it kept busy, milliseconds. */
  workMs: number;
  /** Called once the outcome is stored. Until then another machine may keep it. */
  onStored?: () => void;
};

/** What a worker process computes a chunk with. */
export type ChunkThreads = {
  /** Threads of a chunk that makes its own steps, 1 to 256. */
  threads: number;
  /** Thread groups that make the decoding steps of several chunks together; 0 or left out: this chunk makes its own. */
  threadGroups?: number;
  /** Most threads of one computation in a thread group, 1 to 256, while other chunks leave them; left out: 1. */
  groupThreads?: number;
  /** The thread groups were chosen for a GPU. When the model runs elsewhere than expected, the chunk makes its own steps. */
  groupsAreOnGpu?: boolean;
  /** How much less urgent its threads are than the others of the process, 0 to 19; left out: not at all. */
  niceness?: number;
};

/** A chunk for the worker processes of this machine. */
export type PoolJob = Pick<ChunkJob, "model" | "audio" | "settings" | "isAlone"> &
  ChunkThreads & {
    /** Milliseconds after which the worker process counts as hung and is killed. */
    timeoutMs: number;
  };

/** What a worker process returns for a chunk, and how long that took in milliseconds. */
export type WorkerOutcome = Recognition & { elapsedMs: number };

export type SpeechJob = {
  pcmPath: string;
  /** Limits of the chunks that the speech will be packed into: long speech is cut in pauses to fill them. */
  limits: ChunkLimits;
};

/** Receives the next regions in order while more of the file is being read. They do not change any more. */
export type OnSpeechFound = (regions: SpeechRegion[]) => void;

/**
 * What a worker process opens before it has started: the recognizer of a family, or the speech detector. It loads the
 * native libraries of these parts only.
 */
export type WorkerPart = string | "speech";

/** The model that a worker process loads. */
export type LoadRequest = {
  files: ModelFiles;
  /** The files with the hashes that they must have; left out: these are not known. */
  described?: DescribedFile[];
  device: DevicePreference;
  /** The model that drafts for it; left out: none does. */
  draft?: DraftModel;
};

export type WorkerRequest =
  | {
      type: "start";
      nativeFiles: NativeFiles;
      backendDirs: string[];
      /** Names of processor code that must not be used (cpu-variants.ts). */
      avoidedVariants: string[];
      engine: EngineOptions;
      opens: WorkerPart[];
    }
  | ({ type: "load" } & LoadRequest)
  | ({ type: "transcribe"; id: number; audio: AudioRef; settings: RecognizerSettings } & ChunkThreads)
  | ({ type: "detect_speech"; id: number; reportsFound: boolean } & SpeechJob)
  | { type: "diarize"; id: number; job: DiarizeJob }
  | { type: "punctuate"; id: number; job: PunctuateJob }
  | { type: "abort"; id: number };

export type WorkerReply =
  /** `engine` is present when a recognizer was opened. */
  | { type: "started"; engine?: EngineInfo }
  /**
   * `gpuFailure`: why the model runs on the processor although `auto` chose a GPU. `draftFailure`: why the draft model that was
   * named is not used.
   */
  | { type: "loaded"; device: string; gpuFailure?: string; draftFailure?: string }
  /** The process cannot do what it was started for. It sends this and ends. */
  | { type: "unusable"; reason: string }
  | { type: "transcribed"; id: number; outcome: WorkerOutcome }
  /** The next final regions in order, sent while the detector still reads the file. */
  | { type: "speech_found"; id: number; regions: SpeechRegion[] }
  /** All regions of the file. */
  | { type: "speech"; id: number; regions: SpeechRegion[] }
  /** The share of the audio that the nets have heard, 0 to 1, sent while they hear the rest. */
  | { type: "speakers_heard"; id: number; share: number }
  | { type: "diarized"; id: number; outcome: DiarizeOutcome }
  | { type: "punctuated"; id: number; outcome: PunctuateOutcome }
  | { type: "failed"; id: number; reason: string };

/** What a recognizer's native library found on this machine. */
export type EngineInfo = {
  /**
   * Version of that library, such as whisper.cpp; GPU backends must be built for the same one. Empty where the library has
   * neither backends nor variants: then `cpuVariant` is its name and version.
   */
  libraryVersion: string;
  cpuVariant: string;
  /** Variants that could replace `cpuVariant`, each with fewer of the processor's instructions than the one before. */
  plainerVariants: string[];
  devices: ComputeDevice[];
  backendFailures: { path: string; reason: string }[];
};

export type EngineErrorKind =
  /** The weights cannot be loaded, or the device that the config names is missing. */
  | "unusable_model"
  /** The recognizer refused the chunk or failed. The process continues. */
  | "failed"
  /** The process ended while this chunk ran in it. */
  | "crashed"
  /** The process was killed because this chunk took too long. */
  | "hung"
  /** The process ended for a reason that has nothing to do with this chunk. The chunk can be repeated. */
  | "interrupted"
  /** The caller's signal was aborted. */
  | "aborted";

/** The failure of a job. `kind` decides whether and how the job is repeated. */
export class EngineError extends Error {
  readonly kind: EngineErrorKind;
  /** The process crashed or hung with several chunks whose steps are made together: each is repeated alone. */
  isSuspect = false;

  constructor(kind: EngineErrorKind, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = "EngineError";
    this.kind = kind;
  }
}
