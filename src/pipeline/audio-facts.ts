import type { AudioFacts } from "../domain/audio.ts";
import type { Warning } from "../domain/result.ts";
import type { ChannelMode } from "../domain/transcription.ts";

const SILENCE_DB = -120;
const CLIPPED_FROM_RATIO = 0.0005;
const LOW_PEAK_BELOW_DB = -30;
/** Below it a channel beside others holds the noise of an idle line, not low speech. */
const IDLE_PEAK_BELOW_DB = -55;
/** Telephone speech measured -57 to -63, wide-band speech -22 to -40. */
const NARROWBAND_BELOW_DB = -50;

/**
 * The warnings of a result that follow from the sound itself (docs/decisions.md section 4, "Warnings"), in the order of
 * `WARNINGS`. Identical channels matter only where channels are transcribed, and billed, apart. Silence is quiet, and
 * says nothing about its bandwidth.
 */
export function audioWarnings(facts: AudioFacts, channelMode: ChannelMode): Warning[] {
  const warnings: Warning[] = [];
  const isSilent = facts.peakDb <= SILENCE_DB;
  if (facts.clippedRatio >= CLIPPED_FROM_RATIO) warnings.push("clipped_audio");
  const hasLowTrack = facts.tracks.some(
    ({ peakDb }) => peakDb < LOW_PEAK_BELOW_DB && peakDb > IDLE_PEAK_BELOW_DB,
  );
  if (facts.peakDb < LOW_PEAK_BELOW_DB || hasLowTrack) warnings.push("low_volume");
  if (!isSilent && facts.highFrequencyDb < NARROWBAND_BELOW_DB) warnings.push("narrowband_audio");
  if (facts.identicalChannels && channelMode === "separate") warnings.push("identical_channels");
  if (facts.truncated) warnings.push("truncated_audio");
  return warnings;
}
