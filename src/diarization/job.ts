import type { SpeakerWeightHashes, SpeakerWeights } from "../domain/model.ts";
import type { SpeechRegion } from "../domain/speech.ts";

/**
 * Asks who speaks in a recording. Speakers of different channels are different people, unless there are more channels
 * than speakers allowed.
 */
export type DiarizeJob = {
  /** One for each channel that is transcribed on its own. */
  tracks: { pcmPath: string; regions: readonly SpeechRegion[] }[];
  /** Bounds of the number of speakers, 1 to 20 each; left out: the engine finds the number. */
  minSpeakers?: number;
  maxSpeakers?: number;
  /** Nets; left out: the built-in acoustic method. */
  weights?: SpeakerWeights;
  /** Threads that the work with weights may use; left out: 1. */
  threads?: number;
};

/** Receives the share of the audio in which speakers were heard, 0 to 1, while the rest is still heard. */
export type OnSpeakersHeard = (share: number) => void;

/** A time in which one speaker talks, on the recording's clock. */
export type SpeakerTurn = { startMs: number; endMs: number; speaker: number };

export type DiarizeOutcome = {
  /** Turns of each track in order of time. Speakers are numbered from 0 over all tracks. */
  turns: SpeakerTurn[][];
  /** The number of speakers was found by the engine, and the evidence for it is weak. */
  isCountUncertain: boolean;
  /** Hashes of the nets that were loaded for it; left out where the built-in method did it. */
  weightHashes?: SpeakerWeightHashes;
};
