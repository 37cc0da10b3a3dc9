/** How a chunk is decoded: Whisper's parameters, without what belongs to the machine. */
export type DecodeSettings = {
  /** Whisper's code. */
  language: string;
  strategy: { name: "greedy"; bestOf: number } | { name: "beam"; beamSize: number; bestOf: number };
  /** 0 to 1. */
  temperature: number;
  /** Steps up from `temperature` for windows that fail the thresholds; 0: no second try. */
  temperatureIncrement: number;
  /** Entropy of the last tokens below which a window counts as a loop. */
  entropyThreshold: number;
  /** Mean log probability below which a window counts as failed. */
  logprobThreshold: number;
  /** 0 to 1. */
  noSpeechThreshold: number;
  initialPrompt?: string;
  /** A pattern; text tokens that match it as a whole are never chosen. */
  suppressRegex?: string;
  suppressNonSpeech: boolean;
  /** Most tokens of a segment; 0: no limit. */
  maxTokens: number;
};
