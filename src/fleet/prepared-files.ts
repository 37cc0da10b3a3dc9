import type { Outline } from "../domain/outline.ts";
import type { SpeechRegion } from "../domain/speech.ts";

/** The files that a worker brings of a recording that it has prepared, and their forms. */

/** Returns the file with the samples of a track: 16 bits, little-endian, 16 kHz. */
export const trackFile = (track: number) => `track-${track}`;
/** Returns the file with the speech of a track. */
export const speechFile = (track: number) => `speech-${track}`;
export const OUTLINE_FILE = "outline";

const BYTES_PER_SAMPLE = 2;
const REGION_BYTES = 8;
/** The speech detector decides for each of these. Two regions have at least one between them. */
const WINDOW_SAMPLES = 512;
/** The decoder's own bounds: 1 MiB of peaks over all lanes, and 4096 points of 64 bytes. */
const MAX_OUTLINE_BYTES = 2 * 1024 * 1024;
const OUTLINE_HEAD_BYTES = 16;

export type PreparedBounds = { maxSamples: number; tracks: number };

/** Returns how large a file may be that a worker brings; undefined: there is no such file. */
export function maxBytesOf(file: string, { maxSamples, tracks }: PreparedBounds): number | undefined {
  if (file === OUTLINE_FILE) return MAX_OUTLINE_BYTES;
  const [, kind, track] = /^(track|speech)-(\d{1,3})$/.exec(file) ?? [];
  if (track === undefined || Number(track) >= tracks) return undefined;
  return kind === "track"
    ? maxSamples * BYTES_PER_SAMPLE
    : REGION_BYTES * (Math.ceil(maxSamples / WINDOW_SAMPLES) + 1);
}

export const trackBytes = (samples: number) => samples * BYTES_PER_SAMPLE;

export function writeSpeech(regions: readonly SpeechRegion[]): Uint8Array<ArrayBuffer> {
  const numbers = new Uint32Array(2 * regions.length);
  for (const [index, { startSample, endSample }] of regions.entries()) {
    numbers[2 * index] = startSample;
    numbers[2 * index + 1] = endSample;
  }
  return new Uint8Array(numbers.buffer);
}

/**
 * Reads the speech of a track.
 *
 * @param samples length of the track
 * @returns undefined when regions overlap, are empty or lie outside the track
 */
export function readSpeech(bytes: Uint8Array, samples: number): SpeechRegion[] | undefined {
  if (bytes.length % REGION_BYTES !== 0) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const regions: SpeechRegion[] = [];
  let before = 0;
  for (let at = 0; at < bytes.length; at += REGION_BYTES) {
    const [startSample, endSample] = [view.getUint32(at, true), view.getUint32(at + 4, true)];
    if (startSample < before || endSample <= startSample || endSample > samples) return undefined;
    regions.push({ startSample, endSample });
    before = endSample;
  }
  return regions;
}

export function writeOutline({ peakSamples, lanes, points }: Outline): Uint8Array<ArrayBuffer> {
  const peaks = lanes[0]?.length ?? 0;
  const bytes = new Uint8Array(OUTLINE_HEAD_BYTES + lanes.length * peaks + points.length);
  const head = new DataView(bytes.buffer);
  for (const [index, value] of [peakSamples, lanes.length, peaks, points.length].entries()) {
    head.setUint32(4 * index, value, true);
  }
  for (const [index, lane] of lanes.entries()) bytes.set(lane, OUTLINE_HEAD_BYTES + index * peaks);
  bytes.set(points, OUTLINE_HEAD_BYTES + lanes.length * peaks);
  return bytes;
}

/** Reads an outline. @returns undefined when it has another form, or another number of lanes than there are tracks */
export function readOutline(bytes: Uint8Array, tracks: number): Outline | undefined {
  if (bytes.length < OUTLINE_HEAD_BYTES) return undefined;
  const head = new DataView(bytes.buffer, bytes.byteOffset, OUTLINE_HEAD_BYTES);
  const [peakSamples = 0, lanes = 0, peaks = 0, points = 0] = [0, 4, 8, 12].map((at) =>
    head.getUint32(at, true),
  );
  const pointsAt = OUTLINE_HEAD_BYTES + lanes * peaks;
  if (peakSamples === 0 || lanes !== tracks || bytes.length !== pointsAt + points) return undefined;
  return {
    peakSamples,
    lanes: Array.from({ length: lanes }, (_, lane) =>
      bytes.slice(OUTLINE_HEAD_BYTES + lane * peaks, OUTLINE_HEAD_BYTES + (lane + 1) * peaks),
    ),
    points: bytes.slice(pointsAt),
  };
}
