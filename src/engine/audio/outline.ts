import { readFile, rm } from "node:fs/promises";
import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import type { Outline } from "../../domain/outline.ts";

/** Size of `Point` in src/native/decoder/decoder.h: eight numbers of eight bytes. */
const POINT_BYTES = 64;
/** Position of `at_s` among the numbers of a point. */
const AT_OFFSET = 32;
/**
 * Sound before a range that is decoded with it. A codec's first frames after a jump are not exact: MP3 takes bits from
 * up to nine frames before, and the resampler's filter has to fill.
 */
const LEAD_SAMPLES = SAMPLE_RATE_HZ / 4;

/** Reads the file that the decoder has written, and removes it. @throws Error when it has another form */
export async function takeOutline(path: string): Promise<Outline> {
  const bytes = new Uint8Array(await readFile(path));
  await rm(path, { force: true });
  const lineEnd = bytes.indexOf(10);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(0, lineEnd))) as {
    peak_samples: number;
    peaks: number;
    lanes: number;
    points: number;
  };
  const pointsAt = lineEnd + 1 + head.lanes * head.peaks;
  if (bytes.length !== pointsAt + head.points * POINT_BYTES) throw new Error("an outline has another length");
  const lanes = Array.from({ length: head.lanes }, (_, lane) => {
    const start = lineEnd + 1 + lane * head.peaks;
    return bytes.slice(start, start + head.peaks);
  });
  return { peakSamples: head.peak_samples, lanes, points: bytes.slice(pointsAt) };
}

/**
 * Finds the last point from which a range can be decoded.
 *
 * @returns the point as the decoder takes it
 */
export function pointBefore(points: Uint8Array, fromSample: number): string {
  const view = new DataView(points.buffer, points.byteOffset, points.byteLength);
  let first = 0;
  let beyond = Math.floor(points.byteLength / POINT_BYTES);
  if (beyond === 0) return "-";
  // The first point is the beginning of the recording, which needs no lead.
  while (beyond - first > 1) {
    const middle = (first + beyond) >> 1;
    const atSeconds = view.getFloat64(middle * POINT_BYTES + AT_OFFSET, true);
    if (atSeconds * SAMPLE_RATE_HZ <= fromSample - LEAD_SAMPLES) first = middle;
    else beyond = middle;
  }
  const at = first * POINT_BYTES;
  const whole = (index: number) => view.getBigInt64(at + 8 * index, true);
  const real = (index: number) => view.getFloat64(at + 8 * index, true);
  return [whole(0), whole(1), whole(2), whole(3), real(4), real(5), whole(6), whole(7)].join(",");
}
