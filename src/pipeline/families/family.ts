import type { ModelManifest } from "../../domain/model.ts";
import type { RecognizerSettings } from "../../domain/recognition.ts";
import type { TranscriptionRequest } from "../../domain/transcription.ts";

/**
 * What the models of a family have in common, as far as it needs no native code. The other half, which loads models
 * and recognizes chunks in a worker process, is a `Recognizer` of `engine/recognizer.ts`; only the two halves of a
 * family know the content of its settings.
 */
export type ModelFamily = {
  /** Audio that the network takes in at once: a chunk costs whole windows. Else the length to which cost is linear. */
  windowMs: number;
  /** Longest chunk of a model whose manifest names no other. */
  maxChunkMs: number;
  /** The settings for a request's chunks. */
  settingsFor(
    request: Pick<TranscriptionRequest, "language" | "mode">,
    model: Pick<ModelManifest, "languages" | "decoding">,
  ): RecognizerSettings;
  /**
   * Settings for another attempt at audio whose text is faulty or missing. Absent: the family is deterministic and
   * would give the same again.
   */
  secondAttempt?(settings: RecognizerSettings): RecognizerSettings;
  /** The same settings with one pass over the audio whatever comes out, to measure speed with. */
  singlePass(settings: RecognizerSettings): RecognizerSettings;
};
