import { join, resolve } from "node:path";
import { explainBackendFailure, listBackends, unfitBackend } from "../../native/backend-files.ts";
import { chooseVariant, usableVariants, variantName } from "../../native/cpu-variants.ts";
import { readProcessor } from "../../native/processor.ts";
import {
  type BackendFailure,
  loadWhisperAddon,
  type NativeAddon,
} from "../../native/whisper/whisper-addon.ts";
import type { ComputeDevice } from "../protocol.ts";
import { type LoadedModel, type LoadOptions, loadWhisperModel } from "./whisper-model.ts";

/** ggml in this process, and what it found on this machine. */
type Ggml = {
  addon: NativeAddon;
  /** whisper.cpp's version. */
  version: string;
  /** The processor variant in use, such as `haswell` or `zen4`. */
  cpuVariant: string;
  /** The variants that this processor could run instead, the best first. */
  plainerVariants: string[];
  devices: ComputeDevice[];
  backendFailures: BackendFailure[];
};

/** whisper.cpp in this process. */
export type Whisper = Omit<Ggml, "addon"> & {
  /**
   * Checks and loads a model. On a GPU it also recognizes a little silence.
   *
   * @throws Error when the file cannot be used, RangeError when there is no such GPU
   */
  load(path: string, options: LoadOptions): Promise<LoadedModel>;
};

const ADDON_FILE = "smart-whisper.addon";

let opened: { nativeDir: string; ggml: Ggml } | undefined;

/** Loads whisper.cpp. Parameters and errors are those of `openGgml`. */
export function openWhisper(
  nativeDir: string,
  backendDirs: string[] = [],
  avoidedVariants: string[] = [],
  usesKernels = true,
): Whisper {
  const { addon, ...ggml } = openGgml(nativeDir, backendDirs, avoidedVariants, usesKernels);
  return {
    ...ggml,
    load: (path, options) => loadWhisperModel(addon, ggml.devices.filter(isGpu), path, options),
  };
}

/**
 * Loads the addon with ggml and whisper.cpp, once in a process: native code cannot be unloaded.
 *
 * @param nativeDir folder with smart-whisper.addon, libggml.so, libggml-base.so and libggml-cpu-*.so
 * @param backendDirs folders into which an admin puts further `libggml-*.so`, such as the one for CUDA; those that
 *   cannot be loaded are listed in `backendFailures`
 * @param avoidedVariants processor variants that must not be used
 * @param usesKernels whether the project's own kernels are used
 * @throws Error when the files do not load or hold no code for this processor
 */
export function openGgml(
  nativeDir: string,
  backendDirs: string[],
  avoidedVariants: string[],
  usesKernels: boolean,
): Ggml {
  const dir = resolve(nativeDir);
  if (opened !== undefined) {
    if (opened.nativeDir !== dir) throw new Error(`the engine was already loaded from ${opened.nativeDir}`);
    return opened.ggml;
  }
  const addon = loadWhisperAddon(join(dir, ADDON_FILE));
  const { version } = addon.describe();
  const usable = usableVariants(dir, addon.scoreCpuLibraries, readProcessor());
  const { chosen, plainer } = chooseVariant(usable, avoidedVariants);
  const backendFailures = loadBackends(addon, chosen.path, backendDirs.flatMap(listBackends), usesKernels);
  const { cpuLibrary, devices } = addon.describe();
  const ggml: Ggml = {
    addon,
    version,
    cpuVariant: variantName(cpuLibrary) ?? chosen.name,
    plainerVariants: plainer,
    devices: numberDevices(devices),
    backendFailures,
  };
  opened = { nativeDir: dir, ggml };
  return ggml;
}

/** Loads the code for the processor, and of the backends those that belong to this version of whisper.cpp. */
function loadBackends(
  addon: NativeAddon,
  cpuLibrary: string,
  files: string[],
  usesKernels: boolean,
): BackendFailure[] {
  const { version } = addon.describe();
  const unfit = files.flatMap((path): BackendFailure[] => {
    const reason = unfitBackend(path, version);
    return reason === undefined ? [] : [{ path, reason }];
  });
  const fit = files.filter((file) => unfit.every(({ path }) => path !== file));
  const failed = addon
    .loadBackends(cpuLibrary, fit, usesKernels)
    .map(({ path, reason }) => ({ path, reason: explainBackendFailure(path, reason) }));
  return [...unfit, ...failed];
}

function isGpu(device: { type: ComputeDevice["type"] }): boolean {
  return device.type === "gpu" || device.type === "igpu";
}

function numberDevices(devices: Omit<ComputeDevice, "index">[]): ComputeDevice[] {
  return devices.map((device, position) => ({
    index: devices.slice(0, position).filter((other) => isGpu(other) === isGpu(device)).length,
    ...device,
  }));
}
