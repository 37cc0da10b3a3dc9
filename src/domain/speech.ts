/** A part of a 16 kHz file that holds speech, in samples; the end is exclusive. */
export type SpeechRegion = { startSample: number; endSample: number };

/** Samples of a recording, and where they go in a chunk's audio. */
export type AudioSlice = { sourceStartSample: number; samples: number; targetStartSample: number };
