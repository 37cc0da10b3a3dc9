import { freemem, totalmem } from "node:os";
import { version } from "../../../package.json" with { type: "json" };
import type { Config } from "../../config/schema.ts";
import { modelStatesJson } from "../../engine/model-states.ts";
import type { Overview, Series } from "../../http/wire/console.ts";
import type { Clock } from "../../lib/clock.ts";
import { totalBytesOf } from "../../lib/disk-space.ts";
import { toSeconds, toTimestamp } from "../../lib/time.ts";
import type { TranscriptionService } from "../../services/transcriptions/transcriptions.ts";
import type { Database } from "../../store/database.ts";
import { countUnfinishedByOrganization } from "../../store/transcriptions.ts";
import { createSeries, type SeriesSample } from "./console-series.ts";
import type { ProgramNumbers } from "./program-numbers.ts";

export type NumbersDeps = {
  config: Config;
  clock: Clock;
  dataDir: string;
  database: Database;
  numbers: ProgramNumbers;
  transcriptions: TranscriptionService;
};

/** What the console shows an admin about the running program. */
export type ConsoleNumbers = {
  overview(): Overview;
  series(span: Series["span"]): Series;
  /** Counts an answered request. */
  observeRequest(status: number): void;
  /** Ends the samples. */
  stop(): void;
};

/** Organizations of the queue that are listed. */
const LISTED = 100;
const SAMPLE_MS = 10_000;

export function createConsoleNumbers(deps: NumbersDeps): ConsoleNumbers {
  const { clock, numbers, transcriptions } = deps;
  const startedAt = clock.now();
  const series = createSeries(startedAt);
  const counted = { finished: 0, failed: 0, requests: 0, serverErrors: 0 };
  const stopListening = transcriptions.listen({
    finished({ state }) {
      counted.finished += 1;
      if (state === "failed") counted.failed += 1;
    },
  });

  /** Takes the counts since the last sample, and what can be read now. */
  function sample(): void {
    const { unfinished, places, placesBusy, realTimeFactor } = numbers.queue();
    const read: SeriesSample = {
      ...counted,
      queued: unfinished.queued,
      busy: places === 0 ? 0 : Math.min(1, placesBusy / places),
      realTimeFactor: placesBusy === 0 ? null : realTimeFactor,
      memoryBytes: process.memoryUsage.rss(),
      diskFreeBytes: numbers.disk().freeBytes,
    };
    Object.assign(counted, { finished: 0, failed: 0, requests: 0, serverErrors: 0 });
    series.add(clock.now(), read);
  }
  const timer = setInterval(() => {
    // A failure would end the program: no caller could catch it.
    try {
      sample();
    } catch {
      // The next sample has what this one lacks.
    }
  }, SAMPLE_MS);
  timer.unref();

  return {
    overview: () => overviewOf(deps, startedAt),
    series: (span) => series.read(span),
    observeRequest(status) {
      counted.requests += 1;
      if (status >= 500) counted.serverErrors += 1;
    },
    stop() {
      clearInterval(timer);
      stopListening();
    },
  };
}

function overviewOf(deps: NumbersDeps, startedAt: number): Overview {
  const { clock, numbers, config } = deps;
  const reasons = numbers.unready();
  const queue = numbers.queue();
  const { models, restarts } = numbers.engine();
  const places = numbers.decoders();
  const verdict = numbers.clock();
  const webhooks = numbers.webhooks();
  const { freeBytes, databaseBytes } = numbers.disk();
  return {
    object: "console.overview",
    version,
    started_at: toTimestamp(startedAt),
    now: toTimestamp(clock.now()),
    ready: reasons.length === 0,
    reasons,
    queue: {
      organizations: queueOf(deps),
      queued: queue.unfinished.queued,
      running: queue.running,
      empty_in_seconds: queue.emptyInSeconds,
    },
    workers: { places: queue.places, busy: queue.placesBusy, chunks_waiting: queue.chunksWaiting },
    real_time_factor: queue.realTimeFactor,
    clock: { trusted: !verdict.isDoubtful, expected: toTimestamp(verdict.knownMs) },
    models: modelStatesJson(models),
    restarts,
    decoders: { places: places.places, busy: places.running, waiting: places.waiting },
    disk: {
      free_bytes: freeBytes,
      total_bytes: totalBytesOf(deps.dataDir),
      reserve_bytes: config.storage.reserve_bytes,
      database_bytes: databaseBytes,
    },
    memory: {
      server_bytes: process.memoryUsage.rss(),
      total_bytes: totalmem(),
      available_bytes: freemem(),
    },
    webhooks: {
      pending: webhooks.pending,
      paused: webhooks.paused,
      failed_since_start: webhooks.deliveriesFailed,
      oldest_undelivered_seconds: webhooks.oldestUndeliveredSeconds,
    },
  };
}

function queueOf({ database }: NumbersDeps): Overview["queue"]["organizations"] {
  const found = new Map<string, Overview["queue"]["organizations"][number]>();
  for (const row of countUnfinishedByOrganization(database.store)) {
    const { organizationId, name } = row;
    const entry = found.get(organizationId) ?? {
      ...{ organization_id: organizationId, name, queued: 0, preparing: 0, transcribing: 0, finalizing: 0 },
      remaining_seconds: 0,
    };
    entry[row.state] = row.count;
    entry.remaining_seconds += toSeconds(row.remainingMs);
    found.set(organizationId, entry);
  }
  return [...found.values()].sort((a, b) => b.remaining_seconds - a.remaining_seconds).slice(0, LISTED);
}
