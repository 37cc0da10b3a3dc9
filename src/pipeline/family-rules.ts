import type { ModelManifest } from "../domain/model.ts";
import type { RecognizerSettings } from "../domain/recognition.ts";
import type { TranscriptionRequest } from "../domain/transcription.ts";

/** What recognition asks of a model family: its part of the family's contract (`families/contract.ts`). */
export type FamilyRules = {
  /**
   * Audio that the model encodes at once, milliseconds: a chunk costs whole windows. For a family without windows, the
   * length up to which the cost is linear.
   */
  windowMs: number;
  /** Longest chunk, milliseconds, where the manifest of a model sets none. */
  maxChunkMs: number;
  /**
   * The family normalizes the sound of a chunk by the whole of it, pauses too. A recording that fits into one chunk is
   * recognized whole. Left out: pauses do not matter, and are shortened.
   */
  normalizesChunks?: boolean;
  /** Texts of the family have punctuation. Left out: a model of punctuation adds it where a recognized text has none. */
  writesPunctuation?: boolean;
  /** Text of a lower confidence, 0 to 1, is doubtful, where the manifest of a model sets no other floor. */
  unknownBelow: number;
  /** Returns the settings for the chunks of a request. */
  settingsFor(
    request: Pick<TranscriptionRequest, "language" | "mode" | "task">,
    model: Pick<ModelManifest, "languages" | "decoding">,
  ): RecognizerSettings;
  /** Rewrites a text of the model in letters of its language. Absent for a family that writes no others. */
  inOwnLetters?(
    text: string,
    request: Pick<TranscriptionRequest, "language">,
    model: Pick<ModelManifest, "languages">,
  ): string;
  /**
   * Returns the settings for another attempt at audio whose text is faulty or missing. Absent for a deterministic
   * family, which would give the same text again.
   */
  secondAttempt?(settings: RecognizerSettings): RecognizerSettings;
  /** Returns the same settings with a single pass over the audio, for measurements of speed. */
  singlePass(settings: RecognizerSettings): RecognizerSettings;
};
