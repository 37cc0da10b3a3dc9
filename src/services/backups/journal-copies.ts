import { existsSync } from "node:fs";
import { appendFile, mkdir, open, readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import type { Config } from "../../config/schema.ts";
import type { Clock } from "../../lib/clock.ts";
import { syncPath, writeDurably } from "../../lib/durable-files.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { giveToOwner } from "../../lib/give-to-owner.ts";
import { readRegularFile } from "../../lib/regular-file.ts";
import { asOwnerOf } from "../../lib/rights.ts";
import { toTimestamp } from "../../lib/time.ts";
import { type Database, transaction } from "../../store/database.ts";
import { findSetting, putSetting, SETTING_NAMES } from "../../store/settings.ts";
import {
  type Beginning,
  beginningOf,
  CLOSINGS_FILE,
  DELETIONS_FILE,
  JOURNAL_FOLDER,
  knownBytes,
  readTrusted,
} from "../journal/journal-file.ts";
import { openApplianceKey } from "../signed/appliance-key.ts";
import { signDocument } from "../signed/signed-documents.ts";
import { STORE_BACKUPS, STORE_IDENTITY } from "./backup-format.ts";
import { readKnownStores } from "./backup-memory.ts";
import { knownStores } from "./known-backups.ts";

/**
 * Copies the files of deletions and closings into the folders of backups that this machine knows and reaches, so that a
 * restore on a new machine learns of what came after the backup.
 */

/** Says until when the copies are complete, even when nothing was deleted or closed. */
const STATE_FILE = "known.json";
const STATE_EVERY_MS = 5 * 60_000;
const MAX_STATE_BYTES = 16 * 1024;
const FILES = [DELETIONS_FILE, CLOSINGS_FILE] as const;
const FOLDER_MODE = 0o700;
const BLOCK_BYTES = 1024 * 1024;

const STATE = Type.Object({
  object: Type.Literal("journal_state"),
  format: Type.Literal(1),
  known_until: Type.String({ maxLength: 40 }),
});

export type JournalDeps = {
  database: Database;
  clock: Clock;
  dataDir: string;
  config: Pick<Config, "backup">;
};

/** Folders that have the newest lines, and those that have not, with the reason. */
export type JournalCopied = { reached: string[]; failed: { path: string; reason: string }[] };

/** For each folder and file: what of the file beside the database is in the copy. */
type Copied = Record<string, Partial<Record<(typeof FILES)[number], Beginning>>>;

export type JournalCopier = {
  /**
   * Copies what the folders do not have yet. A folder that is not there, because its disk is not mounted, is left as it is.
   * It never rejects.
   */
  copy(): Promise<JournalCopied>;
};

export function createJournalCopier(deps: JournalDeps): JournalCopier {
  const { database, clock } = deps;
  const stated = new Map<string, number>();

  async function copyTo(store: string, copied: Copied): Promise<void> {
    if (!(await isThere(join(store, STORE_BACKUPS)))) throw new Error("the folder of backups is not there");
    await requireOwnStore(store, database);
    const folder = join(store, JOURNAL_FOLDER);
    if (!(await isThere(folder))) {
      await mkdir(folder, { mode: FOLDER_MODE });
      giveToOwner(folder);
    }
    const before = copied[store] ?? {};
    const after = { ...before };
    for (const name of FILES) {
      const beginning = await copyFile(join(deps.dataDir, name), join(folder, name), before[name]);
      if (beginning) after[name] = beginning;
    }
    const isNew = JSON.stringify(after) !== JSON.stringify(before);
    if (isNew || Math.abs(clock.now() - (stated.get(store) ?? 0)) >= STATE_EVERY_MS) {
      await writeState(folder, deps);
      stated.set(store, clock.now());
    }
    if (!isNew) return;
    copied[store] = after;
    transaction(database.store, (tx) => putSetting(tx, SETTING_NAMES.journalCopies, copied, clock.now()));
  }

  return {
    async copy() {
      const outcome: JournalCopied = { reached: [], failed: [] };
      const stores = knownStores(database.store, deps.config);
      const noted = (findSetting(database.store, SETTING_NAMES.journalCopies) ?? {}) as Copied;
      const copied = Object.fromEntries(Object.entries(noted).filter(([path]) => stores.includes(path)));
      for (const store of stores) {
        try {
          // A command of root has the rights of the data directory's owner, who may not reach that folder.
          await asOwnerOf(join(store, STORE_BACKUPS), () => copyTo(store, copied));
          outcome.reached.push(store);
        } catch (error) {
          outcome.failed.push({ path: store, reason: errorMessage(error) });
        }
      }
      return outcome;
    },
  };
}

/** @throws Error for a folder with the backups of another appliance, such as another disk that is mounted there */
async function requireOwnStore(store: string, { sqlite }: Database): Promise<void> {
  const path = join(store, STORE_IDENTITY);
  const known = readKnownStores(sqlite);
  if (known === undefined || !(await isThere(path))) return;
  const { appliance } = JSON.parse(await readFile(path, "utf8")) as { appliance?: unknown };
  if (appliance !== known.appliance) throw new Error("the folder holds the backups of another appliance");
}

/** Another machine's disk may not answer, so no thread waits for it. */
async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** Adds what a copy does not have. Lines may be in it twice. @returns what it has now; undefined: there is no file */
async function copyFile(
  from: string,
  to: string,
  known: Beginning | undefined,
): Promise<Beginning | undefined> {
  const asReader = <T>(work: () => Promise<T>): Promise<T> => asOwnerOf(from, work);
  if (!existsSync(from)) return undefined;
  const end = await asReader(() => beginningOf(from));
  const isCopyThere = await isThere(to);
  const start = isCopyThere ? await asReader(() => knownBytes(from, known)) : 0;
  if (start === end.bytes) return known;
  const source = await asReader(() => open(from));
  try {
    // A copy that was interrupted has ended in the middle of a line.
    await appendFile(to, "\n", { mode: 0o600 });
    if (!isCopyThere) giveToOwner(to);
    const block = Buffer.alloc(BLOCK_BYTES);
    for (let at = start; at < end.bytes; ) {
      const { bytesRead } = await source.read(block, 0, Math.min(block.length, end.bytes - at), at);
      if (bytesRead === 0) throw new Error(`${from} is shorter than before`);
      await appendFile(to, block.subarray(0, bytesRead));
      at += bytesRead;
    }
  } finally {
    await source.close();
  }
  await syncPath(to);
  if (!isCopyThere) await syncPath(dirname(to));
  return end;
}

async function writeState(folder: string, { clock, dataDir }: JournalDeps): Promise<void> {
  const state = { object: "journal_state", format: 1, known_until: toTimestamp(clock.now()) };
  const signed = signDocument(state, openApplianceKey(dataDir));
  await writeDurably(join(folder, STATE_FILE), `${JSON.stringify(signed, null, 2)}\n`, 0o600);
}

/**
 * Reads until when the copies in a folder are complete.
 *
 * @param folder the folder of the copies
 * @returns epoch milliseconds; undefined where no trusted key says so
 */
export function knownUntilIn(folder: string, trusted: ReadonlySet<string>): number | undefined {
  try {
    const document = readTrusted(readRegularFile(join(folder, STATE_FILE), MAX_STATE_BYTES), trusted);
    if (!Value.Check(STATE, document)) return undefined;
    const atMs = Date.parse(document.known_until);
    return Number.isFinite(atMs) ? atMs : undefined;
  } catch {
    return undefined;
  }
}
