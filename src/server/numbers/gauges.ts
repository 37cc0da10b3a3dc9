import type { Config } from "../../config/schema.ts";
import { FINAL_STATES } from "../../domain/transcription.ts";
import type { Metrics } from "../../http/metrics.ts";
import { addProcessMetrics } from "../../http/process-metrics.ts";
import type { AddressWork } from "../../intake/address/address-work.ts";
import type { FolderService } from "../../intake/folders/folders.ts";
import type { Clock } from "../../lib/clock.ts";
import { listLowCredit } from "../../services/low-credit.ts";
import type { UploadService } from "../../services/uploads/uploads.ts";
import { nextKeyEnd } from "../../store/api-keys.ts";
import type { Database } from "../../store/database.ts";
import { listOrganizations } from "../../store/organizations.ts";
import { endingsAfter, lastUsageRow } from "../../store/usage.ts";
import type { ScheduledBackups } from "../scheduled-backups.ts";
import type { ProgramNumbers } from "./program-numbers.ts";

/** When the certificate ends with which the server listens, epoch milliseconds; undefined: the server has none. */
export type ExpiryTimes = { certificateAtMs: number | undefined };

/** Adds the metrics of the running program, except those of requests. They are read for each `GET /metrics`. */
export function addGauges(
  metrics: Metrics,
  parts: {
    numbers: ProgramNumbers;
    database: Database;
    backups: ScheduledBackups;
    ends: ExpiryTimes;
    clock: Clock;
    config: Config;
    uploads: Pick<UploadService, "storedLimitOf">;
    folders: Pick<FolderService, "numbers">;
    addressWork: Pick<AddressWork, "fetches">;
  },
): void {
  const { numbers } = parts;
  const disk = brieflyKept(numbers.disk);
  addProcessMetrics(metrics);
  addOutcomes(metrics, parts.database);
  metrics.addGauge("shruti_ready", "1 while the server can take work, as GET /readyz says.", () =>
    Number(numbers.unready().length === 0),
  );
  addEngineGauges(metrics, numbers);
  addDecoderGauges(metrics, numbers);
  addWebhookGauges(metrics, numbers);
  metrics.addGauge("shruti_database_bytes", "Size of the database file.", () => disk().databaseBytes);
  addBackupGauges(metrics, parts.backups);
  addClockGauges(metrics, numbers);
  addEndGauges(metrics, parts);
  addOrganizationGauges(metrics, parts);
  addFolderGauges(metrics, parts.folders);
  addFetchGauges(metrics, parts.addressWork);
  metrics.addGauge("shruti_disk_free_bytes", "Free space for the data directory.", () => disk().freeBytes);
}

function addFolderGauges(metrics: Metrics, folders: Pick<FolderService, "numbers">): void {
  const numbers = brieflyKept(folders.numbers);
  metrics.addGauge("shruti_folders", "Watched folders.", () => numbers().folders);
  metrics.addGauge(
    "shruti_folder_problems",
    "Watched folders from which nothing can be taken now; `shruti folder status` says why.",
    () => numbers().problems,
  );
  metrics.addGauge(
    "shruti_folder_files_waiting",
    "Complete files of watched folders that wait until others have ended.",
    () => numbers().waiting,
  );
  metrics.addGauge(
    "shruti_folder_files_in_hand",
    "Files of watched folders that are received, transcribed or brought to their end.",
    () => numbers().inHand,
  );
  metrics.addGauge(
    "shruti_folder_files_failed",
    "Files of watched folders that have failed and were not retried.",
    () => numbers().failed,
  );
  metrics.addCounter(
    "shruti_folder_files_done_total",
    "Files of watched folders whose results were written since the start.",
    () => numbers().done,
  );
}

function addFetchGauges(metrics: Metrics, work: Pick<AddressWork, "fetches">): void {
  const numbers = brieflyKept(work.fetches);
  metrics.addGauge(
    "shruti_fetches_running",
    "Recordings that are being fetched from addresses and buckets.",
    () => numbers().running,
  );
  metrics.addGauge(
    "shruti_fetches_waiting",
    "Recordings at addresses and in buckets that wait for a place, or for the next attempt.",
    () => numbers().waiting,
  );
  metrics.addCounter(
    "shruti_fetch_attempts_total",
    "Attempts to fetch a recording that were started since the start.",
    () => numbers().attempts,
  );
  metrics.addCounter(
    "shruti_fetch_bytes_total",
    "Bytes of recordings that were fetched since the start.",
    () => numbers().bytes,
  );
  metrics.addLabelledCounter(
    "shruti_fetches_failed_total",
    "Recordings that could not be fetched since the start, by reason: address, connection, answer, file, limit.",
    "reason",
    () => Object.entries(numbers().failed),
  );
}

