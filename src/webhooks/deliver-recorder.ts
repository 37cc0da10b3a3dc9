import { SERVER } from "../lib/actor.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { recordAct } from "../store/audit-log.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import { STORE_PAUSE_MS } from "../store/store-pause.ts";
import { type DeliveryOutcome, recordOutcomes } from "./delivery-rows.ts";
import { findEndpoint } from "./event-rows.ts";

/** Outcomes are recorded together: one fsync for a batch instead of one for each. */
const RECORD_AFTER_MS = 20;
const RECORD_AT_MOST = 256;
/** With this many unrecorded outcomes the database cannot be written, and nothing more should be sent. */
const MAX_UNRECORDED = 1024;

export type RecorderDeps = {
  database: Database;
  clock: Clock;
  log: Log;
  /** Called after each commit with the recorded outcomes and the endpoints that they disabled. */
  onRecorded: (batch: readonly DeliveryOutcome[], disabledEndpoints: readonly string[]) => void;
};

/** Writes outcomes of attempts in batches. A batch that the database refuses is written again later. */
export type OutcomeRecorder = {
  /** Returns the number of outcomes that are not recorded yet. */
  count(): number;
  /** Reports whether the limit of waiting outcomes is reached, so that nothing more should be sent. */
  isFull(): boolean;
  /** Records an outcome soon. One that disables its endpoint is recorded at once. */
  add(outcome: DeliveryOutcome): void;
  /**
   * Records all waiting outcomes that the database accepts. The attempts of the others are made again after the next
   * start.
   */
  close(): void;
};

/** The receiver's answer has disabled the endpoint, whatever has started the attempt. */
function recordDisabled(tx: Store, id: string, nowMs: number): void {
  const endpoint = findEndpoint(tx, id);
  if (!endpoint) return;
  const { organizationId, disabledReason } = endpoint;
  const after = { disabled_reason: disabledReason };
  recordAct(tx, { action: "webhook.disable", object: id, organizationId, after }, nowMs, SERVER);
}

export function createOutcomeRecorder({ database, clock, log, onRecorded }: RecorderDeps): OutcomeRecorder {
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
      disabled = transaction(database.store, (tx) => {
        const endpoints = recordOutcomes(database, batch, clock.now());
        for (const id of endpoints) recordDisabled(tx, id, clock.now());
        return endpoints;
      });
    } catch (error) {
      log.error({ err: error }, "webhook attempts cannot be recorded");
      isRefused = true;
      unrecorded.unshift(...batch);
      timer = setTimeout(record, STORE_PAUSE_MS);
      return;
    }
    isRefused = false;
    if (unrecorded.length > 0) timer = setTimeout(record, 0);
    onRecorded(batch, disabled);
  };

  return {
    count: () => unrecorded.length,
    isFull: () => unrecorded.length >= MAX_UNRECORDED,

    add(outcome) {
      unrecorded.push(outcome);
      // An endpoint that is gone must be disabled before the next event is sent there.
      const isUrgent = outcome.disableReason !== null || unrecorded.length >= RECORD_AT_MOST;
      if (isUrgent && !isRefused) record();
      else timer ??= setTimeout(record, RECORD_AFTER_MS);
    },

    close() {
      let left = unrecorded.length + 1;
      while (unrecorded.length > 0 && unrecorded.length < left) {
        left = unrecorded.length;
        record();
      }
      clearTimeout(timer);
    },
  };
}
