import { Database as SqliteDatabase } from "bun:sqlite";
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { AppError } from "../../domain/errors.ts";
import { parseChecksum } from "../../lib/checksums.ts";
import { isUnfinishedName, syncPathNow, unfinishedPath } from "../../lib/durable-files.ts";
import { giveToOwner, makeFolder } from "../../lib/give-to-owner.ts";
import { toTimestamp } from "../../lib/time.ts";
import { makePrivateFile } from "../../store/private-file.ts";
import { takeProcessLock } from "../../store/process-lock.ts";
import { ChangedError, linesOf, openPlainFile, readRegion, writeWhole } from "./backup-bytes.ts";
import {
  type BackupContents,
  type BackupRequest,
  type BackupSink,
  isRight,
  writeContents,
} from "./backup-create.ts";
import {
  CONFIG,
  DATABASE,
  DESCRIPTION,
  LIST,
  MAX_LINE_BYTES,
  STORE_BACKUPS,
  STORE_OBJECTS,
  STORE_README,
} from "./backup-format.ts";
import { backupsIn, objectPath } from "./backup-reader.ts";
import type { Recording } from "./backup-sources.ts";

/** What a backup into a store did. */
export type StoredBackup = BackupContents & {
  /** Absolute path of the new backup. */
  path: string;
  /** Bytes that were written; the rest was in the store already. */
  written: number;
  /** Names of older backups that were removed. */
  removed: string[];
};

const LOCK = "backup.lock";
const FOLDER_MODE = 0o700;

/**
 * Adds a backup to a store, a folder that holds each recording once for all its backups. A recording that the newest
 * backup has with the same size and time is not read again. The backup gets its name once it is complete and on the disk.
 *
 * @param keep number of backups to keep, this one included; undefined: all
 * @throws AppError `conflict` while another backup to this store runs; the system's error, and no backup is made then
 */
export async function backUpToStore(
  store: string,
  request: BackupRequest,
  keep: number | undefined,
): Promise<StoredBackup> {
  makeFolder(join(store, STORE_BACKUPS), FOLDER_MODE);
  makeFolder(join(store, STORE_OBJECTS), FOLDER_MODE);
  const lockPath = join(store, LOCK);
  const lock = takeProcessLock(lockPath);
  if (!lock) throw new AppError("conflict", { message: `Another backup to ${store} is running.` });
  try {
    giveToOwner(lockPath);
    removeUnfinished(store);
    explain(store);
    const made = await addBackup(store, request);
    const removed = keep === undefined ? [] : prune(store, keep);
    return { ...made, removed };
  } finally {
    lock.release();
  }
}

async function addBackup(store: string, request: BackupRequest): Promise<Omit<StoredBackup, "removed">> {
  const name = toTimestamp(request.nowMs).replaceAll(/[:.]/g, "-");
  const path = join(store, STORE_BACKUPS, name);
  if (existsSync(path)) throw new AppError("conflict", { message: `${path} exists already.` });
  const unfinished = unfinishedPath(join(store, STORE_BACKUPS));
  mkdirSync(unfinished, { mode: FOLDER_MODE });
  try {
    const { sink, finish } = openSink(store, unfinished);
    const contents = await writeContents(request, sink).finally(finish.close);
    const written = finish.sync();
    for (const file of readdirSync(unfinished)) giveToOwner(join(unfinished, file));
    giveToOwner(unfinished);
    for (const file of readdirSync(unfinished)) syncPathNow(join(unfinished, file));
    syncPathNow(unfinished);
    renameSync(unfinished, path);
    syncPathNow(join(store, STORE_BACKUPS));
    return { ...contents, path, written };
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    throw error;
  }
}

