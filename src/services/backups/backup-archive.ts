import { closeSync, existsSync, fstatSync, ftruncateSync, openSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { AppError } from "../../domain/errors.ts";
import { syncPathNow } from "../../lib/durable-files.ts";
import { giveToOwner } from "../../lib/give-to-owner.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { linkNew, removeAbandonedParts } from "../../store/backup.ts";
import { makePrivateFile } from "../../store/private-file.ts";
import { requireFolderOf } from "../output-folder.ts";
import { readRegion, UnreadableError, writeWhole } from "./backup-bytes.ts";
import {
  type BackupContents,
  type BackupRequest,
  type BackupSink,
  listWriter,
  signList,
  writeContents,
} from "./backup-create.ts";
import { LIST, SIGNATURE } from "./backup-format.ts";
import { writeEnd, writeHead, writePadding } from "./backup-tar.ts";

/**
 * Writes a backup of everything to a new archive. Only the database is copied besides; everything else streams. The file
 * gets its name once it is complete and on the disk.
 *
 * @throws AppError `conflict` when the file exists already; the system's error, and nothing is left then
 */
export async function backUpToArchive(path: string, request: BackupRequest): Promise<BackupContents> {
  requireFolderOf(path);
  if (existsSync(path)) throw new AppError("conflict", { message: `${path} exists already.` });
  removeAbandonedParts(path);
  const parts = ["", ".db", ".list"].map((ending) => `${path}.${process.pid}.partial${ending}`);
  const [archive = "", snapshotPath = "", list = ""] = parts;
  const remove = () => {
    for (const part of parts) rmSync(part, { force: true });
  };
  // A signal that ends the program also removes them.
  process.on("exit", remove);
  try {
    makePrivateFile(archive);
    makePrivateFile(list);
    const contents = await fill(archive, list, snapshotPath, request);
    syncPathNow(archive);
    giveToOwner(archive);
    linkNew(archive, path);
    syncPathNow(dirname(path));
    return contents;
  } finally {
    remove();
    process.off("exit", remove);
  }
}

async function fill(
  archive: string,
  list: string,
  snapshotPath: string,
  request: BackupRequest,
): Promise<BackupContents> {
  // What is written goes to the end, also after a file that could not be read was taken out again.
  const target = openSync(archive, "a");
  const lines = openSync(list, "r+");
  const { note, end } = listWriter(lines);
  const changedAt = new Date(request.nowMs);
  function writeText(name: string, text: string): Buffer {
    const bytes = Buffer.from(text);
    writeHead(target, { name, bytes: bytes.length, changedAt });
    writeWhole(target, bytes);
    writePadding(target, bytes.length);
    return bytes;
  }
  const sink: BackupSink = {
    layout: "files",
    snapshotPath,
    addText(name, text) {
      const bytes = writeText(name, text);
      note(name, sha256Hex(bytes));
    },
    async addFile(name, { descriptor, facts }) {
      const hasher = new Bun.CryptoHasher("sha256");
      const start = fstatSync(target).size;
      writeHead(target, { name, bytes: facts.size, changedAt: facts.mtime });
      await readRegion({ descriptor, offset: 0, bytes: facts.size }, (block) => {
        hasher.update(block);
        writeWhole(target, block);
      }).catch((error: unknown) => {
        if (error instanceof UnreadableError) ftruncateSync(target, start);
        throw error;
      });
      writePadding(target, facts.size);
      const sha256 = hasher.digest("hex");
      note(name, sha256);
      return sha256;
    },
  };
  try {
    const contents = await writeContents(request, sink);
    const { bytes, sha256 } = end();
    writeHead(target, { name: LIST, bytes, changedAt });
    await readRegion({ descriptor: lines, offset: 0, bytes }, (block) => writeWhole(target, block));
    writePadding(target, bytes);
    const signature = signList(request, sha256);
    if (signature !== undefined) writeText(SIGNATURE, signature);
    writeEnd(target);
    return contents;
  } finally {
    closeSync(lines);
    closeSync(target);
  }
}
