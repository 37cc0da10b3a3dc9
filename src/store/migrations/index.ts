import initial from "./0001_initial.sql" with { type: "text" };
import webhookDeliveries from "./0002_webhook_deliveries.sql" with { type: "text" };
import transcriptionsByState from "./0003_transcriptions_by_state.sql" with { type: "text" };
import uploadsOfKeys from "./0004_uploads_of_keys.sql" with { type: "text" };
import chunkAttempts from "./0005_chunk_attempts.sql" with { type: "text" };
import fairQueue from "./0006_fair_queue.sql" with { type: "text" };
import auditLog from "./0007_audit_log.sql" with { type: "text" };
import outlines from "./0008_outlines.sql" with { type: "text" };
import stories from "./0009_stories.sql" with { type: "text" };
import lowCreditAndRetention from "./0010_low_credit_and_retention.sql" with { type: "text" };
import consoleSessions from "./0011_console_sessions.sql" with { type: "text" };
import deletions from "./0012_deletions.sql" with { type: "text" };
import creditLowEvents from "./0015_credit_low_events.sql" with { type: "text" };
import failedDeliveries from "./0016_failed_deliveries.sql" with { type: "text" };
import storedBytes from "./0017_stored_bytes.sql" with { type: "text" };
import streamedText from "./0018_streamed_text.sql" with { type: "text" };
import oldRecords from "./0019_old_records.sql" with { type: "text" };
import modelHash from "./0020_model_hash.sql" with { type: "text" };
import projectLanguage from "./0021_project_language.sql" with { type: "text" };
import readings from "./0022_readings.sql" with { type: "text" };
import chunkDoubts from "./0023_chunk_doubts.sql" with { type: "text" };
import writtenForm from "./0024_written_form.sql" with { type: "text" };
import metadata from "./0025_metadata.sql" with { type: "text" };
import watchedFiles from "./0026_watched_files.sql" with { type: "text" };
import fetches from "./0027_fetches.sql" with { type: "text" };
import translation from "./0028_translation.sql" with { type: "text" };

/** Every migration, oldest first; embedded in the executable. A landed one is never edited. */
export const MIGRATIONS: readonly { name: string; sql: string }[] = [
  { name: "0001_initial", sql: initial },
  { name: "0002_webhook_deliveries", sql: webhookDeliveries },
  { name: "0003_transcriptions_by_state", sql: transcriptionsByState },
  { name: "0004_uploads_of_keys", sql: uploadsOfKeys },
  { name: "0005_chunk_attempts", sql: chunkAttempts },
  { name: "0006_fair_queue", sql: fairQueue },
  { name: "0007_audit_log", sql: auditLog },
  { name: "0008_outlines", sql: outlines },
  { name: "0009_stories", sql: stories },
  { name: "0010_low_credit_and_retention", sql: lowCreditAndRetention },
  { name: "0011_console_sessions", sql: consoleSessions },
  { name: "0012_deletions", sql: deletions },
  { name: "0015_credit_low_events", sql: creditLowEvents },
  { name: "0016_failed_deliveries", sql: failedDeliveries },
  { name: "0017_stored_bytes", sql: storedBytes },
  { name: "0018_streamed_text", sql: streamedText },
  { name: "0019_old_records", sql: oldRecords },
  { name: "0020_model_hash", sql: modelHash },
  { name: "0021_project_language", sql: projectLanguage },
  { name: "0022_readings", sql: readings },
  { name: "0023_chunk_doubts", sql: chunkDoubts },
  { name: "0024_written_form", sql: writtenForm },
  { name: "0025_metadata", sql: metadata },
  { name: "0026_watched_files", sql: watchedFiles },
  { name: "0027_fetches", sql: fetches },
  { name: "0028_translation", sql: translation },
];
