import { csvLine } from "../lib/csv.ts";
import { toSeconds, toTimestamp } from "../lib/time.ts";
import type { UsageEventRow } from "../store/usage.ts";

/** Writes usage events as CSV, line by line, with a line of headings first. */
export function* usageCsv(events: Iterable<UsageEventRow>): Generator<string> {
  yield csvLine([
    "id",
    "created_at",
    "organization_id",
    "project_id",
    "transcription_id",
    "model",
    "state",
    "audio_seconds",
    "billed_seconds",
    "channels",
    "amount_paise",
  ]);
  for (const event of events) {
    yield csvLine([
      event.id,
      toTimestamp(event.createdAt),
      event.organizationId,
      event.projectId,
      event.transcriptionId,
      event.modelId,
      event.state,
      toSeconds(event.audioMs),
      toSeconds(event.billedMs),
      event.channels,
      event.amountPaise,
    ]);
  }
}
