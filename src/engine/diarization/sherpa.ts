import { dlopen, FFIType } from "bun:ffi";
import { existsSync } from "node:fs";
import { join } from "node:path";
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

/** Libraries, each with one symbol, which `dlopen` of bun:ffi needs. The second library needs the first. */
const CARRIED_RUNTIME = [
  { file: "carried-libgcc_s.so.1", symbol: "_Unwind_Resume" },
  { file: "carried-libstdc++.so.6", symbol: "__cxa_pure_virtual" },
] as const;

let loaded: { path: string; addon: SherpaAddon } | undefined;

/**
 * Loads sherpa-onnx into this process, once. It may crash, so this belongs in a worker process.
 *
 * The host's C++ run time is used if it is new enough. Otherwise the carried one is loaded first, and the dynamic loader
 * then finds it by its soname.
 *
 * @throws Error when the addon cannot be loaded either way
 */
export function loadSherpa(nativeFiles: Pick<NativeFiles, "dir" | "sherpa">): SherpaAddon {
  if (loaded?.path === nativeFiles.sherpa) return loaded.addon;
  let addon: SherpaAddon;
  try {
    addon = openAddon(nativeFiles.sherpa);
  } catch (error) {
    if (!isRuntimeMissing(error) || !existsSync(join(nativeFiles.dir, CARRIED_RUNTIME[0].file))) throw error;
    loadCarriedRuntime(nativeFiles.dir);
    addon = openAddon(nativeFiles.sherpa);
  }
  loaded = { path: nativeFiles.sherpa, addon };
  return addon;
}

function openAddon(path: string): SherpaAddon {
  const module: { exports: unknown } = { exports: {} };
  process.dlopen(module, path);
  return module.exports as SherpaAddon;
}

/** Recognizes the dynamic loader's messages for a library that is missing or too old. */
function isRuntimeMissing(error: unknown): boolean {
  return /libstdc\+\+|libgcc_s|GLIBCXX|CXXABI/.test(String(error));
}

function loadCarriedRuntime(dir: string): void {
  for (const { file, symbol } of CARRIED_RUNTIME) {
    dlopen(join(dir, file), { [symbol]: { args: [], returns: FFIType.void } });
  }
}