/** What an organization may store, as a share, above which it is nearly full. */
const NEARLY_FULL = 0.9;

function addOrganizationGauges(
  metrics: Metrics,
  { database: { store }, config, uploads }: Parameters<typeof addGauges>[1],
): void {
  const lowCredit = () => listLowCredit(store, config.billing.low_credit_paise);
  metrics.addGauge(
    "shruti_low_credit_organizations",
    "Organizations whose credit is low.",
    () => lowCredit().length,
  );
  metrics.addLabelledGauge(
    "shruti_low_credit_balance_paise",
    "Balance of each organization whose credit is low; only with metrics.token.",
    "organization",
    // Without a token everybody who reaches the server could read who the customers are.
    () =>
      config.metrics.token === ""
        ? []
        : lowCredit().map(({ organizationId, balancePaise }) => [organizationId, balancePaise]),
  );
  metrics.addGauge(
    "shruti_stored_bytes",
    "Recordings that all organizations keep, unfinished uploads included.",
    () => listOrganizations(store).reduce((sum, { storedBytes }) => sum + storedBytes, 0),
  );
  metrics.addGauge(
    "shruti_organizations_nearly_full",
    "Organizations that store more than nine tenths of what they may.",
    () =>
      listOrganizations(store).filter((organization) => {
        const { bytes } = uploads.storedLimitOf(organization);
        return bytes > 0 && organization.storedBytes > bytes * NEARLY_FULL;
      }).length,
  );
}

function addBackupGauges(metrics: Metrics, backups: ScheduledBackups): void {
  const status = brieflyKept(backups.status);
  metrics.addGauge(
    "shruti_backup_age_seconds",
    "Time since the last backup of everything; before the first one, since the database was made.",
    () => status().ageSeconds,
  );
  metrics.addGauge(
    "shruti_backup_lacking_files",
    "Recordings and models that the last backup of everything lacks, because they could not be read or have changed.",
    () => status().lacking,
  );
  metrics.addGauge(
    "shruti_backup_faulty_files",
    "Recordings and models that could not be read, or had changed, when the last backup of everything was made.",
    () => status().faulty,
  );
  metrics.addGauge("shruti_backup_scheduled", "1 where the config has a schedule of backups.", () =>
    Number(status().isScheduled),
  );
  metrics.addCounter(
    "shruti_backup_failures_total",
    "Scheduled backups that failed since the start.",
    () => status().failures,
  );
  metrics.addGauge(
    "shruti_backup_last_failed",
    "1 where the last scheduled backup failed, also before the start, and none was made since.",
    () => Number(status().hasFailed),
  );
}

function addClockGauges(metrics: Metrics, numbers: ProgramNumbers): void {
  const clock = brieflyKept(numbers.clock);
  metrics.addGauge(
    "shruti_clock_doubtful",
    "1 while the clock is in doubt and nothing is removed because of its age.",
    () => Number(clock().isDoubtful),
  );
  metrics.addGauge(
    "shruti_clock_offset_seconds",
    "How far a clock in doubt is ahead of what is known; negative: behind; 0 without a doubt.",
    () => clock().offsetMs / 1000,
  );
}

function addEndGauges(
  metrics: Metrics,
  { ends, clock, database: { store } }: Pick<Parameters<typeof addGauges>[1], "ends" | "clock" | "database">,
): void {
  metrics.addGauge(
    "shruti_certificate_end_timestamp_seconds",
    "When the TLS certificate in use ends, seconds since 1970; 0 without TLS.",
    () => (ends.certificateAtMs ?? 0) / 1000,
  );
  metrics.addGauge(
    "shruti_next_key_end_timestamp_seconds",
    "When the next API key ends, seconds since 1970; 0 when none does.",
    () => (nextKeyEnd(store, clock.now()) ?? 0) / 1000,
  );
}

/**
 * Adds counters of finished work since the start. Their deltas give throughput and failures. They are read from the usage
 * events, because commands of an admin finish work, too.
 */
function addOutcomes(metrics: Metrics, { store }: Database): void {
  const finished = new Map<string, number>(FINAL_STATES.map((state) => [state, 0]));
  let transcribedMs = 0;
  let last = lastUsageRow(store);
  const advance = () => {
    for (const { row, state, count, audioMs } of endingsAfter(store, last)) {
      last = Math.max(last, row);
      finished.set(state, (finished.get(state) ?? 0) + count);
      if (state === "completed" || state === "partial") transcribedMs += audioMs;
    }
  };
  metrics.addLabelledCounter(
    "shruti_transcriptions_finished_total",
    "Transcriptions that have finished since the start, by state.",
    "state",
    () => {
      advance();
      return finished;
    },
  );
  metrics.addCounter(
    "shruti_audio_seconds_total",
    "Length of the recordings of completed and partial transcriptions since the start.",
    () => {
      advance();
      return transcribedMs / 1000;
    },
  );
}

