import { type Turns, turnOf } from "../admission/turns.ts";
import { billedMsOf } from "../domain/transcription.ts";
import { STORE_PAUSE_MS } from "../store/store-pause.ts";
import { listQueueHeads, type TranscriptionRow } from "../store/transcriptions.ts";
import { isSynchronous, type RunContext } from "./context.ts";
import type { Runs } from "./runs.ts";

/** Starts queued transcriptions in fair turns, as far as the machine has use for more. */
export type Queue = {
  /** Looks at the queue soon. Many calls within one turn of the event loop lead to one look. */
  plan(): void;
  /** Starts nothing more. */
  stop(): void;
};

/** Recordings prepared in advance, so that decoding one never leaves a slot without a chunk. */
const PREPARED_IN_ADVANCE = 2;
/** Transcriptions that may start beyond that: of organizations without running work, and those that overtake. */
const MAX_EXTRA = 32;

/**
 * Returns the queued transcription to start next, or undefined when none waits or enough are running. When enough are
 * running, an organization may still start its first one, and one with less work left than each of its running ones.
 */
function nextQueued({ database, slots, weightOf }: RunContext, turns: Turns, runs: Runs): string | undefined {
  const asynchronous = runs.rows().filter((row) => !isSynchronous(row));
  const free = slots.status().workers + PREPARED_IN_ADVANCE - asynchronous.length;
  if (free <= -MAX_EXTRA) return undefined;
  const shortestRunning = new Map<string, number>();
  for (const row of asynchronous) {
    const shortest = shortestRunning.get(row.organizationId) ?? Number.POSITIVE_INFINITY;
    shortestRunning.set(row.organizationId, Math.min(shortest, billedMsOf(row)));
  }
  const overtakes = (row: TranscriptionRow) =>
    billedMsOf(row) < (shortestRunning.get(row.organizationId) ?? Number.POSITIVE_INFINITY);
  const candidates = listQueueHeads(database.store)
    // A run that has just put its transcription back into the queue has not ended yet.
    .filter((row) => !runs.has(row.id) && (free > 0 || overtakes(row)))
    .map((row) => turnOf(row, weightOf(row.organizationId)));
  return turns.next(candidates)?.transcriptionId;
}

export function createQueue(context: RunContext, turns: Turns, runs: Runs): Queue {
  let isStopped = false;
  let isPlanned = false;
  let retryTimer: Timer | undefined;

  function plan(): void {
    if (isPlanned || isStopped) return;
    isPlanned = true;
    setImmediate(() => {
      isPlanned = false;
      startNext();
    });
  }

  /** Starts one. The next one is for a later turn of the event loop: each waits for the disk, and a fleet starts hundreds. */
  function startNext(): void {
    if (isStopped) return;
    try {
      const id = nextQueued(context, turns, runs);
      if (id !== undefined && runs.begin(id)) plan();
    } catch (error) {
      context.log.error({ err: error }, "the queue could not be read, and is looked at again");
      clearTimeout(retryTimer);
      retryTimer = setTimeout(plan, STORE_PAUSE_MS);
    }
  }

  return {
    plan,
    stop() {
      isStopped = true;
      clearTimeout(retryTimer);
    },
  };
}
