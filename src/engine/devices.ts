import { existsSync } from "node:fs";
import { join } from "node:path";
import type { DevicePreference, EngineOptions } from "../domain/engine-options.ts";
import { errorMessage } from "../lib/error-message.ts";
import type { Log } from "../lib/log.ts";
import type { ComputeDevice, EngineInfo } from "./protocol.ts";

/** Where a model is loaded: on the processor, or on one of the GPUs. */
export type UsedDevice = "cpu" | { gpuIndex: number };

const DEVICE_NAMES: Record<Exclude<DevicePreference, "auto" | "cpu">, RegExp> = {
  cuda: /cuda/i,
  vulkan: /vulkan/i,
  metal: /metal|mtl/i,
};

/**
 * Chooses the device for a preference. `auto` falls back to the processor.
 *
 * @throws Error when a device that the config names is missing
 */
export function chooseDevice(
  devices: readonly ComputeDevice[],
  preference: DevicePreference,
): { name: string; use: UsedDevice } {
  const gpus = gpusOf(devices);
  if (preference === "cpu") return { name: "cpu", use: "cpu" };
  const gpu = preference === "auto" ? gpus[0] : gpus.find(({ name }) => DEVICE_NAMES[preference].test(name));
  if (gpu) return { name: gpu.name, use: { gpuIndex: gpu.index } };
  if (preference === "auto") return { name: "cpu", use: "cpu" };
  throw new Error(`no ${preference} device was found`);
}

function gpusOf(devices: readonly ComputeDevice[]): ComputeDevice[] {
  return devices.filter(({ type }) => type === "gpu" || type === "igpu");
}

/** Whether models may run on a GPU, and whether the config names the one that they must run on. */
export const wantedGpu = ({ device }: Pick<EngineOptions, "device">): "none" | "any" | "named" =>
  device === "cpu" ? "none" : device === "auto" ? "any" : "named";

/** Refuses a device for models that run on the processor only. @throws Error with the reason */
export function requireProcessor(device: DevicePreference): void {
  if (device === "auto" || device === "cpu") return;
  throw new Error(`models of this family run on the processor, and engine.device is ${device}`);
}

/**
 * Finds the GPU on which models run.
 *
 * @param backendsDir folder for its library
 * @returns undefined where the processor takes its place, which is logged
 * @throws Error that names a missing device and the problem with its backend
 */
export function findGpu(
  info: EngineInfo,
  { device: preference }: Pick<EngineOptions, "device">,
  backendsDir: string,
  log: Pick<Log, "warn">,
): ComputeDevice | undefined {
  try {
    const { use } = chooseDevice(info.devices, preference);
    if (use !== "cpu") return gpusOf(info.devices).find(({ index }) => index === use.gpuIndex);
    log.warn({ device: preference }, "no GPU can be used, the processor takes its place");
    return undefined;
  } catch (error) {
    const missing = errorMessage(error);
    const failures = info.backendFailures.map(({ path, reason }) => `${path}: ${reason}`);
    const reasons = failures.length > 0 ? failures : [whyNoDevice(preference, backendsDir)];
    throw new Error(`engine.device = "${preference}": ${[missing, ...reasons].join("; ")}`);
  }
}

/** Explains a missing device when no library failed to load: there is no library, or it found no device. */
function whyNoDevice(preference: DevicePreference, backendsDir: string): string {
  const file = `libggml-${preference}.so`;
  return existsSync(join(backendsDir, file))
    ? `${file} was loaded and found none: is the graphics driver installed?`
    : `there is no ${file} in ${backendsDir}`;
}
