import { AppError } from "../../domain/errors.ts";
import { billedMsOf } from "../../domain/transcription.ts";
import { chargePaise } from "../../lib/money.ts";
import { transaction } from "../../store/database.ts";
import { reserveCredit } from "../../store/ledger.ts";
import { requireOrganization } from "../../store/organizations.ts";
import { markArrived, type TranscriptionRow } from "../../store/transcriptions.ts";
import { findUpload } from "../../store/uploads.ts";
import { type AcceptanceDeps, checkLimits, requestOf } from "./acceptance.ts";

export type ArrivalDeps = Pick<AcceptanceDeps, "database" | "clock" | "config" | "uploads" | "credit">;

/**
 * Takes up a transcription whose recording has been fetched and verified: length and reservation enter it, and it waits for
 * a turn. One transaction writes both, or nothing.
 *
 * @param row awaits its recording
 * @returns the row afterwards; undefined: it has ended meanwhile
 * @throws AppError why it cannot be taken up: the rejection of its upload, `content_deleted`, `audio_too_long`,
 *   `too_many_channels`, `spend_limit_reached`, `insufficient_credits`
 */
export function takeUpArrived(deps: ArrivalDeps, row: TranscriptionRow): TranscriptionRow | undefined {
  const { database, clock, config, credit } = deps;
  return transaction(database.store, (tx) => {
    const found = findUpload(tx, row.uploadId);
    if (found?.state === "rejected") {
      const message = found.errorMessage ?? undefined;
      throw new AppError(found.errorCode ?? "upload_rejected", message === undefined ? {} : { message });
    }
    const upload = deps.uploads.requireComplete(tx, row, row.uploadId);
    const [durationMs, channels] = [upload.durationMs ?? 0, upload.channels ?? 1];
    checkLimits(config, row.submission, { durationMs, channels });
    const billedMs = billedMsOf({ durationMs, channelMode: requestOf(row).channelMode, channels });
    const reservedPaise = chargePaise(row.pricePaisePerAudioHour, billedMs);
    const arrived = markArrived(tx, row.id, { durationMs, channels, reservedPaise });
    if (!arrived) return undefined;
    const nowMs = clock.now();
    const { organizationId, id: transcriptionId } = row;
    credit.checkSpending(tx, requireOrganization(tx, organizationId), reservedPaise, nowMs);
    reserveCredit(tx, { organizationId, transcriptionId, amountPaise: reservedPaise, nowMs });
    return arrived;
  });
}
