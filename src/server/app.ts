import type { Config } from "../config/schema.ts";
import type { Engine } from "../engine/engine.ts";
import type { FleetStatus } from "../fleet/control/fleet-status.ts";
import { countRequests } from "../http/in-flight.ts";
import { createMetrics } from "../http/metrics.ts";
import { createHttpHandler } from "../http/server.ts";
import { IDLE_SECONDS } from "../http/unread.ts";
import type { FolderState } from "../intake/folders/folders.ts";
import type { Clock } from "../lib/clock.ts";
import { within } from "../lib/within.ts";
import type { Scheduler } from "../scheduler/scheduler.ts";
import { createAccountService } from "../services/accounts.ts";
import type { ClockTrust } from "../services/clock-trust.ts";
import { createConsoleSessionService } from "../services/console-sessions.ts";
import { closeLaterIn } from "../services/journal/closings.ts";
import { findLaterDeletions, repeatDeletions } from "../services/later-deletions.ts";
import { createSynchronousService } from "../services/transcriptions/synchronous.ts";
import type { Database } from "../store/database.ts";
import type { GateListener } from "../store/write-gate.ts";
import {
  type AppBase,
  type AppOptions,
  type AppServices,
  type AppWorkers,
  openBase,
  openServices,
  openWorkers,
} from "./app-parts.ts";
import { createBallastUpkeep } from "./ballast-upkeep.ts";
import { createDraftLog } from "./draft-log.ts";
import { createJournalUpkeep } from "./journal-upkeep.ts";
import { type ConsoleNumbers, createConsoleNumbers } from "./numbers/console-numbers.ts";
import { addFleetGauges } from "./numbers/fleet-gauges.ts";
import { addGauges, type ExpiryTimes } from "./numbers/gauges.ts";
import { createProgramNumbers, type ProgramNumbers } from "./numbers/program-numbers.ts";
import { watchOutsideChanges } from "./outside-changes.ts";
import { createScheduledBackups, type ScheduledBackups } from "./scheduled-backups.ts";

export type { AppOptions } from "./app-parts.ts";

/** The whole server, without a port of its own. */
export type App = {
  config: Config;
  clock: Clock;
  dataDir: string;
  database: Database;
  trust: ClockTrust;
  services: Omit<
    AppServices,
    "rateLimiter" | "unpaidActs" | "decoders" | "listening" | "intake" | "buckets" | "guarded"
  >;
  scheduler: Scheduler;
  engine: Engine;
  /** Answers one HTTP request; never rejects. */
  handle: ReturnType<typeof countRequests>["handle"];
  /** The idle time for the server that calls `handle`, in seconds. */
  idleSeconds: number;
  /** Is called after settings of the config have changed. */
  onConfigChange(): void;
  /** Is called when the server listens with a certificate, and when another one takes its place. */
  onCertificate(endsAtMs: number): void;
  /** Takes up work, unfinished work first. The engine becomes ready meanwhile. */
  start(): void;
  /** Returns numbers of the running program; `unready` names what keeps it from taking work. */
  status(): ReturnType<ProgramNumbers["status"]> & { folders: FolderState[]; fleet?: FleetStatus };
  /** Makes `GET /readyz` report that the server stops. Requests are still answered. */
  startDraining(): void;
  /**
   * Waits until running chunks have ended, for `server.drain_seconds` at most. Requests are answered meanwhile, and
   * refused afterwards. Further calls wait for the same end.
   */
  drain(): Promise<void>;
  /** Drains, waits up to `REQUESTS_END_WITHIN_MS` for running requests, and closes everything, the store last. */
  close(): Promise<void>;
};

/** Requests that still run after the drain have this time to end. */
export const REQUESTS_END_WITHIN_MS = 5_000;

/**
 * Wires the whole server, once; `close` undoes it in reverse order.
 *
 * @throws AppError `conflict` when another server uses the data directory; Error when the engine cannot be opened
 */
