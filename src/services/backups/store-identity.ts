import { randomUUID } from "node:crypto";
import { accessSync, constants, realpathSync, type Stats, statSync } from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { type Static, Type } from "@sinclair/typebox";
import { AppError } from "../../domain/errors.ts";
import { writeNewFileNow } from "../../lib/durable-files.ts";
import { parseFormatted } from "../../lib/formatted-json.ts";
import { giveToOwner } from "../../lib/give-to-owner.ts";
import { readRegularFile } from "../../lib/regular-file.ts";
import { toTimestamp } from "../../lib/time.ts";
import { STORE_BACKUPS, STORE_IDENTITY, STORE_OBJECTS } from "./backup-format.ts";
import type { KnownStores } from "./backup-memory.ts";

/**
 * A store knows which appliance it belongs to, and the database knows its stores. So a disk that is not mounted is not
 * mistaken for a new store, and two appliances do not remove each other's backups.
 */

const Identity = Type.Object({
  format: Type.Literal(1),
  /** Identifier of the store, a random text. */
  id: Type.String({ maxLength: 100 }),
  /** Identifier of the appliance (backup-memory.ts). */
  appliance: Type.String({ maxLength: 100 }),
  /** For people: the machine that began the store, and when. */
  host: Type.String({ maxLength: 300 }),
  created_at: Type.String({ maxLength: 40 }),
});
type Identity = Static<typeof Identity>;

const MAX_BYTES = 16 * 1024;

export type StoreQuestion = {
  /** Absolute path of the store. */
  store: string;
  dataDir: string;
  known: KnownStores | undefined;
  /** Where the last backup of everything went. Versions without identities knew no more. */
  lastPath: string | undefined;
  /** Whether an admin wants a new store here, whatever was expected. */
  isNew: boolean;
};

/**
 * Checks that backups may go to a folder: it is the store that it was before, or a new one in a folder that is there.
 *
 * @throws AppError `not_found` for a store or a folder that is not there, `conflict` for a store of another appliance,
 *   `invalid_request` for a folder in the data directory
 */
export function requireStore({ store, dataDir, known, lastPath, isNew }: StoreQuestion): void {
  if (isWithin(store, dataDir)) throw new AppError("invalid_request", { message: inDataDir(store, dataDir) });
  const identity = readIdentity(store);
  if (identity) {
    requireOwn(store, identity, known);
    return;
  }
  if (isNew) return;
  const backups = join(store, STORE_BACKUPS);
  const isLost =
    known === undefined
      ? lastPath !== undefined && dirname(lastPath) === backups && !statOf(backups)
      : known.stores.some(({ path }) => path === store);
  if (isLost) {
    throw new AppError("not_found", {
      message: `${store} does not hold the store that earlier backups went to: is its disk mounted? \`shruti backup --to ${store} --new-store\` begins a new one.`,
    });
  }
  const parent = dirname(store);
  if (!statOf(store) && !statOf(parent)) {
    throw new AppError("not_found", {
      message: `There is no folder ${parent}: is its disk mounted? --new-store makes the folder.`,
    });
  }
}

function requireOwn(store: string, identity: Identity, known: KnownStores | undefined): void {
  if (known === undefined || identity.appliance === known.appliance) return;
  throw new AppError("conflict", {
    message: `${store} holds the backups of another appliance (machine ${JSON.stringify(identity.host)}, since ${JSON.stringify(identity.created_at)}). Give this one a folder of its own. If this machine has replaced the other one, remove ${join(store, STORE_IDENTITY)} first.`,
  });
}

/** Says why backups cannot be in the data directory; undefined: the folder is elsewhere. */
export function problemOfPlace(store: string, dataDir: string): string | undefined {
  return isWithin(store, dataDir) ? inDataDir(store, dataDir) : undefined;
}

const inDataDir = (store: string, dataDir: string) =>
  `${store} is in the data directory ${dataDir}: a backup there is lost together with what it is a backup of.`;

/** Compares real paths, so that a link does not hide where a folder is. */
function isWithin(path: string, folder: string): boolean {
  const [inner, outer] = [realPathOf(path), realPathOf(folder)];
  return inner === outer || inner.startsWith(`${outer}/`);
}

/** Follows the links of a path, as far as it is there. */
function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realPathOf(parent), basename(path));
  }
}

/**
 * Returns the identifier of a store, under the lock of the store. The first backup of an appliance makes it.
 *
 * @throws AppError `conflict` for a store of another appliance
 */
export function openIdentity(store: string, appliance: string, nowMs: number): string {
  const path = join(store, STORE_IDENTITY);
  const found = readIdentity(store);
  if (found) {
    requireOwn(store, found, { appliance, stores: [] });
    return found.id;
  }
  const created = { host: hostname().slice(0, 300), created_at: toTimestamp(nowMs) };
  const identity: Identity = { format: 1, id: randomUUID(), appliance, ...created };
  writeNewFileNow(path, `${JSON.stringify(identity, null, 2)}\n`, 0o600);
  giveToOwner(path);
  return identity.id;
}

function readIdentity(store: string): Identity | undefined {
  const path = join(store, STORE_IDENTITY);
  if (!statOf(path)) return undefined;
  const fail = (message: string) =>
    new AppError("conflict", { message: `${store} is not used: ${message}.` });
  const bytes = Buffer.from(readRegularFile(path, MAX_BYTES));
  return parseFormatted(bytes, { schema: Identity, name: STORE_IDENTITY, format: 1, fail });
}

/** A path below a file is not there. */
function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOTDIR") return undefined;
    throw error;
  }
}

/**
 * Says why the user of this process cannot write backups into a folder, and what to do.
 *
 * @returns undefined when they can
 */
export function problemOfFolder(store: string): string | undefined {
  const found = statOf(store);
  if (found && !found.isDirectory()) return `${store} is not a folder`;
  const folder = found ? store : dirname(store);
  const user = process.geteuid?.() ?? "USER";
  const make = `as root: mkdir -p ${store} && chown -R ${user} ${store}, then restart the service`;
  if (!found && !statOf(folder))
    return `there is no folder ${folder}: is its disk mounted? Otherwise, ${make}`;
  try {
    // Another user may have made a store in a folder that all users can write.
    for (const part of [folder, join(store, STORE_BACKUPS), join(store, STORE_OBJECTS)])
      if (statOf(part)) accessSync(part, constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const what = found ? `${store} cannot be written` : `${store} does not exist and cannot be made`;
    return `${what} by user ${user} (${code}); ${make}`;
  }
}
