import type { Config } from "../config/schema.ts";
import type { Act } from "../domain/audit.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { recordAct } from "../store/audit-log.ts";
import { type Database, openDatabase, transaction } from "../store/database.ts";
import { createWebhookService, type WebhookService } from "../webhooks/webhooks.ts";
import { type AccountService, createAccountService } from "./accounts.ts";
import { type ApiKeyService, createApiKeyService } from "./api-keys.ts";
import { type BucketService, createBucketService } from "./buckets.ts";
import { type ClockTrust, createClockTrust } from "./clock-trust.ts";
import { type ConsoleSessionService, createConsoleSessionService } from "./console-sessions.ts";
import { type CreditService, createCreditService } from "./credit.ts";
import { dataDirOf, requireDatabase } from "./data-dir.ts";
import { createSealedTexts } from "./sealed-texts.ts";

export type AdminDeps = { config: Config; clock: Clock; log: Log };

/** What an admin's command uses: the database, and the services that need no engine. */
export type Admin = AdminDeps & {
  /** Absolute path of the data directory. */
  dataDir: string;
  database: Database;
  apiKeys: ApiKeyService;
  accounts: AccountService;
  credit: CreditService;
  webhooks: WebhookService;
  buckets: BucketService;
  consoleSessions: ConsoleSessionService;
  trust: ClockTrust;
  /** Records an act that has changed only files, right after it (`recordAct` of store/audit-log.ts). */
  record(act: Act): void;
  close(): void;
};

/**
 * Opens the database for an admin's command. A server may be running on the same data directory.
 *
 * @throws AppError `not_found` when there is no database yet
 */
export function openAdmin({ config, clock, log }: AdminDeps): Admin {
  const dataDir = dataDirOf(config);
  const path = requireDatabase(config);
  const database = openDatabase(path);
  const trust = createClockTrust({ database, clock, log });
  const apiKeys = createApiKeyService({ database, clock: trust.access });
  return {
    config,
    clock,
    log,
    dataDir,
    database,
    apiKeys,
    accounts: createAccountService({ database, clock, onChange: apiKeys.forgetCached }),
    credit: createCreditService({ database, clock, config }),
    webhooks: createWebhookService({ database, clock, config }),
    buckets: createBucketService({ database, clock, sealed: createSealedTexts(dataDir) }),
    consoleSessions: createConsoleSessionService({ database, clock: trust.access }),
    trust,
    record: (act) => void transaction(database.store, (tx) => recordAct(tx, act, clock.now())),
    close() {
      apiKeys.close();
      database.close();
    },
  };
}