function addDecoderGauges(metrics: Metrics, { decoders }: ProgramNumbers): void {
  metrics.addGauge("shruti_decoders", "Decoders that may run at once.", () => decoders().places);
  metrics.addGauge("shruti_decoders_busy", "Decoders that run.", () => decoders().running);
  metrics.addGauge("shruti_decoders_waiting", "Files that wait for a decoder.", () => decoders().waiting);
}

function addEngineGauges(metrics: Metrics, { queue, engine }: ProgramNumbers): void {
  const status = brieflyKept(queue);
  metrics.addLabelledGauge(
    "shruti_transcriptions_unfinished",
    "Transcriptions that are not finished, by state.",
    "state",
    () => Object.entries(status().unfinished),
  );
  metrics.addGauge(
    "shruti_engine_places",
    "Chunks that can be recognized side by side.",
    () => status().places,
  );
  metrics.addGauge("shruti_engine_places_busy", "Chunks being recognized.", () => status().placesBusy);
  metrics.addGauge(
    "shruti_engine_chunks_waiting",
    "Chunks that wait for a slot.",
    () => status().chunksWaiting,
  );
  metrics.addGauge(
    "shruti_synchronous_places_taken",
    "Synchronous requests being worked on.",
    () => status().synchronousPlacesTaken,
  );
  metrics.addGauge(
    "shruti_engine_real_time_factor",
    "Length of recordings transcribed per time by the whole machine, as a ratio; 0 before the first chunk.",
    () => status().realTimeFactor ?? 0,
  );
  metrics.addGauge(
    "shruti_queue_empty_in_seconds",
    "Estimate of when all accepted work is done.",
    () => status().emptyInSeconds,
  );
  metrics.addLabelledCounter(
    "shruti_engine_worker_restarts_total",
    "Worker processes that ended unexpectedly, by model.",
    "model",
    () => engine().models.map(({ modelId, restarts }) => [modelId, restarts]),
  );
  const drafts = (number: "drafted" | "accepted") => () =>
    new Map(
      engine().models.flatMap(({ modelId, draftId, draft }): [string, number][] =>
        draftId === undefined ? [] : [[modelId, draft?.[number] ?? 0]],
      ),
    );
  metrics.addLabelledCounter(
    "shruti_engine_drafted_tokens_total",
    "Tokens that a draft model has written ahead since the start, by the model for which it did.",
    "model",
    drafts("drafted"),
  );
  metrics.addLabelledCounter(
    "shruti_engine_accepted_tokens_total",
    "Those of the drafted tokens that the model has chosen, too.",
    "model",
    drafts("accepted"),
  );
  metrics.addGauge(
    "shruti_engine_avoided_processor_code",
    "Families of processors whose code ended worker processes and is not used any more.",
    () => engine().brokenVariants.length,
  );
}

function addWebhookGauges(metrics: Metrics, { webhooks }: ProgramNumbers): void {
  const numbers = brieflyKept(webhooks);
  metrics.addLabelledCounter(
    "shruti_webhook_attempts_total",
    "Delivery attempts since the start, by outcome.",
    "outcome",
    () => [
      ["succeeded", numbers().attemptsSucceeded],
      ["failed", numbers().attemptsFailed],
    ],
  );
  metrics.addCounter(
    "shruti_webhook_deliveries_failed_total",
    "Events given up since the start: schedule used up, or 410.",
    () => numbers().deliveriesFailed,
  );
  metrics.addCounter(
    "shruti_webhook_endpoints_disabled_total",
    "Endpoints disabled since the start.",
    () => numbers().endpointsDisabled,
  );
  metrics.addLabelledGauge(
    "shruti_webhook_deliveries",
    "Deliveries that are not over: waiting or being sent, being sent, waiting at disabled endpoints.",
    "state",
    () => [
      ["pending", numbers().pending],
      ["in_flight", numbers().inFlight],
      ["paused", numbers().paused],
    ],
  );
  metrics.addGauge(
    "shruti_webhook_oldest_undelivered_seconds",
    "Age of the oldest event that has not been delivered.",
    () => numbers().oldestUndeliveredSeconds,
  );
}

const KEPT_MS = 250;

/** Returns a function that keeps the value it read for 250 ms, so that the numbers of one answer belong together. */
function brieflyKept<T>(read: () => T): () => T {
  let kept: { value: T; at: number } | undefined;
  return () => {
    const now = performance.now();
    if (!kept || now - kept.at > KEPT_MS) kept = { value: read(), at: now };
    return kept.value;
  };
}
