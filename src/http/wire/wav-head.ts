import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";

/** Length of the head in front of the samples. */
export const WAV_HEAD_BYTES = 44;
export const BYTES_PER_SAMPLE = 2;
/** Says "unknown" in a field of 32 bits; readers then go to the end of the file. */
const UNKNOWN = 0xffff_ffff;

/**
 * Returns the head of a WAV file of 16 kHz and 16 bit. A file of 4 GiB or more (37 h of mono) has no sizes in its head.
 *
 * @param lanes channels
 * @param samples of each channel
 */
export function wavHead(lanes: number, samples: number): Uint8Array<ArrayBuffer> {
  const head = new Uint8Array(WAV_HEAD_BYTES);
  const view = new DataView(head.buffer);
  const block = lanes * BYTES_PER_SAMPLE;
  const bytes = samples * block;
  const write = (offset: number, text: string) => new TextEncoder().encodeInto(text, head.subarray(offset));
  write(0, "RIFF");
  view.setUint32(4, Math.min(UNKNOWN, bytes + WAV_HEAD_BYTES - 8), true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  // PCM.
  view.setUint16(20, 1, true);
  view.setUint16(22, lanes, true);
  view.setUint32(24, SAMPLE_RATE_HZ, true);
  view.setUint32(28, SAMPLE_RATE_HZ * block, true);
  view.setUint16(32, block, true);
  view.setUint16(34, 8 * BYTES_PER_SAMPLE, true);
  write(36, "data");
  view.setUint32(40, Math.min(UNKNOWN, bytes), true);
  return head;
}
