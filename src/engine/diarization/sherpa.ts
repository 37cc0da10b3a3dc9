import { withCarriedRuntime } from "../carried-runtime.ts";
import type { NativeFiles } from "../native-files.ts";

/** A native object. The garbage collector frees it. */
type SherpaHandle = { readonly __sherpa: unique symbol };

/** The functions of our addon (scripts/native/sherpa/addon.c). Samples are mono, 16 kHz, within −1 and 1; times are seconds. */
export type SherpaAddon = {
  /**
   * @param threads of each model
   * @param minDurationOn shorter turns are dropped
   * @param minDurationOff shorter pauses within a turn are filled
   * @returns null for weights that cannot be used
   */
  open(
    segmentationPath: string,
    embeddingPath: string,
    threads: number,
    minDurationOn: number,
    minDurationOff: number,
  ): SherpaHandle | null;
  sampleRate(diarization: SherpaHandle): number;
  /**
   * @param clusters number of speakers; −1: found by the threshold
   * @param threshold cosine distance up to which clusters are joined
   */
  process(
    diarization: SherpaHandle,
    samples: Float32Array,
    clusters: number,
    threshold: number,
  ): { start: number; end: number; speaker: number }[];
};

let loaded: { path: string; addon: SherpaAddon } | undefined;

/**
 * Loads sherpa-onnx into this process, once. It may crash, so this belongs in a worker process.
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
