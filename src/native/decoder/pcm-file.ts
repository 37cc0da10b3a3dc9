import { statSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import { readFully } from "../../lib/file-bytes.ts";

/** Files of decoded audio: 16 kHz, mono, signed 16 bit, little-endian, without a header. */
export const PCM_BYTES_PER_SAMPLE = 2;

/** The magnitude of the lowest 16-bit sample; samples divided by it lie within −1 and 1. */
export const PCM_FULL_SCALE = 32_768;

/**
 * Reads samples of a file into `target`, from its beginning on.
 *
 * @param startSample position in the file
 * @returns the number of samples read: fewer than `target` holds only at the end of the file
 */
export async function readPcm(file: FileHandle, target: Int16Array, startSample: number): Promise<number> {
  const bytes = new Uint8Array(target.buffer, target.byteOffset, target.byteLength);
  const filled = await readFully(file, bytes, startSample * PCM_BYTES_PER_SAMPLE);
  return Math.floor(filled / PCM_BYTES_PER_SAMPLE);
}

/** Writes 16-bit samples into `target` from `start` on, as numbers within −1 and 1. */
export function scalePcm(pcm: Int16Array, target: Float32Array, start: number): void {
  for (let n = 0; n < pcm.length; n++) target[start + n] = (pcm[n] ?? 0) / PCM_FULL_SCALE;
}

/**
 * Returns the length of a file in milliseconds.
 *
 * @throws the file system's error when there is no such file
 */
export function pcmDurationMs(path: string): number {
  return (statSync(path).size / PCM_BYTES_PER_SAMPLE / SAMPLE_RATE_HZ) * 1000;
}
