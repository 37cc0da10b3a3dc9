import { withCarriedRuntime } from "../carried-runtime.ts";
import type { NativeFiles } from "../native-files.ts";

/** A native object. The garbage collector frees it. */
export type SherpaHandle = { readonly __sherpa: unique symbol };

/** sherpa-onnx 1.13.8, `OfflineSpeakerDiarizationConfig` of its C API; durations in seconds. */
export type SherpaDiarizationConfig = {
  segmentation: { pyannote: { model: string }; numThreads: number; provider: "cpu"; debug: 0 | 1 };
  embedding: { model: string; numThreads: number; provider: "cpu"; debug: 0 | 1 };
  clustering: { numClusters: number; threshold: number };
  minDurationOn: number;
  minDurationOff: number;
};

/** The functions of the addon that Shruti uses. Samples are mono, 16 kHz, within −1 and 1; times are seconds. */
export type SherpaAddon = {
  createOfflineSpeakerDiarization(config: SherpaDiarizationConfig): SherpaHandle;
  getOfflineSpeakerDiarizationSampleRate(diarization: SherpaHandle): number;
  offlineSpeakerDiarizationSetConfig(
    diarization: SherpaHandle,
    config: { clustering: SherpaDiarizationConfig["clustering"] },
  ): void;
  offlineSpeakerDiarizationProcess(
    diarization: SherpaHandle,
    samples: Float32Array,
  ): { start: number; end: number; speaker: number }[];
};

let loaded: { path: string; addon: SherpaAddon } | undefined;

/**
 * Loads sherpa-onnx's addon into this process, once. It may crash, so this belongs in a worker process.
 *
 * @throws Error when the addon cannot be loaded
 */
export function loadSherpa(nativeFiles: Pick<NativeFiles, "dir" | "sherpa">): SherpaAddon {
  if (loaded?.path === nativeFiles.sherpa) return loaded.addon;
  const addon = withCarriedRuntime(nativeFiles.dir, () => openAddon(nativeFiles.sherpa));
  loaded = { path: nativeFiles.sherpa, addon };
  return addon;
}

function openAddon(path: string): SherpaAddon {
  const module: { exports: unknown } = { exports: {} };
  process.dlopen(module, path);
  return module.exports as SherpaAddon;
}
