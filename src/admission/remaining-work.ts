import { billedMsOf } from "../domain/transcription.ts";
import type { TranscriptionRow } from "../store/transcriptions.ts";

/** Returns the audio without an outcome, milliseconds over the channels that are recognized. */
export function remainingMsOf(row: TranscriptionRow, progressMs = row.progressMs): number {
  return Math.max(0, billedMsOf(row) - progressMs);
}
