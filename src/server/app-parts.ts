import { existsSync, mkdirSync } from "node:fs";
import { createDecoderPlaces, type DecoderPlaces } from "../admission/decoder-places.ts";
import type { Config } from "../config/schema.ts";
import type { InstalledModel } from "../domain/model.ts";
import type { Engine } from "../engine/engine.ts";
import { measureMachine } from "../engine/machine.ts";
import { openEngine } from "../engine/open-engine.ts";
import { chooseSpeechWorkers } from "../engine/sizing.ts";
import { FAMILIES } from "../families/families.ts";
import type { Fleet, OpenFleetOptions } from "../fleet/control/open-fleet.ts";
import { type AddressWork, createAddressWork } from "../intake/address/address-work.ts";
import type { Buckets } from "../intake/address/buckets.ts";
import { type AddressIntake, openAddressIntake } from "../intake/address/intake.ts";
import { createFolderService, type FolderService } from "../intake/folders/folders.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { freeBytesOf, totalBytesOf } from "../lib/disk-space.ts";
import type { Log } from "../lib/log.ts";
import { DAY_MS } from "../lib/time.ts";
import type { GuardedFetch } from "../outbound/guarded-fetch.ts";
import { createScheduler, type Scheduler } from "../scheduler/scheduler.ts";
import { createSweeper, type Sweeper } from "../scheduler/sweep.ts";
import { createVerification, type Verification } from "../scheduler/verify.ts";
import { type ApiKeyService, createApiKeyService } from "../services/api-keys.ts";
import { type ClockTrust, createClockTrust, newestFileMs } from "../services/clock-trust.ts";
import { type CreditService, createCreditService } from "../services/credit.ts";
import { dataDirOf } from "../services/data-dir.ts";
import { lockDataDir } from "../services/data-dir-lock.ts";
import { unwritableFolders } from "../services/data-parts.ts";
import { createListeningService, type ListeningService } from "../services/listening/listening.ts";
import { renderManifest } from "../services/models/model-manifest.ts";
import { createModelService, type ModelService } from "../services/models/models.ts";
import { createPurgeService } from "../services/purge.ts";
import { createRateLimiter, type RateLimiter } from "../services/rate-limit.ts";
import { createReceiptService, type ReceiptService } from "../services/receipts.ts";
import {
  createTranscriptionService,
  type TranscriptionService,
} from "../services/transcriptions/transcriptions.ts";
import { createUnpaidActs, type UnpaidActs } from "../services/unpaid-acts.ts";
import { createUploadService, type UploadService } from "../services/uploads/uploads.ts";
import { type Database, databasePath, openDatabase } from "../store/database.ts";
import type { ProcessLock } from "../store/process-lock.ts";
import { confirmUpgrade, unconfirmedUpgrade, upgradeDatabase } from "../store/upgrade.ts";
import { NOTICED_AFTER_MS } from "../store/write-gate.ts";
import { createDeliverer, type Deliverer } from "../webhooks/deliver.ts";
import { createWebhookService, type WebhookService } from "../webhooks/webhooks.ts";
import { createReadiness, type Readiness } from "./readiness.ts";
import type { MakeBackup } from "./scheduled-backups.ts";
import { createUpgradeHold, type UpgradeHold } from "./upgrade-hold.ts";

export type AppOptions = {
  config: Config;
  log: Log;
  clock?: Clock;
  /** Takes the place of the native engine in tests. */
  engine?: Engine;
  /** Takes the place of the models inside the executable in tests. */
  embeddedModel?: InstalledModel;
  /** Called before the database is upgraded, with its size: that can take minutes. */
  onUpgrade?: (bytes: number) => void;
  /** Called when this machine can never run the engine, with the reason. */
  onUnfit?: (reason: string) => void;
  /** Makes the backups of `[backup]`; undefined: none are made. */
  makeBackup?: MakeBackup;
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
  /** The fleet that recognizes; undefined: this machine does. */
  fleet: Fleet | undefined;
  hold: UpgradeHold;
  trust: ClockTrust;
  /** The commit that this executable was built from; null: not known. */
  commit: string | null;
  /** Returns the free bytes of the file system with the data directory. */
  freeBytes: () => number;
};

export type AppServices = {
  apiKeys: ApiKeyService;
  credit: CreditService;
  rateLimiter: RateLimiter;
  unpaidActs: UnpaidActs;
  models: ModelService;
  webhooks: WebhookService;
  listening: ListeningService;
  decoders: DecoderPlaces;
  uploads: UploadService;
  transcriptions: TranscriptionService;
  receipts: ReceiptService;
  intake: AddressIntake;
  buckets: Buckets;
  /** Calls addresses of `[intake]` and of buckets. */
  guarded: GuardedFetch;
};

