import type { ModelFamilyName, ModelFiles } from "../domain/model.ts";
import type { RecognizedSegment, RecognizerSettings } from "../domain/recognition.ts";
import type { NativeFiles } from "./native-files.ts";
import type { DevicePreference, EngineInfo } from "./protocol.ts";

/**
 * The half of a model family that runs in a worker process: it loads models and recognizes chunks. The other half is
 * a `ModelFamily` of `pipeline/families/`.
 */
export type Recognizer = {
  /** What its native library found on this machine. */
  info: EngineInfo;
  /**
   * Checks the files of a model and loads it.
   *
   * @throws Error with the reason why the files or the device cannot be used
   */
  load(files: ModelFiles, device: DevicePreference): Promise<LoadedRecognizer>;
};

export type LoadedRecognizer = {
  /** Where the model runs, such as `cpu` or `Vulkan0`. */
  device: string;
  /** Why the processor does the work of the GPU that `auto` chose. */
  gpuFailure?: string;
  /**
   * Recognizes 16 kHz mono samples within −1 to 1. Calls may run side by side.
   *
   * @param settings made by the other half of the same family
   * @returns segments in order, within the audio
   * @throws the signal's reason when it is aborted, Error when the recognizer refuses or fails
   */
  recognize(
    samples: Float32Array,
    settings: RecognizerSettings,
    options: { threads: number; signal: AbortSignal },
  ): Promise<RecognizedSegment[]>;
};

/** What a recognizer may load for the machine it runs on. */
export type MachineCode = {
  /** Folders an admin puts GPU backends into. */
  backendDirs: string[];
  /** Names of code for processors that is not to be used (cpu-variants.ts). */
  avoidedVariants: string[];
};

/** Opens the recognizer of a family, and with it the native library that it needs, and no other. */
export type OpenRecognizer = (
  family: ModelFamilyName,
  nativeFiles: NativeFiles,
  code: MachineCode,
) => Promise<Recognizer>;

/** The recognizers of this program. Their code is loaded when it is needed. */
export const openRecognizer: OpenRecognizer = async (family, nativeFiles, code) => {
  switch (family) {
    case "whisper": {
      const { openWhisperRecognizer } = await import("./whisper-recognizer.ts");
      return openWhisperRecognizer(nativeFiles, code);
    }
  }
};
