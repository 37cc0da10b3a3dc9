import type { ErrorCode } from "./errors.ts";
import type { PunctuationHashes, SpeakerWeightHashes } from "./model.ts";

/**
 * How a transcription ends. Recognition makes it, and settlement writes it.
 *
 * @typeParam Result the form of the result: `TranscriptionResult` as recognition makes it, or packed for the database
 */
export type Ending<Result> =
  | {
      kind: "result";
      result: Result;
      /** What the customer pays for: audio without gaps, milliseconds over all recognized channels. */
      billedMs: number;
      /** Hashes of the nets, where they distinguished the speakers. */
      speakerWeights?: SpeakerWeightHashes;
      /** Hashes of the model that added punctuation, where one did. */
      punctuation?: PunctuationHashes;
    }
  | {
      kind: "failed";
      code: ErrorCode;
      message: string;
      /** The error that led to the failure, where there was one. */
      cause?: Error;
    }
  | { kind: "cancelled"; code?: ErrorCode; message?: string };

/** Recognition ends with a result or a failure; only clients, admins and the server's deadlines cancel. */
export type RecognitionEnding<Result> = Exclude<Ending<Result>, { kind: "cancelled" }>;
