import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { type Database, transaction } from "../store/database.ts";
import { type DeliveryOutcome, recordOutcomes } from "../store/webhook-deliveries.ts";

/** Outcomes are recorded together: one fsync for a batch instead of one for each. */
const RECORD_AFTER_MS = 20;
const RECORD_AT_MOST = 256;
/** With so many outcomes unrecorded the database is out of order, and nothing more should be sent. */
const MAX_UNRECORDED = 1024;
const RETRY_MS = 1000;

export type RecorderDeps = {
  database: Database;
  clock: Clock;
  log: Log;
  /** Called after each commit with what it holds. */
  onRecorded: (batch: readonly DeliveryOutcome[], disabledEndpoints: readonly string[]) => void;
};

/** Writes outcomes of attempts in batches; a batch that the database refuses is written again later. */
export function createOutcomeRecorder({ database, clock, log, onRecorded }: RecorderDeps) {
  const unrecorded: DeliveryOutcome[] = [];
  let timer: Timer | undefined;
  let isRefused = false;

  const record = () => {
    clearTimeout(timer);
    timer = undefined;
    const batch = unrecorded.splice(0, RECORD_AT_MOST);
    if (batch.length === 0) return;
    let disabled: string[];
    try {
      disabled = transaction(database.store, () => recordOutcomes(database, batch, clock.now()));
    } catch (error) {
      log.error({ err: error }, "webhook attempts cannot be recorded");
      isRefused = true;
      unrecorded.unshift(...batch);
      timer = setTimeout(record, RETRY_MS);
      return;
    }
    isRefused = false;
    if (unrecorded.length > 0) timer = setTimeout(record, 0);
    onRecorded(batch, disabled);
  };

  return {
    count: () => unrecorded.length,
    isFull: () => unrecorded.length >= MAX_UNRECORDED,

    add(outcome: DeliveryOutcome): void {
      unrecorded.push(outcome);
      // An endpoint that is gone is disabled before the next event would go there.
      const isUrgent = outcome.disableReason !== null || unrecorded.length >= RECORD_AT_MOST;
      if (isUrgent && !isRefused) record();
      else timer ??= setTimeout(record, RECORD_AFTER_MS);
    },

    /** Writes what is left, as far as the database takes it; what it refuses is sent again after the next start. */
    close(): void {
      let left = unrecorded.length + 1;
      while (unrecorded.length > 0 && unrecorded.length < left) {
        left = unrecorded.length;
        record();
      }
      clearTimeout(timer);
    },
  };
}
