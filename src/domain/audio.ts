import type { Reading } from "./reading.ts";

/** Properties of a recording that has been decoded to its end. */
export type VerifiedAudio = {
  /** Duration of the decoded samples, whatever the header says, milliseconds. */
  durationMs: number;
  /** The highest number of channels of any part of the recording. */
  channels: number;
  /** The sample rate at the beginning of the recording. */
  sampleRateHz: number;
  /** The file ends before its header says. */
  truncated: boolean;
  /** How the file was read, and has to be read again. */
  reading: Reading;
};

/** Measurements from the decoding of a recording. Levels are in dB relative to full scale, -120 for silence. */
export type AudioMeasurements = {
  /** The file ends before its header says, or could not be decoded to its end. */
  truncated: boolean;
  /** Share of samples at full scale, 0 to 1. It is also 0 when hardly any sample is near full scale. */
  clippedRatio: number;
  peakDb: number;
  rmsDb: number;
  /** Level of the part above 5 kHz relative to the whole, dB. */
  highFrequencyDb: number;
  /** Both channels of a stereo recording carry the same sound; false for any other number of channels. */
  identicalChannels: boolean;
  /** Levels of the channels that are recognized (a mix is one), before quiet ones were amplified. */
  tracks: TrackLevel[];
};

export type TrackLevel = {
  peakDb: number;
};
