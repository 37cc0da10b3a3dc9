import type { Config } from "../../config/schema.ts";
import type { AuditAction } from "../../domain/audit.ts";
import type { Ending } from "../../domain/ending.ts";
import { AppError } from "../../domain/errors.ts";
import { isFinal } from "../../domain/transcription.ts";
import type { Clock } from "../../lib/clock.ts";
import { recordAct } from "../../store/audit-log.ts";
import { removeChunks } from "../../store/chunks.ts";
import { checkpoint, type Database, transaction } from "../../store/database.ts";
import type { PackedResult } from "../../store/results.ts";
import { findTranscription, isUploadInUse, type TranscriptionRow } from "../../store/transcriptions.ts";
import { findUpload } from "../../store/uploads.ts";
import type { LowCredit } from "../../webhooks/event-rows.ts";
import { deleteTranscriptionContent } from "../deletions.ts";
import { noteLowCredit } from "../low-credit.ts";
import type { ReceiptService } from "../receipts.ts";
import { type KnownWork, settleTranscription } from "./settlement.ts";

export type EndingDeps = {
  database: Database;
  clock: Clock;
  config: Config;
  uploads: {
    removeAudioFile(uploadId: string): Promise<void>;
  };
  receipts: Pick<ReceiptService, "write" | "mirror">;
  /** Removes the decoded working files of a transcription. Is called after the transaction. */
  removeWorkingFiles: (transcriptionId: string) => void;
  /** Is called after the transaction in which an organization's balance has fallen below its threshold. */
  onLowCredit?: (low: LowCredit) => void;
  /** Is called after the transaction. */
  onFinished?: (row: TranscriptionRow) => void;
};

/** Why the program itself cancels a transcription. */
export type CancelReason = { code: "timeout" | "capacity_unavailable"; message: string };

/** The reason for synchronous work that a stop or crash interrupts. Its caller is gone. */
export const STOPPED: CancelReason = {
  code: "capacity_unavailable",
  message: "The server was stopped before the transcription had finished.",
};

/**
 * Ends transcriptions and deletes their content. It needs no engine, so that the command line can use it beside a
 * running server. Whether a caller may touch the transcription has been checked.
 */
export type TranscriptionEndings = {
  /** Finds a transcription. @throws AppError `not_found` */
  requireRow(id: string): TranscriptionRow;
  /** Ends a transcription and settles it. Undefined: it had ended already, and nothing has changed. */
  finish(id: string, ending: Ending<PackedResult>, work?: KnownWork): TranscriptionRow | undefined;
  /** Cancels unfinished work and settles it. Returns a finished row unchanged. */
  cancel(row: TranscriptionRow, reason?: CancelReason): TranscriptionRow;
  /** Does the same as `cancel`. @throws AppError `not_found` */
  cancelById(id: string, reason?: CancelReason): TranscriptionRow;
  /**
   * Deletes audio and transcript; the record stays. Resolves once no byte of them is left on the disk. While another
   * process reads the database, deleted text stays in its log; the next round of retention then tries again. Deleting
   * again removes what a process has left that was killed right after the transaction.
   *
   * @throws AppError `conflict` while it, or another transcription of its upload, is unfinished
   */
  deleteContent(row: TranscriptionRow): Promise<TranscriptionRow>;
  /** Does the same as `deleteContent`. @throws AppError `not_found`, `conflict` */
  deleteById(id: string): Promise<TranscriptionRow>;
};

const ownersOf = ({ id, organizationId }: TranscriptionRow) => ({ object: id, organizationId });

export function createTranscriptionEndings(deps: EndingDeps): TranscriptionEndings {
  const { database, clock, config } = deps;
  const { store } = database;

  function requireRow(id: string): TranscriptionRow {
    const row = findTranscription(store, id);
    if (!row) throw new AppError("not_found", { message: `There is no transcription ${id}.` });
    return row;
  }

  function finish(
    id: string,
    ending: Ending<PackedResult>,
    { action, ...work }: KnownWork & { action?: AuditAction | undefined } = {},
  ): TranscriptionRow | undefined {
    let low: LowCredit | undefined;
    const row = transaction(store, (tx) => {
      const ended = settleTranscription(tx, id, ending, {
        ...{ nowMs: clock.now(), timeZone: config.billing.timezone },
        ...work,
      });
      if (!ended) return undefined;
      low = noteLowCredit(tx, ended.organizationId, config.billing.low_credit_paise, clock.now());
      if (action) recordAct(tx, { action, ...ownersOf(ended) }, clock.now());
      return ended;
    });
    if (!row) return undefined;
    if (low) deps.onLowCredit?.(low);
    deps.removeWorkingFiles(id);
    deps.onFinished?.(row);
    return row;
  }

  function cancel(row: TranscriptionRow, reason?: CancelReason): TranscriptionRow {
    if (isFinal(row.state)) return row;
    // With a reason the program itself has decided. The transcription's error says why.
    const action = reason === undefined ? "transcription.cancel" : undefined;
    return finish(row.id, { kind: "cancelled", ...reason }, { action }) ?? requireRow(row.id);
  }

  async function deleteContent(row: TranscriptionRow): Promise<TranscriptionRow> {
    const deleted = row.contentDeletedAt === null ? await deleteRecord(row) : row;
    deps.removeWorkingFiles(row.id);
    // A recording without the mark came back with a restored database, and others may need it.
    if (findUpload(store, row.uploadId)?.deletedAt !== null) await deps.uploads.removeAudioFile(row.uploadId);
    await deps.receipts.mirror();
    // SQLite overwrites the deleted content in the database file only when the write-ahead log is checkpointed.
    await checkpoint(database);
    return deleted;
  }

  /** Deletes what the database has of it, and marks its recording. */
  async function deleteRecord(row: TranscriptionRow): Promise<TranscriptionRow> {
    if (!isFinal(row.state)) {
      throw new AppError("conflict", { message: "The transcription is not finished; cancel it first." });
    }
    // Those of a long recording, before the transaction that deletes the rest.
    await removeChunks(store, row.id);
    const deleted = transaction(store, (tx) => {
      if (isUploadInUse(tx, row.uploadId, row.id)) {
        throw new AppError("conflict", { message: "Another unfinished transcription uses the same upload." });
      }
      return deleteTranscriptionContent(tx, row, { receipts: deps.receipts, nowMs: clock.now() });
    });
    return deleted ?? requireRow(row.id);
  }

  return {
    requireRow,
    finish: (id, ending, work) => finish(id, ending, work),
    cancel,
    deleteContent,
    cancelById: (id, reason) => cancel(requireRow(id), reason),
    deleteById: async (id) => deleteContent(requireRow(id)),
  };
}
