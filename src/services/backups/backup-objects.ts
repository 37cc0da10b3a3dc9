import {
  closeSync,
  fsyncSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from "node:fs";
import { join } from "node:path";
import { unfinishedPath } from "../../lib/durable-files.ts";
import { giveToOwner, makeFolder } from "../../lib/give-to-owner.ts";
import { makePrivateFile } from "../../store/private-file.ts";
import { type openPlainFile, readRegion, writeWhole } from "./backup-bytes.ts";
import { STORE_OBJECTS } from "./backup-format.ts";
import { objectPath } from "./backup-reader.ts";

/** The objects of a store: recordings and models, each once for all its backups, named by its SHA-256. */

const FOLDER_MODE = 0o700;

type Facts = { size: number; mtimeMs: number };

/** Reports whether an object has the size and the time of a file, so that the file need not be read again. */
export function isSame(path: string, { size, mtimeMs }: Facts): boolean {
  const object = statSync(path, { throwIfNoEntry: false });
  return object?.isFile() === true && object.size === size && Math.abs(object.mtimeMs - mtimeMs) < 1;
}

/**
 * Copies a file into the store, unless its bytes are there.
 *
 * @param check is called with the SHA-256 of what was read; where it throws, nothing is added
 * @returns how many bytes were added
 */
export async function addObject(
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