/** What works by itself, without a request. */
export type AppWorkers = {
  scheduler: Scheduler;
  deliverer: Deliverer;
  addressWork: AddressWork;
  verification: Verification;
  sweeper: Sweeper;
  readiness: Readiness;
  folders: FolderService;
};

/** With less free space the database cannot grow, whatever reserve the config asks for. */
const LEAST_FREE_BYTES = 1024 * 1024;

/**
 * Upgrades the database when it is of an older version.
 *
 * @throws AppError `conflict` when another server uses the data directory; DatabaseVersionError, UpgradeError; Error when
 *   the engine cannot be opened
 */
export async function openBase(options: AppOptions): Promise<AppBase> {
  const { config, log, engine, clock = systemClock } = options;
  const dataDir = dataDirOf(config);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const lock = lockDataDir(dataDir);
  const path = databasePath(dataDir);
  await upgrade(path, options);
  const opened = engine ? { engine, soundCode: "" } : await openEngine(config, dataDir, log);
  const local = opened.engine;
  const fleet = await openFleetOf({ config, dataDir, local, soundCode: opened.soundCode, log });
  const database = openDatabase(path);
  const hold = createUpgradeHold(log, unconfirmedUpgrade(path) && { confirm: () => confirmUpgrade(path) });
  const trust = createClockTrust({
    ...{ database, clock, log, isHeld: hold.isHeld },
    // The times of files have nothing to do with the clock of a test.
    ...(clock === systemClock ? { newestFileMs: () => newestFileMs(dataDir) } : {}),
  });
  return {
    config,
    log,
    clock,
    dataDir,
    lock,
    database,
    hold,
    trust,
    engine: fleet?.engine ?? local,
    fleet,
    commit: await builtCommit(),
    freeBytes: () => freeBytesOf(dataDir),
  };
}

/** Finds the commit of the running executable. What runs from its source has none: the list of parts may be older. */
async function builtCommit(): Promise<string | null> {
  if (!Bun.isStandaloneExecutable) return null;
  const { commitOf } = await import("../executable/parts.ts");
  return commitOf();
}

/** Opens the fleet that the config names. Its code is loaded only then. */
async function openFleetOf(options: Omit<OpenFleetOptions, "version">): Promise<Fleet | undefined> {
  if (options.config.fleet.nats.length === 0) return undefined;
  const [{ openFleet }, { default: project }] = await Promise.all([
    import("../fleet/control/open-fleet.ts"),
    import("../../package.json"),
  ]);
  return openFleet({ ...options, version: project.version });
}

async function upgrade(path: string, { log, clock = systemClock, onUpgrade }: AppOptions): Promise<void> {
  if (!existsSync(path)) return;
  const made = await upgradeDatabase(path, {
    nowMs: clock.now(),
    onBegin(version, bytes) {
      log.info(
        { from: version.found, to: version.needed, bytes },
        "the database is upgraded, after a backup",
      );
      onUpgrade?.(bytes);
    },
  });
  if (made) log.info(made, "the database has been upgraded");
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
  const { config, clock, log, dataDir, database, engine, trust } = base;
  const { ages, access } = trust;
  const credit = createCreditService({ database, clock, config });
  const models = await createModelService({
    ...{ database, config, dataDir, log, clock },
    ...(embeddedModel === undefined ? {} : { carriedModels: { models: [embeddedModel], problems: [] } }),
  });
  const receipts = createReceiptService({ database, clock, dataDir });
  const decoders = createDecoderPlaces();
  const unpaidActs = createUnpaidActs({ clock, config });
  const uploads = createUploadService({
    ...{ database, clock, config, log, dataDir, decoders, ages, unpaidActs },
    // Longer recordings than the limit are verified, too. Their transcription is then refused with `audio_too_long`.
    verifyAudio: (file, signal) => {
      const maxDurationMs = Math.max(DAY_MS, 2 * config.limits.max_duration_seconds * 1000);
      return engine.verify({ ...file, maxDurationMs }, signal);
    },
    freeBytes: async () => base.freeBytes(),
    diskBytes: () => totalBytesOf(dataDir),
  });
  const transcriptions = createTranscriptionService({
    ...{ database, clock, config, log, models, uploads, credit, receipts, ages, unpaidActs },
    estimateNextStartSeconds: (organizationId) => scheduler()?.estimateNextStartSeconds(organizationId) ?? 1,
    removeWorkingFiles: (id) => scheduler()?.removeWorkingFiles(id),
  });
  const apiKeys = createApiKeyService({
    ...{ database, clock: access },
    onHeld: (keyId) =>
      log.warn(
        { key_id: keyId },
        "a key is refused: a restore of an older backup holds it back until `shruti keys confirm`",
      ),
  });
  return {
    apiKeys,
    listening: createListeningService({
      ...{ database, clock: access, dataDir, apiKeys, engine },
      audioPath: uploads.audioPath,
    }),
    credit,
    rateLimiter: createRateLimiter({ clock, config }),
    unpaidActs,
    models,
    webhooks: createWebhookService({ database, clock, config }),
    decoders,
    uploads,
    transcriptions,
    receipts,
    ...openAddressIntake({ store: database.store, config, dataDir }),
  };
}

