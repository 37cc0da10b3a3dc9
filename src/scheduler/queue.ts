import { STORE_PAUSE_MS } from "../recognition/retry-policy.ts";
import { listQueueHeads } from "../store/transcriptions.ts";
import { isSynchronous, type RunContext } from "./context.ts";
import type { Runs } from "./runs.ts";
import type { Turns } from "./turns.ts";

/** Starts queued transcriptions in fair turns, as far as the machine has use for more. */
export type Queue = {
  /** Looks at the queue soon. Many calls within one turn of the event loop lead to one look. */
  plan(): void;
  /** Starts nothing more. */
  stop(): void;
};

/** Recordings prepared in advance, so that decoding one never leaves a slot without a chunk. */
const PREPARED_IN_ADVANCE = 2;
/** Organizations without any running work start one transcription each beyond that, up to this number. */
const MAX_EXTRA_ORGANIZATIONS = 32;

/**
 * Returns the queued transcription to start next, or undefined when none waits or enough are running.
 */
function nextQueued({ database, slots, weightOf }: RunContext, turns: Turns, runs: Runs): string | undefined {
  const asynchronous = runs.rows().filter((row) => !isSynchronous(row));
  const busy = new Set(asynchronous.map(({ organizationId }) => organizationId));
  const free = slots.status().workers + PREPARED_IN_ADVANCE - asynchronous.length;
  if (free <= -MAX_EXTRA_ORGANIZATIONS) return undefined;
  const heads = listQueueHeads(database.store).filter(
    // A run that has just put its transcription back into the queue has not ended yet.
    ({ organizationId, id }) => (free > 0 || !busy.has(organizationId)) && !runs.has(id),
  );
  const candidates = heads.map(({ organizationId }) => ({
    organizationId,
    weight: weightOf(organizationId),
  }));
  const organizationId = turns.next(candidates);
  return heads.find((head) => head.organizationId === organizationId)?.id;
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
      pump();
    });
  }

  function pump(): void {
    try {
      while (!isStopped) {
        const id = nextQueued(context, turns, runs);
        if (id === undefined || !runs.begin(id)) return;
      }
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
