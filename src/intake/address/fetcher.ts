import { createShares, usualSpare } from "../../admission/shares.ts";
import type { Config } from "../../config/schema.ts";
import { untilAborted } from "../../lib/abort.ts";
import type { TranscriptionService } from "../../services/transcriptions/transcriptions.ts";
import {
  countOpenFetches,
  type FetchRow,
  listDueFetches,
  organizationsWithFetches,
} from "../../store/fetches.ts";
import { STORE_PAUSE_MS } from "../../store/store-pause.ts";
import { isUploadInUse, listArrived } from "../../store/transcriptions.ts";
import { type AttemptDeps, attemptFetch } from "./fetch-attempt.ts";
import { type FetchNumbers, newFetchCounts } from "./fetch-numbers.ts";

/** How often the fetcher looks for fetches that are due, uploads that are verified, and work that was cancelled. */
const LOOK_EVERY_MS = 500;
const BATCH = 200;

export type FetcherDeps = Omit<AttemptDeps, "counts"> & {
  config: Config;
  transcriptions: Pick<TranscriptionService, "settleArrival">;
};

/**
 * Fetches recordings from addresses. The database is the list of what is to be fetched, so that a stop or a kill at any
 * instant loses nothing: the file continues after its last byte where it can.
 */
export type Fetcher = {
  start(): void;
  /** Looks at once: a transcription was accepted or cancelled. */
  wake(): void;
  /** Returns what was counted since the start, and what is to be fetched. */
  numbers(): FetchNumbers;
  /** Ends the attempts, which continue after the next start. */
  stop(): Promise<void>;
};

type Attempt = { uploadId: string; stop: AbortController; ended: Promise<void> };

export function createFetcher(deps: FetcherDeps): Fetcher {
  const { store } = deps.database;
  const { max_fetches } = deps.config.intake;
  const places = createShares(max_fetches, usualSpare(max_fetches));
  const running = new Map<string, Attempt>();
  const counts = newFetchCounts();
  let timer: Timer | undefined;
  let planned: NodeJS.Immediate | undefined;
  let isRunning = false;

  function look(): void {
    if (!isRunning) return;
    clearTimeout(timer);
    let pauseMs = LOOK_EVERY_MS;
    try {
      settleArrivals(deps);
      for (const { uploadId, stop } of running.values()) if (!isUploadInUse(store, uploadId)) stop.abort();
      startDue();
    } catch (error) {
      deps.log.error({ err: error }, "fetches cannot be read");
      pauseMs = STORE_PAUSE_MS;
    }
    timer = setTimeout(look, pauseMs);
  }

  /** Starts due fetches, one of each organization in turn, as far as there are places. */
  function startDue(): void {
    const nowMs = deps.clock.now();
    const limit = running.size + max_fetches;
    let waiting = organizationsWithFetches(store, nowMs).map((organizationId) => {
      const due = listDueFetches(store, organizationId, nowMs, limit);
      return { organizationId, due: due.filter(({ transcriptionId }) => !running.has(transcriptionId)) };
    });
    while (waiting.length > 0) {
      waiting = waiting.filter(({ organizationId, due }) => {
        const next = due.shift();
        if (!next || !places.take(organizationId)) return false;
        begin(next);
        return true;
      });
    }
  }

  function begin({ transcriptionId, uploadId, organizationId }: FetchRow): void {
    const stop = new AbortController();
    counts.attempts += 1;
    const ended = attemptFetch({ ...deps, counts }, transcriptionId, stop.signal, () => !isRunning)
      .catch(async (error: unknown) => {
        deps.log.error({ err: error, upload_id: uploadId }, "a fetch could not be settled");
        // It is due still. Without a pause it would ask the server there again and again.
        await untilAborted(Bun.sleep(STORE_PAUSE_MS), stop.signal).catch(() => undefined);
      })
      .finally(() => {
        running.delete(transcriptionId);
        places.giveBack(organizationId);
        wake();
      });
    running.set(transcriptionId, { uploadId, stop, ended });
  }

  function wake(): void {
    if (!isRunning || planned) return;
    planned = setImmediate(() => {
      planned = undefined;
      look();
    });
  }

  return {
    wake,
    numbers: () => ({
      ...counts,
      running: running.size,
      waiting: Math.max(0, countOpenFetches(store) - running.size),
    }),
    start() {
      isRunning = true;
      look();
    },
    async stop() {
      isRunning = false;
      clearTimeout(timer);
      clearImmediate(planned);
      for (const { stop } of running.values()) stop.abort();
      await Promise.all([...running.values()].map(({ ended }) => ended));
    },
  };
}

/** Settles transcriptions whose recordings have arrived or never will. One that cannot be settled keeps no other waiting. */
function settleArrivals({ database, transcriptions, log }: FetcherDeps): void {
  for (const row of listArrived(database.store, BATCH)) {
    try {
      transcriptions.settleArrival(row);
    } catch (error) {
      log.error({ err: error, transcription_id: row.id }, "a fetched recording could not be taken up");
    }
  }
}
