import { mkdirSync, statfsSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "./config/schema.ts";
import { AppError } from "./domain/errors.ts";
import type { InstalledModel } from "./domain/model.ts";
import type { Engine } from "./engine/engine.ts";
import { openEngine } from "./engine/open-engine.ts";
import { checkModelFile } from "./engine/whisper.ts";
import { addGauges } from "./gauges.ts";
import { countRequests } from "./http/in-flight.ts";
import { createMetrics } from "./http/metrics.ts";
import { createHttpHandler } from "./http/server.ts";
import { IDLE_SECONDS } from "./http/unread.ts";
import { type Clock, systemClock } from "./lib/clock.ts";
import type { Log } from "./lib/log.ts";
import { within } from "./lib/within.ts";
import { watchOutsideChanges } from "./outside-changes.ts";
import { familyOf } from "./pipeline/families/families.ts";
import { createReadiness } from "./readiness.ts";
import { createDeliverer } from "./scheduler/deliver.ts";
import { createScheduler, type Scheduler } from "./scheduler/scheduler.ts";
import { createSweeper } from "./scheduler/sweep.ts";
import { createVerification } from "./scheduler/verify.ts";
import { dataDirOf } from "./services/admin.ts";
import { createApiKeyService } from "./services/api-keys.ts";
import { createCreditService } from "./services/credit.ts";
import { createDecoderLanes } from "./services/decoder-lanes.ts";
import { createModelService } from "./services/models.ts";
import { createRateLimiter } from "./services/rate-limit.ts";
import { createTranscriptionService } from "./services/transcriptions.ts";
import { createUploadService } from "./services/uploads.ts";
import { createWebhookService } from "./services/webhooks.ts";
import { databasePath, openDatabase } from "./store/database.ts";
import { type ProcessLock, takeProcessLock } from "./store/process-lock.ts";

export type AppOptions = {
  config: Config;
  log: Log;
  clock?: Clock;
  /** Takes the place of the native engine in tests. */
  engine?: Engine;
  /** Takes the place of the carried model in tests. */
  embeddedModel?: InstalledModel;
  /** Address clients use when the config names none; asked for when needed, because a free port is known late. */
  baseUrl: () => string;
};

export type App = Awaited<ReturnType<typeof openApp>>;

const DAY_MS = 86_400_000;
/** With less the database itself can hardly grow, whatever reserve the config asks for. */
const LEAST_FREE_BYTES = 1024 * 1024;
/** Requests that a stop finds at work have so long after the drain. */
export const REQUESTS_END_WITHIN_MS = 5_000;

/**
 * Wires the whole program, once; `close` undoes it in reverse.
 *
 * @throws AppError `conflict` when another server works on the data directory
 */
export async function openApp(options: AppOptions) {
  const { config, log, baseUrl } = options;
  const clock = options.clock ?? systemClock;
  const dataDir = dataDirOf(config);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const lock = requireLock(dataDir);
  const database = openDatabase(databasePath(dataDir));
  const engine = options.engine ?? (await openEngine(config, dataDir, log)).engine;

  const apiKeys = createApiKeyService({ database, clock });
  const credit = createCreditService({ database, clock, config });
  const rateLimiter = createRateLimiter({ clock, config });
  const models = await createModelService({
    ...{ database, config, dataDir, log, clock, checkModelFile },
    ...(options.embeddedModel === undefined ? {} : { embeddedModel: options.embeddedModel }),
  });
  const webhooks = createWebhookService({ database, clock, config });
  const decoders = createDecoderLanes();
  const uploads = createUploadService({
    database,
    clock,
    config,
    log,
    dataDir,
    // Beyond the limit as well: it is the transcription that is then refused, with `audio_too_long`.
    verifyAudio: (path, signal) =>
      engine.verify(path, signal, Math.max(DAY_MS, 2 * config.limits.max_duration_seconds * 1000)),
    decoders,
    freeBytes: async () => freeBytesOf(dataDir),
  });
  // Acceptance and scheduler need each other: the one wakes the other, which tells how long the queue is.
  const late: { scheduler?: Scheduler } = {};
  const transcriptions = createTranscriptionService({
    database,
    clock,
    config,
    log,
    models,
    uploads,
    credit,
    estimateQueueRoomSeconds: (organizationId) =>
      late.scheduler?.estimateQueueRoomSeconds(organizationId) ?? 1,
    removeWorkingFiles: (id) => late.scheduler?.removeWorkingFiles(id),
  });
  const scheduler = createScheduler({
    database,
    clock,
    config,
    log,
    engine,
    decoders,
    transcriptions,
    findModel: (id) => models.find(id),
    familyOf,
    speakerWeights: models.speakerWeights,
    audioPath: uploads.audioPath,
    dataDir,
    windowMs: () => familyOf(models.findDefault()?.family ?? "whisper").windowMs,
    capacity: engine.capacity(models.findDefault() ?? models.list()[0] ?? { bytes: 0 }),
  });
  late.scheduler = scheduler;
  const deliverer = createDeliverer({ database, clock, config, log });
  const stopWaking = transcriptions.listen({ finished: () => deliverer.wake() });
  const readiness = createReadiness({
    engine,
    defaultModel: () => models.resolve(),
    log,
    isDiskFull: () => freeBytesOf(dataDir) < Math.max(LEAST_FREE_BYTES, config.storage.reserve_bytes),
    onDefault(model) {
      const capacity = engine.capacity(model);
      scheduler.resize(capacity);
      log.info({ model: model.id, workers: capacity.chunks }, "the default model");
    },
  });
  const metrics = createMetrics();
  addGauges(metrics, {
    ...{ scheduler, deliverer, engine, decoders, database, transcriptions },
    freeBytes: () => freeBytesOf(dataDir),
  });
  const verification = createVerification({ uploads, log });
  const sweeper = createSweeper({ database, clock, config, log, uploads, transcriptions, webhooks });

  const stopping = new AbortController();
  const http = countRequests(
    createHttpHandler({
      config,
      clock,
      log,
      database,
      dataDir,
      apiKeys,
      rateLimiter,
      models,
      uploads,
      transcriptions,
      credit,
      webhooks,
      synchronous: { reservePlace: scheduler.reserveSynchronousPlace, waitFor: scheduler.waitFor },
      verifyAudio: (path, { organizationId, maxDurationMs }, signal) =>
        decoders.run({ organizationId, purpose: "synchronous", isLarge: false }, signal, () =>
          engine.verify(path, signal, maxDurationMs),
        ),
      stopping: stopping.signal,
      metrics,
      baseUrl: () => config.server.base_url || baseUrl(),
      unreadyReasons: readiness.reasons,
    }),
  );

  const watch = watchOutsideChanges(database, log, () => {
    apiKeys.forgetCached();
    models.forgetCached();
    readiness.check();
    scheduler.onOutsideChange();
    deliverer.wake();
  });

  const drain = once(async () => {
    readiness.startDraining();
    await scheduler.stop();
    watch.stop();
    stopping.abort(new Error("the program is stopping"));
  });

  return {
    config,
    clock,
    dataDir,
    database,
    services: { apiKeys, credit, models, uploads, transcriptions, webhooks },
    scheduler,
    engine,
    handle: http.handle,
    /** What the server that calls `handle` is to take as its idle time. */
    idleSeconds: IDLE_SECONDS,

    /** Takes up work: what was left unfinished first. The engine gets ready meanwhile. */
    start(): void {
      scheduler.start();
      deliverer.start();
      verification.start();
      sweeper.start();
      readiness.start();
    },

    status: () => ({ ...scheduler.status(), engine: engine.status(), unready: readiness.reasons() }),

    /** Says "not ready" to whoever asks; requests are still answered. */
    startDraining: readiness.startDraining,

    /** Lets running chunks finish, within their time. Requests are answered meanwhile, and from then on sent away. */
    drain,

    /** Drains, then closes everything in reverse, the store when no request uses it any more. */
    async close(): Promise<void> {
      await drain();
      await within(REQUESTS_END_WITHIN_MS, http.answered());
      await sweeper.stop();
      await verification.stop();
      stopWaking();
      await deliverer.stop();
      await uploads.close();
      readiness.stop();
      await engine.close();
      apiKeys.close();
      database.close();
      lock.release();
    },
  };
}

/** Work that is done once, however often it is asked for. */
function once<T>(work: () => Promise<T>): () => Promise<T> {
  let done: Promise<T> | undefined;
  return () => {
    done ??= work();
    return done;
  };
}

function freeBytesOf(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}

function requireLock(dataDir: string): ProcessLock {
  const lock = takeProcessLock(join(dataDir, "serve.lock"));
  if (!lock)
    throw new AppError("conflict", { message: `Another server is using the data directory ${dataDir}.` });
  return lock;
}
