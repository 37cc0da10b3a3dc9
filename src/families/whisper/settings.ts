import type { RecognizerSettings } from "../../domain/recognition.ts";
import type { AlignmentHead } from "./alignment-heads.ts";

/** Whisper's parameters for a chunk, without those that depend on the machine. */
export type WhisperSettings = RecognizerSettings & {
  /** A language code of whisper that the model knows, or `auto` (detected from the first 30 s). */
  language: string;

  /** `bestOf` is how many samples are drawn at temperatures above 0; both sizes are 1 to 8. */
  strategy: { name: "greedy"; bestOf: number } | { name: "beam"; beamSize: number; bestOf: number };
  /** 0 to 1. */
  temperature: number;
  /** Steps up from `temperature` to 1 for windows that fail the thresholds; 0: no second try, else at least 0.05. */
  temperatureIncrement: number;
  /** Entropy of the last tokens below which a window counts as a loop; 0 to 100. */
  entropyThreshold: number;
  /** Mean log probability below which a window counts as failed; −100 to 0. */
  logprobThreshold: number;
  /** 0 to 1. */
  noSpeechThreshold: number;
  /** Text before every window of 30 s, at most 4096 bytes; whisper keeps the last 223 tokens. */
  initialPrompt?: string;
  /** A JavaScript pattern (flag u) of one character: no tokens are chosen that spell one, also not byte by byte. */
  heldBack?: string;
  suppressNonSpeech: boolean;
  /** False: the model was trained without timestamps. Audio is then at most 30 s long; a segment has the times of its audio. */
  timestamps?: boolean;
  /** Most tokens of a segment, up to 224; 0 for no limit. */
  maxTokens: number;
  /** The heads with which words get times; left out: those of the model's shape. */
  alignmentHeads?: readonly AlignmentHead[];
  /** How long after a token is heard these look at it, milliseconds; less than 0: before. Left out: that of the model's shape. */
  alignmentDelayMs?: number;
  /** All heads are measured, and words get no times. */
  measuresHeads?: boolean;
};