/** @param onUnfit see `AppOptions` */
export function openWorkers(
  base: AppBase,
  services: AppServices,
  onUnfit?: (reason: string) => void,
): AppWorkers {
  const { config, clock, log, database, dataDir, engine } = base;
  const { models, uploads, transcriptions, webhooks, receipts, buckets, guarded } = services;
  // As many tickets as machines can work on: the control plane alone decides whose turn it is.
  const elsewherePlaces = createDecoderPlaces(() => Math.max(1, 2 * (engine.elsewhere?.places() ?? 0)));
  const scheduler = openScheduler(base, services, elsewherePlaces);
  base.fleet?.serveModels(() => models.list().map((model) => ({ model, manifest: renderManifest(model) })));
  base.fleet?.onPlaces(() => {
    const model = models.findDefault();
    if (model) scheduler.resize(engine.capacity(model));
    elsewherePlaces.wake();
    readiness.check();
  });
  const readiness = createReadiness({
    engine,
    defaultModel: () => models.resolve(),
    // A fleet's workers have their own models; there, only the default itself says something.
    ...(base.fleet ? {} : { probeFor: models.probeFor }),
    log,
    ...(onUnfit ? { onUnfit } : {}),
    isHeld: base.hold.isHeld,
    isDiskFull: () => base.freeBytes() < Math.max(LEAST_FREE_BYTES, config.storage.reserve_bytes),
    unwritableFolders: () => unwritableFolders(dataDir),
    isLocked: () => database.gate.lockedMs() >= NOTICED_AFTER_MS,
    onDefault(model) {
      base.hold.whenOver(() => {
        const capacity = engine.capacity(model);
        scheduler.resize(capacity);
        log.info({ model: model.id, workers: capacity.chunks }, "the default model");
      });
    },
  });
  const folders = createFolderService({ database, clock, config, log, uploads, transcriptions });
  return {
    scheduler,
    deliverer: createDeliverer({
      ...{ database, clock, config, log },
      isClockDoubtful: () => base.trust.verdict().isDoubtful,
    }),
    addressWork: createAddressWork({
      ...{ database, clock, config, log, uploads, transcriptions, buckets, guarded },
    }),
    verification: createVerification({ uploads, log }),
    sweeper: createSweeper({
      ...{
        database,
        clock,
        config,
        log,
        trust: base.trust,
        uploads,
        transcriptions,
        webhooks,
        receipts,
        dataDir,
      },
      purge: createPurgeService({ database, clock, config, dataDir, receipts, transcriptions }),
      forgetFiles: folders.forgetOld,
    }),
    readiness,
    folders,
  };
}

function openScheduler(
  base: AppBase,
  { models, uploads, decoders, transcriptions }: AppServices,
  elsewherePlaces: DecoderPlaces,
): Scheduler {
  const { config, clock, log, dataDir, database, engine, commit } = base;
  // Large work gets half of these, so that one organization's long recordings can keep all processes busy.
  const speechPlaces = createDecoderPlaces(
    2 * chooseSpeechWorkers(config.engine.speech_workers, measureMachine()),
  );
  return createScheduler({
    ...{
      database,
      clock,
      config,
      log,
      engine,
      decoders,
      speechPlaces,
      elsewherePlaces,
      transcriptions,
      familyOf: FAMILIES.of,
      dataDir,
    },
    commit,
    findModel: (id) => models.find(id),
    speakerWeights: models.speakerWeights,
    punctuation: models.punctuation,
    audioPath: uploads.audioPath,
    windowMs: () => FAMILIES.of(models.findDefault()?.family ?? FAMILIES.standard.name).windowMs,
    weightBytes: () => models.findDefault()?.bytes ?? 0,
    capacity: engine.capacity(models.findDefault() ?? models.list()[0] ?? { bytes: 0 }),
  });
}
