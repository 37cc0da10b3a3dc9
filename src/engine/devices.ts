import type { DevicePreference, EngineFacts } from "./protocol.ts";
import type { LoadOptions, WhisperDevice } from "./whisper.ts";

const DEVICE_NAMES: Record<Exclude<DevicePreference, "auto" | "cpu">, RegExp> = {
  cuda: /cuda/i,
  vulkan: /vulkan/i,
  metal: /metal|mtl/i,
};

/**
 * The device for a preference; `auto` falls back to the processor.
 *
 * @throws Error when a named one is missing
 */
export function chooseDevice(
  devices: readonly WhisperDevice[],
  preference: DevicePreference,
): { name: string; use: LoadOptions["device"] } {
  const gpus = devices.filter(({ type }) => type === "gpu" || type === "igpu");
  if (preference === "cpu") return { name: "cpu", use: "cpu" };
  const gpu = preference === "auto" ? gpus[0] : gpus.find(({ name }) => DEVICE_NAMES[preference].test(name));
  if (gpu) return { name: gpu.name, use: { gpuIndex: gpu.index } };
  if (preference === "auto") return { name: "cpu", use: "cpu" };
  throw new Error(`no ${preference} device was found; is its backend in the backends directory?`);
}

/**
 * Whether the device that the config names is there.
 *
 * @throws Error that names the device, and the backends that could not be used
 */
export function requireDevice(facts: EngineFacts, preference: DevicePreference): void {
  try {
    chooseDevice(facts.devices, preference);
  } catch (error) {
    const failures = facts.backendFailures.map(({ path, reason }) => `; ${path}: ${reason}`);
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`engine.device = "${preference}": ${reason}${failures.join("")}`);
  }
}
