import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import { isFinal } from "../domain/transcription.ts";
import type { Clock } from "../lib/clock.ts";
import { deleteChunks } from "../store/chunks.ts";
import { checkpoint, type Database, type Store, transaction } from "../store/database.ts";
import { deleteResult } from "../store/results.ts";
import {
  findTranscription,
  isUploadInUse,
  markContentDeleted,
  type TranscriptionRow,
} from "../store/transcriptions.ts";
import { type Ending, settleTranscription } from "./settlement.ts";

export type EndingDeps = {
  database: Database;
  clock: Clock;
  config: Config;
  uploads: {
    markAudioDeleted(tx: Store, uploadId: string, nowMs: number): unknown;
    removeAudioFile(uploadId: string): Promise<void>;
  };
  /** Removes decoded working files of a transcription; called after its transaction. */
  removeWorkingFiles: (transcriptionId: string) => void;
  /** Called after the transaction. */
  onFinished?: (row: TranscriptionRow) => void;
};

/** Why a transcription is cancelled by the program itself. */
export type CancelReason = { code: "timeout" | "capacity_unavailable"; message: string };

/** Of synchronous work that a stop or crash interrupts: its caller is gone, and asks again under a new key. */
export const STOPPED: CancelReason = {
  code: "capacity_unavailable",
  message: "The server was stopped before the transcription had finished.",
};

/**
 * How transcriptions end and lose their content: all that needs no engine, so that the command line can do it
 * beside a running server.
 */
export function createTranscriptionEndings(deps: EndingDeps) {
  const { database, clock, config } = deps;
  const { store } = database;

  function requireRow(id: string): TranscriptionRow {
    const row = findTranscription(store, id);
    if (!row) throw new AppError("not_found");
    return row;
  }

  /** Ends a transcription; undefined when something else ended it first. */
  function finish(id: string, ending: Ending): TranscriptionRow | undefined {
    const row = transaction(store, (tx) =>
      settleTranscription(tx, id, ending, clock.now(), config.billing.timezone),
    );
    if (!row) return undefined;
    deps.removeWorkingFiles(id);
    deps.onFinished?.(row);
    return row;
  }

  /** Cancels unfinished work and settles it; a finished row is returned unchanged. */
  function cancel(row: TranscriptionRow, reason?: CancelReason): TranscriptionRow {
    if (isFinal(row.state)) return row;
    return finish(row.id, { kind: "cancelled", ...reason }) ?? requireRow(row.id);
  }

  /**
   * Resolves once no byte of audio or transcript is left; the record stays.
   * @throws AppError `conflict` while it, or another transcription of its upload, is unfinished
   */
  async function deleteContent(row: TranscriptionRow): Promise<TranscriptionRow> {
    if (row.contentDeletedAt !== null) return row;
    if (!isFinal(row.state)) {
      throw new AppError("conflict", { message: "The transcription is not finished; cancel it first." });
    }
    const deleted = transaction(store, (tx) => {
      if (isUploadInUse(tx, row.uploadId, row.id)) {
        throw new AppError("conflict", { message: "Another unfinished transcription uses the same upload." });
      }
      deleteResult(tx, row.id);
      deleteChunks(tx, row.id);
      deps.uploads.markAudioDeleted(tx, row.uploadId, clock.now());
      return markContentDeleted(tx, row.id, clock.now());
    });
    deps.removeWorkingFiles(row.id);
    await deps.uploads.removeAudioFile(row.uploadId);
    // What was deleted is overwritten in the file only once the write-ahead log has been folded in.
    checkpoint(database);
    return deleted ?? requireRow(row.id);
  }

  return {
    requireRow,
    finish,
    cancel,
    deleteContent,
    cancelById: (id: string, reason?: CancelReason) => cancel(requireRow(id), reason),
    deleteById: async (id: string) => deleteContent(requireRow(id)),
  };
}