function openSink(store: string, folder: string) {
  const objects = join(store, STORE_OBJECTS);
  const list = openSync(join(folder, LIST), "wx", 0o600);
  const previous = openPrevious(store);
  const changedFolders = new Set<string>([objects]);
  let written = 0;
  const note = (name: string, sha256: string) => writeWhole(list, Buffer.from(`${sha256}  ${name}\n`));
  const hasEarlier = (name: string, { bytes, sha256 }: Recording) => {
    const known = previous.find(name);
    if (known === undefined || (sha256 ?? known) !== known) return false;
    return statSync(objectPath(objects, known), { throwIfNoEntry: false })?.size === bytes;
  };
  const sink: BackupSink = {
    layout: "objects",
    snapshotPath: join(folder, DATABASE),
    addText(name, text) {
      writeFileSync(join(folder, name), text, { mode: 0o600, flag: "wx" });
      written += Buffer.byteLength(text);
      note(name, new Bun.CryptoHasher("sha256").update(text).digest("hex"));
    },
    async addFile(name, file, recording) {
      const { descriptor, facts } = file;
      const known = previous.find(name);
      if (known !== undefined && isSame(objectPath(objects, known), facts)) {
        note(name, known);
        return known;
      }
      const isOwn = name === DATABASE;
      const { sha256, bytes } = isOwn
        ? await hashOnly(descriptor, facts.size)
        : await addObject(objects, file, changedFolders, (read) => {
            if (!recording || isRight(recording, facts.size, read) || !hasEarlier(name, recording)) return;
            throw new ChangedError("its bytes have changed");
          });
      written += isOwn ? facts.size : bytes;
      note(name, sha256);
      return sha256;
    },
    addEarlier(name, recording) {
      const known = previous.find(name);
      if (known === undefined || !hasEarlier(name, recording)) return false;
      note(name, known);
      return true;
    },
  };
  return {
    sink,
    finish: {
      close() {
        closeSync(list);
        previous.close();
      },
      sync() {
        for (const changed of changedFolders) syncPathNow(changed);
        return written;
      },
    },
  };
}

type Facts = { size: number; mtimeMs: number };

function isSame(path: string, { size, mtimeMs }: Facts): boolean {
  const object = statSync(path, { throwIfNoEntry: false });
  return object?.isFile() === true && object.size === size && Math.abs(object.mtimeMs - mtimeMs) < 1;
}

async function hashOnly(descriptor: number, bytes: number) {
  const hasher = new Bun.CryptoHasher("sha256");
  await readRegion({ descriptor, offset: 0, bytes }, (block) => void hasher.update(block));
  return { sha256: hasher.digest("hex"), bytes: 0 };
}

/**
 * Copies a file into the store, unless its bytes are there.
 *
 * @param check is called with the SHA-256 of what was read; where it throws, nothing is added
 * @returns how many bytes were added
 */
async function addObject(
  objects: string,
  { descriptor, facts }: NonNullable<ReturnType<typeof openPlainFile>>,
  changedFolders: Set<string>,
  check: (sha256: string) => void,
): Promise<{ sha256: string; bytes: number }> {
  const unfinished = unfinishedPath(objects);
  try {
    makePrivateFile(unfinished);
    const hasher = new Bun.CryptoHasher("sha256");
    const target = openSync(unfinished, "r+");
    try {
      await readRegion({ descriptor, offset: 0, bytes: facts.size }, (block) => {
        hasher.update(block);
        writeWhole(target, block);
      });
      fsyncSync(target);
    } finally {
      closeSync(target);
    }
    const sha256 = hasher.digest("hex");
    check(sha256);
    const path = objectPath(objects, sha256);
    if (isSame(path, facts)) return { sha256, bytes: 0 };
    utimesSync(unfinished, facts.atime, facts.mtime);
    const folder = join(objects, sha256.slice(0, 2));
    makeFolder(folder, FOLDER_MODE);
    giveToOwner(unfinished);
    // An object of another size at this path is damaged, and is replaced.
    renameSync(unfinished, path);
    changedFolders.add(folder);
    return { sha256, bytes: facts.size };
  } finally {
    rmSync(unfinished, { force: true });
  }
}

/** The list of the newest backup, read along with the new one: both are in ascending order of names. */
function openPrevious(store: string): { find(name: string): string | undefined; close(): void } {
  const newest = backupsIn(store).at(-1);
  const file = newest === undefined ? undefined : openPlainFile(join(store, STORE_BACKUPS, newest, LIST));
  if (!file) return { find: () => undefined, close() {} };
  const lines = linesOf({ descriptor: file.descriptor, offset: 0, bytes: file.facts.size }, MAX_LINE_BYTES);
  let line: string | undefined;
  const next = () => {
    try {
      const { value, done } = lines.next();
      line = done ? undefined : value;
    } catch {
      // A damaged list only costs reading. `backup verify` reports it.
      line = undefined;
    }
  };
  next();
  return {
    find(name) {
      while (line !== undefined && line.slice(66) < name) next();
      const checksum = parseChecksum(line ?? "");
      return checksum?.name === name ? checksum.sha256 : undefined;
    },
    close: () => closeSync(file.descriptor),
  };
}