export async function openApp(options: AppOptions): Promise<App> {
  const base = await openBase(options);
  const late: { scheduler?: Scheduler } = {};
  const services = await openServices(base, options.embeddedModel, () => late.scheduler);
  const workers = openWorkers(base, services, options.onUnfit);
  const { scheduler, deliverer, addressWork, verification, sweeper, readiness, folders } = workers;
  late.scheduler = scheduler;
  const { apiKeys, credit, models, uploads, transcriptions, webhooks, receipts } = services;
  const later = { ...base, receipts };
  const laterDeletions = await findLaterDeletions(later);
  const stopWaking = transcriptions.listen({ finished: () => deliverer.wake() });
  const stopping = new AbortController();
  const ballast = createBallastUpkeep(base);
  const backups = createScheduledBackups({ ...base, make: options.makeBackup });
  const journal = createJournalUpkeep(base);
  const numbers = createProgramNumbers({
    ...base,
    ...{ scheduler, deliverer, decoders: services.decoders },
    unready: readiness.reasons,
  });
  const consoleNumbers = createConsoleNumbers({ ...base, numbers, transcriptions });
  const ends: ExpiryTimes = { certificateAtMs: undefined };
  const parts = { ...workers, backups, numbers, consoleNumbers, ends };
  const http = openHttp(base, services, parts, stopping.signal, options.baseUrl);
  const logDraft = createDraftLog(models, base.log);
  const onChange = () => {
    apiKeys.forgetCached();
    models.forgetCached();
    logDraft();
    readiness.check();
    if (base.hold.isHeld()) return;
    scheduler.onOutsideChange();
    uploads.onOutsideChange();
    deliverer.wake();
    folders.onOutsideChange();
  };
  const watch = watchOutsideChanges(base.database, base.log, onChange);

  const drain = once(async () => {
    readiness.startDraining();
    base.hold.stop();
    await folders.stop();
    await scheduler.stop();
    watch.stop();
    stopping.abort(new Error("the program is stopping"));
  });

  return {
    config: base.config,
    clock: base.clock,
    dataDir: base.dataDir,
    database: base.database,
    trust: base.trust,
    services: { apiKeys, credit, models, uploads, transcriptions, webhooks, receipts },
    scheduler,
    engine: base.engine,
    handle: http.handle,
    idleSeconds: IDLE_SECONDS,
    onConfigChange: onChange,
    onCertificate(endsAtMs) {
      ends.certificateAtMs = endsAtMs;
    },
    start() {
      base.hold.whenOver(() => {
        if (stopping.signal.aborted) return;
        // A restored database does not know what was deleted after its backup. No request is answered before this.
        repeatDeletions(later, laterDeletions);
        if (laterDeletions.length > 0)
          base.log.info({ count: laterDeletions.length }, "deletions from after the backup were repeated");
        const closed = closeLaterIn(base);
        if (closed > 0) base.log.warn({ count: closed }, "what was closed after the backup is closed again");
        apiKeys.forgetCached();
        // What comes before this must be written now, and may wait for another program.
        base.database.gate.serve(lockListener(base.log));
        base.trust.start();
        scheduler.start();
        deliverer.start();
        verification.start();
        addressWork.start();
        sweeper.start();
        folders.start();
        backups.start();
        journal.start();
      });
      ballast.start();
      logDraft();
      readiness.start();
      base.hold.start(readiness.hasModel);
    },
    status: () => ({
      ...numbers.status(),
      folders: folders.status(),
      ...(base.fleet ? { fleet: base.fleet.status() } : {}),
    }),
    startDraining: readiness.startDraining,
    drain,
    async close() {
      await drain();
      await within(REQUESTS_END_WITHIN_MS, http.answered());
      await backups.stop();
      await journal.stop();
      await ballast.stop();
      await sweeper.stop();
      base.trust.stop();
      await addressWork.stop();
      await verification.stop();
      stopWaking();
      await deliverer.stop();
      await uploads.close();
      readiness.stop();
      consoleNumbers.stop();
      await base.engine.close();
      apiKeys.close();
      base.database.close();
      base.lock.release();
    },
  };
}

/** Reports that another program keeps the database from being written, once, and its end. */
function lockListener(log: AppBase["log"]): GateListener {
  return {
    onLocked: () =>
      log.error("another program has locked the database: requests that write get 503, accepted work waits"),
    onFree: (lockedMs) => log.info({ seconds: lockedMs / 1000 }, "the database is not locked any more"),
  };
}

type HttpFacts = {
  backups: ScheduledBackups;
  numbers: ProgramNumbers;
  consoleNumbers: ConsoleNumbers;
  ends: ExpiryTimes;
};

/** @param stopping aborts after the drain: from then on requests are refused */
function openHttp(
  base: AppBase,
  services: AppServices,
  {
    scheduler,
    deliverer,
    readiness,
    folders,
    addressWork,
    backups,
    numbers,
    consoleNumbers,
    ends,
  }: AppWorkers & HttpFacts,
  stopping: AbortSignal,
  baseUrl: () => string,
): ReturnType<typeof countRequests> {
  const { config, clock, log, database, dataDir, engine } = base;
  const { decoders, transcriptions, buckets: _buckets, guarded: _guarded, ...others } = services;
  const metrics = createMetrics();
  addGauges(metrics, {
    ...{ numbers, database, backups, config, ends, clock },
    uploads: others.uploads,
    folders,
    addressWork,
  });
  if (base.fleet) addFleetGauges(metrics, base.fleet.status);
  return countRequests(
    createHttpHandler({
      ...{ config, clock, log, database, dataDir, transcriptions, ...others },
      admin: {
        accounts: createAccountService({ database, clock, onChange: others.apiKeys.forgetCached }),
        sessions: createConsoleSessionService({ database, clock: base.trust.access }),
        overview: consoleNumbers.overview,
        series: consoleNumbers.series,
      },
      onWebhooksChanged: deliverer.wake,
      synchronous: createSynchronousService({
        ...{ config, log, database, transcriptions, uploads: others.uploads, stopping },
        work: {
          reservePlace: scheduler.reserveSynchronousPlace,
          waitForPlace: scheduler.waitForSynchronousPlace,
          watchText: scheduler.watchText,
          waitFor: scheduler.waitFor,
        },
        verifyAudio: (file, { organizationId, maxDurationMs, isLarge }, signal) =>
          decoders.run({ organizationId, purpose: "synchronous", isLarge }, signal, () =>
            engine.verify({ ...file, maxDurationMs }, signal),
          ),
      }),
      stopping,
      metrics: {
        ...metrics,
        observeRequest(request) {
          metrics.observeRequest(request);
          consoleNumbers.observeRequest(request.status);
        },
      },
      baseUrl: () => config.server.base_url || baseUrl(),
      isHeld: base.hold.isHeld,
      unreadyReasons: readiness.reasons,
    }),
  );
}

/** Returns a function that starts the work at its first call, and always returns that one outcome. */
function once<T>(work: () => Promise<T>): () => Promise<T> {
  let done: Promise<T> | undefined;
  return () => {
    done ??= work();
    return done;
  };
}
