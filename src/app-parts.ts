import { mkdirSync, statfsSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "./config/schema.ts";
import { AppError } from "./domain/errors.ts";
import type { InstalledModel } from "./domain/model.ts";
import { checkCtcFiles } from "./engine/ctc/ctc-files.ts";
import type { Engine } from "./engine/engine.ts";
import { openEngine } from "./engine/open-engine.ts";
import { checkModelFile } from "./engine/whisper/whisper-model-file.ts";
import { type Clock, systemClock } from "./lib/clock.ts";
import type { Log } from "./lib/log.ts";
import { familyOf } from "./pipeline/families/families.ts";
import { createReadiness, type Readiness } from "./readiness.ts";
import { createDeliverer, type Deliverer } from "./scheduler/deliver.ts";
import { createScheduler, type Scheduler } from "./scheduler/scheduler.ts";
import { createSweeper, type Sweeper } from "./scheduler/sweep.ts";
import { createVerification, type Verification } from "./scheduler/verify.ts";
import { dataDirOf } from "./services/admin.ts";
import { type ApiKeyService, createApiKeyService } from "./services/api-keys.ts";
import { type CreditService, createCreditService } from "./services/credit.ts";
import { createModelService, type ModelService } from "./services/models/models.ts";
import { createRateLimiter, type RateLimiter } from "./services/rate-limit.ts";
import {
  createTranscriptionService,
  type TranscriptionService,
} from "./services/transcriptions/transcriptions.ts";
import { createDecoderLanes, type DecoderLanes } from "./services/uploads/decoder-lanes.ts";
import { createUploadService, type UploadService } from "./services/uploads/uploads.ts";
import { createWebhookService, type WebhookService } from "./services/webhooks/webhooks.ts";
import { type Database, databasePath, openDatabase } from "./store/database.ts";
import { type ProcessLock, takeProcessLock } from "./store/process-lock.ts";

export type AppOptions = {
  config: Config;
  log: Log;
  clock?: Clock;
  /** Takes the place of the native engine in tests. */
  engine?: Engine;
  /** Takes the place of the carried model in tests. */
  embeddedModel?: InstalledModel;
  /** Returns the address for clients when the config names none. It is called late: a free port is known late. */
  baseUrl: () => string;
};

/** What everything else is built on. */
export type AppBase = {
  config: Config;
  log: Log;
  clock: Clock;
  dataDir: string;
  lock: ProcessLock;
  database: Database;
  engine: Engine;
  /** Returns the free bytes of the file system with the data directory. */
  freeBytes: () => number;
};

export type AppServices = {
  apiKeys: ApiKeyService;
  credit: CreditService;
  rateLimiter: RateLimiter;
  models: ModelService;
  webhooks: WebhookService;
  decoders: DecoderLanes;
  uploads: UploadService;
  transcriptions: TranscriptionService;
};

/** What works by itself, without a request. */
export type AppWorkers = {
  scheduler: Scheduler;
  deliverer: Deliverer;
  verification: Verification;
  sweeper: Sweeper;
  readiness: Readiness;
};

const DAY_MS = 86_400_000;
/** With less free space the database cannot grow, whatever reserve the config asks for. */
const LEAST_FREE_BYTES = 1024 * 1024;

/** @throws AppError `conflict` when another server uses the data directory; Error when the engine cannot be opened */
export async function openBase({ config, log, clock, engine }: AppOptions): Promise<AppBase> {
  const dataDir = dataDirOf(config);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const lock = requireLock(dataDir);
  return {
    config,
    log,
    clock: clock ?? systemClock,
    dataDir,
    lock,
    database: openDatabase(databasePath(dataDir)),
    engine: engine ?? (await openEngine(config, dataDir, log)).engine,
    freeBytes: () => freeBytesOf(dataDir),
  };
}

/**
 * Opens the services. They use the scheduler, which is created later.
 *
 * @param scheduler returns the scheduler once it exists
 */
export async function openServices(
  base: AppBase,
  embeddedModel: InstalledModel | undefined,
  scheduler: () => Scheduler | undefined,
): Promise<AppServices> {
  const { config, clock, log, dataDir, database, engine } = base;
  const credit = createCreditService({ database, clock, config });
  const models = await createModelService({
    ...{ database, config, dataDir, log, clock, checkModelFile, checkCtcFiles },
    ...(embeddedModel === undefined ? {} : { embeddedModel }),
  });
  const decoders = createDecoderLanes();
  const uploads = createUploadService({
    ...{ database, clock, config, log, dataDir, decoders },
    // Longer recordings than the limit are verified, too. Their transcription is then refused with `audio_too_long`.
    verifyAudio: (path, signal) =>
      engine.verify(path, signal, Math.max(DAY_MS, 2 * config.limits.max_duration_seconds * 1000)),
    freeBytes: async () => base.freeBytes(),
  });
  const transcriptions = createTranscriptionService({
    ...{ database, clock, config, log, models, uploads, credit },
    estimateNextStartSeconds: (organizationId) => scheduler()?.estimateNextStartSeconds(organizationId) ?? 1,
    removeWorkingFiles: (id) => scheduler()?.removeWorkingFiles(id),
  });
  return {
    apiKeys: createApiKeyService({ database, clock }),
    credit,
    rateLimiter: createRateLimiter({ clock, config }),
    models,
    webhooks: createWebhookService({ database, clock, config }),
    decoders,
    uploads,
    transcriptions,
  };
}

export function openWorkers(base: AppBase, services: AppServices): AppWorkers {
  const { config, clock, log, database, engine } = base;
  const { models, uploads, transcriptions, webhooks } = services;
  const scheduler = openScheduler(base, services);
  return {
    scheduler,
    deliverer: createDeliverer({ database, clock, config, log }),
    verification: createVerification({ uploads, log }),
    sweeper: createSweeper({ database, clock, config, log, uploads, transcriptions, webhooks }),
    readiness: createReadiness({
      engine,
      defaultModel: () => models.resolve(),
      log,
      isDiskFull: () => base.freeBytes() < Math.max(LEAST_FREE_BYTES, config.storage.reserve_bytes),
      onDefault(model) {
        const capacity = engine.capacity(model);
        scheduler.resize(capacity);
        log.info({ model: model.id, workers: capacity.chunks }, "the default model");
      },
    }),
  };
}

function openScheduler(base: AppBase, { models, uploads, decoders, transcriptions }: AppServices): Scheduler {
  const { config, clock, log, dataDir, database, engine } = base;
  return createScheduler({
    ...{ database, clock, config, log, engine, decoders, transcriptions, familyOf, dataDir },
    findModel: (id) => models.find(id),
    speakerWeights: models.speakerWeights,
    audioPath: uploads.audioPath,
    windowMs: () => familyOf(models.findDefault()?.family ?? "whisper").windowMs,
    capacity: engine.capacity(models.findDefault() ?? models.list()[0] ?? { bytes: 0 }),
  });
}

function freeBytesOf(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}

function requireLock(dataDir: string): ProcessLock {
  const lock = takeProcessLock(join(dataDir, "serve.lock"));
  if (lock) return lock;
  throw new AppError("conflict", { message: `Another server is using the data directory ${dataDir}.` });
}
