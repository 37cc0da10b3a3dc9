import type { Waveform as WireWaveform } from "../../http/wire/schemas.ts";

/** The shape of the sound, one lane for each channel that was recognized. */
export type Waveform = {
  seconds: number;
  /** Peaks of 0 to 1, at equal distances. */
  peaks: readonly Float32Array[];
  /** Start and end of speech in each lane, in seconds; undefined where it has not been looked for. */
  speech: readonly (readonly (readonly number[])[] | undefined)[];
};

/** Unpacks the answer of the server. */
export function unpackWaveform({ duration_seconds: seconds, lanes }: WireWaveform): Waveform {
  return {
    seconds,
    peaks: lanes.map(({ peaks }) => {
      const bytes = atob(peaks);
      return Float32Array.from({ length: bytes.length }, (_, index) => bytes.charCodeAt(index) / 255);
    }),
    speech: lanes.map(({ speech }) => speech ?? undefined),
  };
}
