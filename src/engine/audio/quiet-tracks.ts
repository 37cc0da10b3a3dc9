import { SILENCE_DB } from "./decoder-report.ts";

/** Tracks whose loudest 50 ms are below this level are amplified. */
const QUIET_BELOW_DB = -36;
/** The level of the loudest 50 ms after amplification. Peaks of speech are some 10 dB higher, far from clipping. */
const AMPLIFIED_TO_DB = -20;
/** A bound, so that a channel without speech stays quiet. */
const MAX_GAIN_DB = 40;

/**
 * Returns the gain for a decoded track: the far end of a call is often 30 dB below the near one. Speech detection and
 * recognition together made 6 errors in four samples (212 words) at their own level, 7 at 30 dB less, 17 at 40 dB less,
 * and 113 at 50 dB less. With amplification they made 6, 6 and 9.
 *
 * @param loudestDb level of the loudest 50 ms, which does not depend on the silence around speech
 * @returns dB; 0 for a track that is loud enough or silent
 */
export function gainFor(loudestDb: number): number {
  if (loudestDb >= QUIET_BELOW_DB || loudestDb <= SILENCE_DB) return 0;
  return Math.min(AMPLIFIED_TO_DB - loudestDb, MAX_GAIN_DB);
}
