import type { DevicePreference, EngineOptions } from "../domain/engine-options.ts";
import type { DraftModel, ModelFiles } from "../domain/model.ts";
import type { Recognition, RecognizerSettings } from "../domain/recognition.ts";
import type { NativeFiles } from "../native/native-files.ts";
import type { ChunkThreads, EngineInfo } from "./protocol.ts";

/**
 * The half of a model family that runs in a worker process: it loads models and recognizes chunks. The other half is a
 * `ModelFamily` of `families/`.
 */
export type Recognizer = {
  /** What the native library found on this machine. */
  info: EngineInfo;
  /**
   * Checks the files of a model and loads it.
   *
   * @param draft the model that drafts for it. Where that cannot be used, the model is loaded without
   * @throws Error with the reason why the files or the device cannot be used
   */
  load(files: ModelFiles, device: DevicePreference, draft?: DraftModel): Promise<LoadedRecognizer>;
};

export type LoadedRecognizer = {
  /** Where the model runs, such as `cpu` or `Vulkan0`. */
  device: string;
  /** Why the model runs on the processor although `auto` chose a GPU. */
  gpuFailure?: string;
  /** Why the draft model that was named is not used. */
  draftFailure?: string;
  /**
   * Recognizes 16 kHz mono samples within −1 to 1. Calls may run side by side.
   *
   * @param settings settings from the other half of the same family
   * @returns segments in order, within the audio
   * @throws the signal's reason when it is aborted, Error when the recognizer refuses or fails
   */
  recognize(
    samples: Float32Array,
    settings: RecognizerSettings,
    options: Omit<ChunkThreads, "groupsAreOnGpu"> & { signal: AbortSignal },
  ): Promise<Recognition>;
};

/** The machine-specific code that a recognizer may load. */
export type MachineCode = {
  /** Folders into which an admin puts GPU backends. */
  backendDirs: string[];
  /** Names of processor code that must not be used (cpu-variants.ts). */
  avoidedVariants: string[];
  /** The settings of the engine. */
  engine: EngineOptions;
};

/** Opens the recognizer of a family, and loads only the native library that it needs. */
export type OpenRecognizer = (
  family: string,
  nativeFiles: NativeFiles,
  code: MachineCode,
) => Promise<Recognizer>;
