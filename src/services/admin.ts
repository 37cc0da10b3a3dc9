import { accessSync, existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { toTimestamp } from "../lib/time.ts";
import { restoreBackup, writeBackup } from "../store/backup.ts";
import { databasePath, openDatabase } from "../store/database.ts";
import type { AuditReport } from "../store/ledger-audit.ts";
import { checkRestored } from "../store/restore-check.ts";
import { createAccountService } from "./accounts.ts";
import { createApiKeyService } from "./api-keys.ts";
import { createCreditService } from "./credit.ts";
import { createWebhookService } from "./webhooks.ts";

export type AdminDeps = { config: Config; clock: Clock; log: Log };
export type Admin = ReturnType<typeof openAdmin>;

/** The directory of the database and recordings, absolute; a relative one starts at the working directory. */
export function dataDirOf(config: Config): string {
  return resolve(config.storage.data_dir);
}

/**
 * Path of the database. Nobody but `shruti init` makes one: a directory that was mistyped, or whose disk is not
 * mounted, must not become an empty service.
 *
 * @throws AppError `not_found` when there is none; Error where this user may not look
 */
export function requireDatabase(config: Config): string {
  const path = databasePath(dataDirOf(config));
  try {
    accessSync(path);
    return path;
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== "ENOENT" && code !== "ENOTDIR")
      throw new Error(`${path} cannot be reached by this user (${code})`, { cause });
  }
  throw new AppError("not_found", {
    message: `There is no database ${path}; \`shruti init\` makes one, --config names another.`,
  });
}

/**
 * What an admin's command works with: the database, and the services that need no engine.
 * A server may be running on the same data directory.
 *
 * @throws AppError `not_found` when there is no database yet
 */
export function openAdmin({ config, clock, log }: AdminDeps) {
  const dataDir = dataDirOf(config);
  const path = requireDatabase(config);
  const database = openDatabase(path);
  const apiKeys = createApiKeyService({ database, clock });
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
    /** Copies the database to a new file; its size in bytes. AppError `conflict` when the file exists. */
    backUp: (file: string): number => writeBackup(database, resolve(file)),
    close(): void {
      apiKeys.close();
      database.close();
    },
  };
}

export type Restored = { databasePath: string; previousPath: string | undefined; ledger: AuditReport };

/**
 * Puts a backup into the place of the database, which no other process may have open, once its schema, its
 * identifiers and its ledger have been found to be right. An older version's is brought up to date.
 *
 * @throws AppError `not_found`, `invalid_request`, `conflict`
 */
export function restoreDatabase({ config, clock }: AdminDeps, file: string): Restored {
  const path = databasePath(dataDirOf(config));
  if (!existsSync(dataDirOf(config))) {
    throw new AppError("not_found", {
      message: `There is no data directory ${dataDirOf(config)}; \`shruti init\` makes one.`,
    });
  }
  const source = resolve(file);
  let ledger: AuditReport | undefined;
  const stamp = toTimestamp(clock.now()).replaceAll(/[:.]/g, "-");
  const previousPath = restoreBackup(source, path, stamp, (copy) => {
    ledger = checkRestored(copy, source);
  });
  if (ledger === undefined) throw new Error("the restored database was not audited");
  return { databasePath: path, previousPath, ledger };
}
