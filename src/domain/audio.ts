/** What is known of a recording once it has been decoded to its end. */
export type VerifiedAudio = {
  /** Of the decoded samples, not of the header. */
  durationMs: number;
  channels: number;
  sampleRateHz: number;
  /** The file ends before its header says. */
  truncated: boolean;
};

/** What was measured while a recording was decoded. Levels are in dB below full scale, -120 for silence. */
export type AudioFacts = {
  /** The file ends before its header says, or could not be decoded to its end. */
  truncated: boolean;
  /** Share of the recording's samples that stand at full scale, 0 to 1; 0 also where hardly any is near it. */
  clippedRatio: number;
  peakDb: number;
  rmsDb: number;
  /** Level of what is above 5 kHz, relative to the whole. */
  highFrequencyDb: number;
  /** Both channels of a stereo recording carry the same sound; false for any other number of channels. */
  identicalChannels: boolean;
  /** Of each channel that is transcribed, the mix counting as one; before quiet ones were amplified. */
  tracks: TrackLevel[];
};

export type TrackLevel = {
  peakDb: number;
};
