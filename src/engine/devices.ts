import { existsSync } from "node:fs";
import { join } from "node:path";
import { errorMessage } from "../lib/error-message.ts";
import type { ComputeDevice, DevicePreference, EngineInfo } from "./protocol.ts";
import type { LoadOptions } from "./whisper/whisper-model.ts";

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
): { name: string; use: LoadOptions["device"] } {
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

/** Returns the GPU on which a model would run; undefined: on the processor, or the named device is missing. */
export function chosenGpu(info: EngineInfo, preference: DevicePreference): ComputeDevice | undefined {
  try {
    const { use } = chooseDevice(info.devices, preference);
    return use === "cpu" ? undefined : gpusOf(info.devices).find(({ index }) => index === use.gpuIndex);
  } catch {
    return undefined;
  }
}

/**
 * Checks that the device that the config names is present.
 *
 * @param backendsDir folder for its library
 * @throws Error that names the device and the problem with its backend
 */
export function requireDevice(info: EngineInfo, preference: DevicePreference, backendsDir: string): void {
  try {
    chooseDevice(info.devices, preference);
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
