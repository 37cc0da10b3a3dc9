import { createSharedTurns } from "../../admission/shared-turns.ts";
import { createShares, usualSpare } from "../../admission/shares.ts";
import type { Config } from "../../config/schema.ts";
import { untilAborted } from "../../lib/abort.ts";
import type { TranscriptionService } from "../../services/transcriptions/transcriptions.ts";
import { lastingState } from "../../store/disk-full.ts";
import {
  countOpenFetches,
  type FetchRow,
  listDueFetches,
  listUnwantedFetches,
  organizationsWithFetches,
} from "../../store/fetches.ts";
import { STORE_PAUSE_MS } from "../../store/store-pause.ts";
import { isUploadInUse, listArrived } from "../../store/transcriptions.ts";
import { type AttemptDeps, attemptFetch, endUnwanted, OWN_WAIT_MS } from "./fetch-attempt.ts";
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
  const startInTurn = createSharedTurns(places);
  const running = new Map<string, Attempt>();
  const ending = new Map<string, Promise<void>>();
  const counts = newFetchCounts();
  let timer: Timer | undefined;
  let planned: NodeJS.Immediate | undefined;
  let isRunning = false;
  /** Until then nothing begins: a full disk or the like kept an outcome from being stored, and the work would be done again at once. */
  let restUntilMs = 0;

  function look(): void {
    if (!isRunning) return;
    clearTimeout(timer);
    let pauseMs = LOOK_EVERY_MS;
    try {
      for (const { uploadId, stop } of running.values()) if (!isUploadInUse(store, uploadId)) stop.abort();
      if (performance.now() >= restUntilMs) {
        settleArrivals(deps, rest);
        endAllUnwanted();
        startDue();
      }
    } catch (error) {
      deps.log.error({ err: error }, "fetches cannot be read");
      pauseMs = STORE_PAUSE_MS;
    }
    timer = setTimeout(look, pauseMs);
  }

  function rest(error: unknown): void {
    if (lastingState(error) !== undefined) restUntilMs = performance.now() + OWN_WAIT_MS;
  }

  /** Ends fetches whose transcription has ended. They need no place, because no server is asked. */
  function endAllUnwanted(): void {
    for (const id of listUnwantedFetches(store, BATCH)) {
      // An attempt that runs was stopped, and ends its fetch.
      if (running.has(id) || ending.has(id)) continue;
      const ended = endUnwanted(deps, id)
        .catch((error: unknown) => {
          deps.log.error({ err: error, transcription_id: id }, "a fetch was not ended");
          rest(error);
        })
        .finally(() => ending.delete(id));
      ending.set(id, ended);
    }
  }

  /** Starts due fetches, one of each organization in turn, as far as there are places. */
  function startDue(): void {
    const nowMs = deps.clock.now();
    const limit = running.size + max_fetches;
    const waiting = organizationsWithFetches(store, nowMs).map((owner) => {
      const due = listDueFetches(store, owner, nowMs, limit);
      return { owner, items: due.filter(({ transcriptionId }) => !running.has(transcriptionId)) };
    });
    startInTurn(waiting, begin);
  }

  function begin({ transcriptionId, uploadId, organizationId }: FetchRow): void {
    const stop = new AbortController();
    counts.attempts += 1;
    const ended = attemptFetch({ ...deps, counts }, transcriptionId, stop.signal, () => !isRunning)
      .catch(async (error: unknown) => {
        deps.log.error({ err: error, upload_id: uploadId }, "a fetch could not be settled");
        rest(error);
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
      await Promise.all([...[...running.values()].map(({ ended }) => ended), ...ending.values()]);
    },
  };
}

/** Settles transcriptions whose recordings have arrived or never will. One that cannot be settled keeps no other waiting. */
function settleArrivals(
  { database, transcriptions, log }: FetcherDeps,
  onFailure: (error: unknown) => void,
): void {
  for (const row of listArrived(database.store, BATCH)) {
    try {
      transcriptions.settleArrival(row);
    } catch (error) {
      log.error({ err: error, transcription_id: row.id }, "a fetched recording could not be taken up");
      onFailure(error);
    }
  }
}
