import type { Ending } from "../../domain/ending.ts";
import type { ErrorCode } from "../../domain/errors.ts";
import type { ChunkCounts, RecognitionMeans } from "../../domain/story.ts";
import {
  type FinalState,
  recognizedChannels,
  type TranscriptionTrigger,
} from "../../domain/transcription.ts";
import { chargePaise } from "../../lib/money.ts";
import { dayIn } from "../../lib/time.ts";
import { countChunks, deleteFewChunks } from "../../store/chunks.ts";
import type { Store } from "../../store/database.ts";
import { markFetchUnwanted } from "../../store/fetches.ts";
import { reserveCredit, settleReservation } from "../../store/ledger.ts";
import { startResultCopy } from "../../store/result-copies.ts";
import { insertResult, type PackedResult } from "../../store/results.ts";
import { moveTranscription, type TranscriptionRow } from "../../store/transcriptions.ts";
import { insertUsageEvent } from "../../store/usage.ts";
import { findEndpoint, insertEvent } from "../../webhooks/event-rows.ts";

/** How a transcription was recognized, as far as that is known before it is settled. */
export type KnownWork = {
  /** With what it was recognized. */
  means?: RecognitionMeans;
  /** Its chunks, where they have been counted after the last one had ended. */
  chunks?: ChunkCounts;
};

/**
 * Returns the charge for so much audio of a transcription, whole paise.
 *
 * @param billedMs milliseconds over all recognized channels
 */
export function chargeOf(
  {
    pricePaisePerAudioHour,
    reservedPaise,
  }: Pick<TranscriptionRow, "pricePaisePerAudioHour" | "reservedPaise">,
  billedMs: number,
): number {
  // The reservation covers the whole recording. A difference in rounding must not charge more than it.
  return Math.min(chargePaise(pricePaisePerAudioHour, billedMs), reservedPaise);
}

const TRIGGERS = {
  completed: "complete",
  partial: "complete_partially",
  failed: "fail",
  cancelled: "cancel",
} as const;

/**
 * Ends a transcription inside the caller's transaction: state, result, charge, usage event and webhook
 * event together, or nothing (docs/interface.md section 3.1; docs/decisions/transcriptions.md and
 * docs/decisions/money.md). Without a result only the audio is charged whose text a stream has sent before. The chunks
 * of a long recording stay: they mean nothing any more, and each round of retention removes them.
 *
 * @param nowMs when it ends, epoch milliseconds
 * @param timeZone IANA name of the zone whose calendar day the charge counts for
 * @returns the final row; undefined when the transcription had ended already, and nothing is written
 */
export function settleTranscription(
  tx: Store,
  id: string,
  ending: Ending<PackedResult>,
  { nowMs, timeZone, means, chunks }: KnownWork & { nowMs: number; timeZone: string },
): TranscriptionRow | undefined {
  const state = finalStateOf(ending);
  const work = { ...(chunks ?? countChunks(tx, id)), means: means ?? null };
  const change = { finishedAt: nowMs, work, ...errorOf(ending) };
  const row = moveTranscription(tx, id, triggerFor(state), nowMs, change);
  if (!row) return undefined;
  const billedMs = ending.kind === "result" ? ending.billedMs : row.streamedMs;
  const amountPaise = chargeOf(row, billedMs);
  if (ending.kind === "result") insertResult(tx, id, ending.result, nowMs);
  deleteFewChunks(tx, id);
  const { organizationId } = row;
  // Each transcription that has ended has a reservation, also when its recording never came.
  if (row.awaitsAudio) {
    reserveCredit(tx, { organizationId, transcriptionId: id, amountPaise: 0, nowMs });
    markFetchUnwanted(tx, id);
  }
  startResultCopy(tx, id, ending.kind === "result" ? nowMs : undefined);
  settleReservation(tx, {
    organizationId: row.organizationId,
    transcriptionId: id,
    chargePaise: amountPaise,
    nowMs,
    day: dayIn(timeZone, nowMs),
  });
  insertUsageEvent(
    tx,
    {
      organizationId: row.organizationId,
      projectId: row.projectId,
      transcriptionId: id,
      modelId: row.modelId,
      state,
      audioMs: row.durationMs,
      billedMs,
      channels: recognizedChannels(row),
      amountPaise,
    },
    nowMs,
  );
  // A purge, and time after a removal, removes the endpoint's record, too: then there is no one to report to.
  if (row.webhookEndpointId !== null && findEndpoint(tx, row.webhookEndpointId)) {
    const error =
      row.errorCode === null ? {} : { error: { code: row.errorCode, message: row.errorMessage ?? "" } };
    const metadata = row.metadata === null ? {} : { metadata: row.metadata };
    const transcription = { id, state, ...error, ...metadata };
    insertEvent(tx, { transcription, endpointId: row.webhookEndpointId, nowMs });
  }
  return row;
}

function finalStateOf(ending: Ending<PackedResult>): FinalState {
  return ending.kind === "result" ? ending.result.status : ending.kind;
}

function triggerFor(state: FinalState): TranscriptionTrigger {
  return TRIGGERS[state];
}

function errorOf(ending: Ending<PackedResult>): { errorCode?: ErrorCode; errorMessage?: string } {
  if (ending.kind === "result" || ending.code === undefined) return {};
  return { errorCode: ending.code, errorMessage: ending.message ?? "" };
}
