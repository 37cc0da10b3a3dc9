import type { AudioMeasurements } from "../domain/audio.ts";
import type { Warning } from "../domain/result.ts";
import type { ChannelMode } from "../domain/transcription.ts";

const SILENCE_DB = -120;
const CLIPPED_FROM_RATIO = 0.0005;
const LOW_PEAK_BELOW_DB = -30;
/** One of several channels with a lower peak holds the noise of an idle line, not quiet speech. */
const IDLE_PEAK_BELOW_DB = -55;
/**
 * Measured by the decoder: telephone sound has -58 to -87 dB; wide-band speech, a recording of 1961 included, -17 to
 * -55 dB.
 */
const NARROWBAND_BELOW_DB = -57;

/**
 * Derives the warnings about the sound (docs/decisions/transcriptions.md, "Warnings"), in the order of `WARNINGS`.
 * Identical channels matter only with channel mode `separate`. Silence gives no warning about its bandwidth.
 */
export function audioWarnings(measurements: AudioMeasurements, channelMode: ChannelMode): Warning[] {
  const warnings: Warning[] = [];
  const isSilent = measurements.peakDb <= SILENCE_DB;
  if (measurements.clippedRatio >= CLIPPED_FROM_RATIO) warnings.push("clipped_audio");
  const hasLowTrack = measurements.tracks.some(
    ({ peakDb }) => peakDb < LOW_PEAK_BELOW_DB && peakDb > IDLE_PEAK_BELOW_DB,
  );
  if (measurements.peakDb < LOW_PEAK_BELOW_DB || hasLowTrack) warnings.push("low_volume");
  if (!isSilent && measurements.highFrequencyDb < NARROWBAND_BELOW_DB) warnings.push("narrowband_audio");
  if (measurements.identicalChannels && channelMode === "separate") warnings.push("identical_channels");
  if (measurements.truncated) warnings.push("truncated_audio");
  return warnings;
}
