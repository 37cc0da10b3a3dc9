import { SAMPLE_RATE_HZ } from "../domain/chunk.ts";
import type { WhisperDevice } from "./whisper.ts";

const GIB = 1024 ** 3;

/**
 * Refuses weights that a GPU has no room for: whisper.cpp does not notice that memory was refused to it, and ends the
 * process when it writes there. What a decoder needs beside them is seen at the trial.
 *
 * @throws Error that names both sizes
 */
export function requireRoom({ name, freeBytes }: WhisperDevice, weightsBytes: number): void {
  // Some drivers do not tell.
  if (freeBytes === 0 || freeBytes >= weightsBytes) return;
  const inGib = (bytes: number) => (bytes / GIB).toFixed(1);
  throw new Error(
    `${name} has ${inGib(freeBytes)} GiB of memory free, the weights take ${inGib(weightsBytes)}`,
  );
}

/** What a trial decodes: long enough not to be passed over. */
export const TRIAL_SAMPLES = new Float32Array(2 * SAMPLE_RATE_HZ);

/**
 * Decodes a little silence before a model counts as loaded: what a GPU refuses or cannot compute comes out while the
 * processor can still take its place, and the programs that drivers compile at their first use are there.
 *
 * @throws Error that names the device
 */
export async function tryOut({ name }: WhisperDevice, decode: () => Promise<unknown>): Promise<void> {
  try {
    await decode();
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`${name} cannot compute with these weights: ${reason}`, { cause: error });
  }
}