/** Removes what a killed backup has left. */
function removeUnfinished(store: string): void {
  for (const folder of [STORE_BACKUPS, STORE_OBJECTS].map((name) => join(store, name))) {
    for (const name of readdirSync(folder)) {
      if (isUnfinishedName(name)) rmSync(join(folder, name), { recursive: true, force: true });
    }
  }
}

/** Removes old backups, and the objects that no backup needs any more. @returns the names of the backups */
function prune(store: string, keep: number): string[] {
  const names = backupsIn(store);
  const removed = names.slice(0, Math.max(0, names.length - Math.max(1, keep)));
  for (const name of removed) {
    // From here on it is not a backup any more, even when the removal is interrupted.
    const leaving = unfinishedPath(join(store, STORE_BACKUPS));
    renameSync(join(store, STORE_BACKUPS, name), leaving);
    rmSync(leaving, { recursive: true, force: true });
  }
  if (removed.length > 0) removeUnneeded(store);
  return removed;
}

function removeUnneeded(store: string): void {
  const path = join(store, ".needed.db");
  const remove = () => {
    for (const ending of ["", "-journal"]) rmSync(path + ending, { force: true });
  };
  remove();
  makePrivateFile(path);
  const sqlite = new SqliteDatabase(path);
  try {
    sqlite.run("PRAGMA journal_mode = OFF");
    sqlite.run("PRAGMA synchronous = OFF");
    sqlite.run("CREATE TABLE needed (sha256 TEXT PRIMARY KEY) WITHOUT ROWID");
    const insert = sqlite.prepare("INSERT OR IGNORE INTO needed VALUES (?)");
    for (const name of backupsIn(store)) {
      const file = openPlainFile(join(store, STORE_BACKUPS, name, LIST));
      if (!file) throw new Error(`the backup ${name} lacks ${LIST}: nothing is removed`);
      try {
        const region = { descriptor: file.descriptor, offset: 0, bytes: file.facts.size };
        sqlite.transaction(() => {
          for (const line of linesOf(region, MAX_LINE_BYTES)) insert.run(line.slice(0, 64));
        })();
      } finally {
        closeSync(file.descriptor);
      }
    }
    const isNeeded = sqlite.prepare("SELECT 1 FROM needed WHERE sha256 = ?");
    for (const object of objectsIn(store)) {
      if (isNeeded.get(object.sha256) === null) rmSync(object.path, { force: true });
    }
    insert.finalize();
    isNeeded.finalize();
  } finally {
    sqlite.close();
    remove();
  }
}

/** Iterates over the objects of a store. */
export function* objectsIn(store: string): Generator<{ sha256: string; path: string }> {
  const objects = join(store, STORE_OBJECTS);
  for (const prefix of readdirSync(objects)) {
    if (!/^[0-9a-f]{2}$/.test(prefix)) continue;
    for (const name of readdirSync(join(objects, prefix))) {
      if (/^[0-9a-f]{64}$/.test(name)) yield { sha256: name, path: join(objects, prefix, name) };
    }
  }
}

const README = `Backups of Shruti, a service that turns speech recordings into text.

backups/TIME/   one backup: ${DESCRIPTION}, ${DATABASE} (SQLite), ${CONFIG}, and ${LIST}, the list of its files
objects/        recordings and models, each once for all backups, named by its SHA-256

On a machine with Shruti:      shruti backup verify THIS_FOLDER
                               shruti restore THIS_FOLDER            (the newest; or THIS_FOLDER/backups/TIME)

Without Shruti, these lines make a plain folder of one backup, with bash:

    cd backups/TIME
    while read -r sum name; do
      mkdir -p "../../plain/$(dirname "$name")"
      cp "$([ -e "$name" ] && echo "$name" || echo "../../objects/\${sum:0:2}/$sum")" "../../plain/$name"
    done < ${LIST}
    cp ${LIST} ../../plain/ && cd ../../plain && sha256sum -c ${LIST}

The database holds the secrets that sign webhooks. Do not change or remove single files of objects/.
`;

function explain(store: string): void {
  const path = join(store, STORE_README);
  if (existsSync(path)) return;
  writeFileSync(path, README, { mode: 0o600 });
  giveToOwner(path);
}
