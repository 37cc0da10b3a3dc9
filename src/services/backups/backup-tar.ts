import { Header } from "tar";
import { type Region, readWhole, writeWhole } from "./backup-bytes.ts";
import { BackupError, FOLDER } from "./backup-format.ts";

/** Tar archives of backups: regular files in one folder, and nothing else. */

const BLOCK = 512;
const END_BLOCKS = 2;
const FILE_MODE = 0o600;

/** Writes the head of a file. Its bytes follow, then `padding`. */
export function writeHead(descriptor: number, file: { name: string; bytes: number; changedAt: Date }): void {
  const { name, bytes, changedAt: mtime } = file;
  const block = Buffer.alloc(BLOCK);
  const path = `${FOLDER}/${name}`;
  // It also says "true" for sizes from 8 GiB on, which it has then written in the base-256 form that tar programs read.
  new Header({ path, size: bytes, mode: FILE_MODE, mtime, type: "File", uid: 0, gid: 0 }).encode(block);
  if (new Header(block).path !== path) throw new Error(`the name ${path} is too long for an archive`);
  writeWhole(descriptor, block);
}

/** Fills the last block of a file's bytes. */
export function writePadding(descriptor: number, bytes: number): void {
  writeWhole(descriptor, Buffer.alloc(paddingOf(bytes)));
}

/** Ends the archive. */
export function writeEnd(descriptor: number): void {
  writeWhole(descriptor, Buffer.alloc(END_BLOCKS * BLOCK));
}

export type TarEntry = Region & { name: string };

/** Reports whether a file begins as the archive of a backup. It may be damaged, or end early. */
export function isArchive(descriptor: number, size: number): boolean {
  if (size < BLOCK) return false;
  const header = headerAt(descriptor, 0);
  return header?.cksumValid === true && header.path?.startsWith(`${FOLDER}/`) === true;
}

/** Reads a head; undefined for bytes that are none. */
function headerAt(descriptor: number, offset: number): Header | undefined {
  const block = Buffer.from(readWhole({ descriptor, offset, bytes: BLOCK }));
  try {
    return new Header(block);
  } catch {
    return undefined;
  }
}

/**
 * Iterates over the files of an archive, and skips their bytes.
 *
 * @param size of the archive
 * @throws BackupError for damage, an archive that ends early, and anything but regular files in the backup's folder
 */
export function* tarEntries(descriptor: number, size: number): Generator<TarEntry> {
  let offset = 0;
  for (;;) {
    if (offset + BLOCK > size) throw cut();
    const header = headerAt(descriptor, offset);
    if (header?.nullBlock) break;
    if (!header?.cksumValid) throw new BackupError(`it is damaged at byte ${offset}`);
    const { path = "", size: bytes = Number.NaN, type } = header;
    const shown = JSON.stringify(path.slice(0, 200));
    if (type !== "File") throw new BackupError(`${shown} in it is not a regular file`);
    if (!path.startsWith(`${FOLDER}/`)) throw new BackupError(`${shown} in it is outside of ${FOLDER}/`);
    if (!Number.isSafeInteger(bytes) || bytes < 0) throw new BackupError(`it is damaged at byte ${offset}`);
    offset += BLOCK;
    if (offset + bytes > size) throw cut();
    yield { descriptor, offset, bytes, name: path.slice(FOLDER.length + 1) };
    offset += bytes + paddingOf(bytes);
  }
  if (offset + END_BLOCKS * BLOCK > size) throw cut();
}

const cut = () => new BackupError("it ends early: it was not copied, or not written, to its end");

function paddingOf(bytes: number): number {
  return (BLOCK - (bytes % BLOCK)) % BLOCK;
}
