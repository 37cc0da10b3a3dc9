import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import { errorMessage } from "../lib/error-message.ts";
import type { ComputeDevice } from "./protocol.ts";

const GIB = 1024 ** 3;

/**
 * Refuses weights that are larger than the free memory of a GPU. whisper.cpp does not notice a failed allocation there,
 * and ends the process when it writes to it. `tryOut` finds out about the memory that is needed beside the weights.
 *
 * @throws Error that names both sizes
 */
export function requireSpace({ name, freeBytes }: ComputeDevice, weightsBytes: number): void {
  // Some drivers report no free memory.
  if (freeBytes === 0 || freeBytes >= weightsBytes) return;
  const inGib = (bytes: number) => (bytes / GIB).toFixed(1);
  throw new Error(
    `${name} has ${inGib(freeBytes)} GiB of memory free, the weights take ${inGib(weightsBytes)}`,
  );
}

/** The silence of a trial. Shorter audio would be skipped. */
export const TRIAL_SAMPLES = new Float32Array(2 * SAMPLE_RATE_HZ);

/**
 * Recognizes a little silence before a model counts as loaded. If the GPU refuses or cannot compute something, the
 * processor can still take its place. The trial also makes drivers compile the programs that they compile at first use.
 *
 * @throws Error that names the device
 */
export async function tryOut({ name }: ComputeDevice, recognize: () => Promise<unknown>): Promise<void> {
  try {
    await recognize();
  } catch (error) {
    throw new Error(`${name} cannot compute with these weights: ${errorMessage(error)}`, { cause: error });
  }
}
