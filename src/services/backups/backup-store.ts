import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { AppError } from "../../domain/errors.ts";
import { parseChecksum } from "../../lib/checksums.ts";
import { isUnfinishedName, syncPathNow, unfinishedPath } from "../../lib/durable-files.ts";
import { giveToOwner, makeFolder } from "../../lib/give-to-owner.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { toFileStamp } from "../../lib/time.ts";
import { takeProcessLock } from "../../store/process-lock.ts";
import { ChangedError, hashRegion, linesOf, openPlainFile } from "./backup-bytes.ts";
import {
  type BackupContents,
  type BackupRequest,
  type BackupSink,
  isRight,
  listWriter,
  signList,
  writeContents,
} from "./backup-create.ts";
import {
  CONFIG,
  DATABASE,
  DESCRIPTION,
  LIST,
  MAX_LINE_BYTES,
  SIGNATURE,
  STORE_BACKUPS,
  STORE_IDENTITY,
  STORE_OBJECTS,
  STORE_README,
} from "./backup-format.ts";
import { addObject, isSame } from "./backup-objects.ts";
import { prune } from "./backup-prune.ts";
import { backupsIn, objectPath } from "./backup-reader.ts";
import type { Recording } from "./backup-sources.ts";
import { openIdentity } from "./store-identity.ts";

/** What a backup into a store did. */
export type StoredBackup = BackupContents & {
  /** Absolute path of the new backup. */
  path: string;
  /** Bytes that were written; the rest was in the store already. */
  written: number;
  /** Names of older backups that were removed. */
  removed: string[];
  /** Identifier of the store. */
  storeId: string | undefined;
};

const LOCK = "backup.lock";
const FOLDER_MODE = 0o700;

/**
 * Adds a backup to a store, a folder that holds each recording once for all its backups. A recording that the newest
 * backup has with the same size and time is not read again. The backup gets its name once it is complete and on the disk.
 *
 * @param keep number of backups to keep, this one included; undefined: all
 * @param appliance identifier of this appliance; undefined: the database cannot be written, and the store stays as it is
 * @throws AppError `conflict` while another backup to this store runs; the system's error, and no backup is made then
 */
export async function backUpToStore(
  store: string,
  request: BackupRequest,
  keep: number | undefined,
  appliance: string | undefined,
): Promise<StoredBackup> {
  makeFolder(join(store, STORE_BACKUPS), FOLDER_MODE);
  makeFolder(join(store, STORE_OBJECTS), FOLDER_MODE);
  const lockPath = join(store, LOCK);
  const lock = takeProcessLock(lockPath);
  if (!lock) throw new AppError("conflict", { message: `Another backup to ${store} is running.` });
  try {
    giveToOwner(lockPath);
    const storeId = appliance === undefined ? undefined : openIdentity(store, appliance, request.nowMs);
    removeUnfinished(store);
    explain(store);
    const made = await addBackup(store, request);
    const removed = keep === undefined ? [] : prune(store, keep, request.nowMs);
    return { ...made, removed, storeId };
  } finally {
    lock.release();
  }
}

async function addBackup(
  store: string,
  request: BackupRequest,
): Promise<Omit<StoredBackup, "removed" | "storeId">> {
  const path = join(store, STORE_BACKUPS, toFileStamp(request.nowMs));
  if (existsSync(path)) throw new AppError("conflict", { message: `${path} exists already.` });
  const unfinished = unfinishedPath(join(store, STORE_BACKUPS));
  mkdirSync(unfinished, { mode: FOLDER_MODE });
  try {
    const { sink, finish } = openSink(store, unfinished);
    const contents = await writeContents(request, sink).finally(finish.close);
    const signature = signList(request, finish.listSha256());
    if (signature !== undefined)
      writeFileSync(join(unfinished, SIGNATURE), signature, { mode: 0o600, flag: "wx" });
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
  const { note, end } = listWriter(list);
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
      note(name, sha256Hex(text));
    },
    async addFile(name, file, recording) {
      const { descriptor, facts } = file;
      const known = previous.find(name);
      if (known !== undefined && isSame(objectPath(objects, known), facts)) {
        note(name, known);
        return known;
      }
      const { sha256, bytes } =
        name === DATABASE
          ? { sha256: await hashRegion({ descriptor, offset: 0, bytes: facts.size }), bytes: facts.size }
          : await addObject(objects, file, changedFolders, (read) => {
              if (!recording || isRight(recording, facts.size, read) || !hasEarlier(name, recording)) return;
              throw new ChangedError("its bytes have changed");
            });
      written += bytes;
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
      listSha256: () => end().sha256,
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

const README = `Backups of Shruti, a service that turns speech recordings into text.

backups/TIME/   one backup: ${DESCRIPTION}, ${DATABASE} (SQLite), ${CONFIG}, ${LIST}, the list of its files,
                and ${SIGNATURE}, the signature of this list
${STORE_IDENTITY}      which machine the folder belongs to
objects/        recordings and models, each once for all backups, named by its SHA-256

On a machine with Shruti:      shruti backup verify THIS_FOLDER
                               shruti restore THIS_FOLDER            (the newest; or THIS_FOLDER/backups/TIME)

Without Shruti, these lines make a plain folder of one backup, with bash:

    cd backups/TIME
    while read -r sum name; do
      mkdir -p "../../plain/$(dirname "$name")"
      cp "$([ -e "$name" ] && echo "$name" || echo "../../objects/\${sum:0:2}/$sum")" "../../plain/$name"
    done < ${LIST}
    [ ! -e ${SIGNATURE} ] || cp ${SIGNATURE} ../../plain/
    cp ${LIST} ../../plain/ && cd ../../plain && sha256sum -c ${LIST}

The database holds the secrets that sign webhooks. Do not change or remove single files of objects/.
`;

function explain(store: string): void {
  const path = join(store, STORE_README);
  if (existsSync(path)) return;
  writeFileSync(path, README, { mode: 0o600 });
  giveToOwner(path);
}
