import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createGunzip } from "node:zlib";
import { Header, Pax } from "tar";
import { errorMessage } from "../../lib/error-message.ts";
import { ImportError } from "../import-error.ts";
import { openSource, readWith, type SourceFile } from "../source-file.ts";

/** Files of an archive by their names, without the folder. Each is a view of the archive. */
export type NemoArchive = { files: ReadonlyMap<string, SourceFile>; close(): void };

const BLOCK_BYTES = 512;
const MAX_ENTRIES = 10_000;
const MAX_PAX_BYTES = 64 * 1024;
const GZIP_MAGIC = 0x8b1f;
const PIECE_BYTES = 1024 * 1024;
/** The largest model that has been published has some 5 GB. */
const MAX_UNPACKED_BYTES = 16 * 1024 ** 3;
/** How many times its size, and bytes besides, an archive may unpack to. Packed weights have more than half of their size. */
const MAX_RATIO = 20;
const FREE_BYTES = 64 * 1024 * 1024;

export type Unpacking = {
  /** An empty folder for the unpacked archive. */
  into: string;
  /** Receives the number of bytes before they are written, and throws when they have no space. */
  requireSpace: (bytes: number) => void;
};

/**
 * Opens a `.nemo` file: a tar archive, which old releases of NeMo have packed with gzip. Nothing of an archive that is not
 * packed is copied: its files are read where they are.
 *
 * @throws ImportError for damage, and for entries that are links or devices
 */
export async function openNemoArchive(file: SourceFile, unpacking: Unpacking): Promise<NemoArchive> {
  const isPacked = file.bytes > 2 && file.read(0, 2).readUInt16LE() === GZIP_MAGIC;
  const archive = isPacked ? await unpack(file, unpacking) : file;
  return { files: listFiles(archive), close: () => (isPacked ? archive.close() : undefined) };
}

function listFiles(archive: SourceFile): Map<string, SourceFile> {
  const refuse = (reason: string) => new ImportError(archive.name, reason);
  const files = new Map<string, SourceFile>();
  let pax: Pax | undefined;
  for (let at = 0, entries = 0; at + BLOCK_BYTES <= archive.bytes; entries++) {
    if (entries > MAX_ENTRIES) throw refuse(`it has more than ${MAX_ENTRIES} entries`);
    const block = archive.read(at, BLOCK_BYTES);
    // Two empty blocks are the end.
    if (block.every((byte) => byte === 0)) return files;
    const header = readHeader(block, pax);
    if (!header?.cksumValid)
      throw refuse(at === 0 ? "it is not a .nemo file (tar)" : "it is a damaged archive");
    const bytes = header.size ?? 0;
    if (!Number.isSafeInteger(bytes) || bytes < 0) throw refuse("it is a damaged archive");
    const position = at + BLOCK_BYTES;
    if (position + bytes > archive.bytes) throw refuse("it is truncated");
    at = position + Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
    pax = undefined;
    if (header.type === "ExtendedHeader") {
      if (bytes > MAX_PAX_BYTES) throw refuse("it has an impossible header");
      pax = Pax.parse(archive.read(position, bytes).toString("utf8"));
    } else if (header.type === "File" || header.type === "OldFile") {
      const name = (header.path ?? "").split("/").at(-1) ?? "";
      if (files.has(name)) throw refuse(`it has two files ${name}`);
      files.set(name, viewOf(archive, name, position, bytes));
    } else if (header.type !== "Directory" && header.type !== "GlobalExtendedHeader") {
      throw refuse(`its entry ${JSON.stringify(header.path)} is not a file (${header.type})`);
    }
  }
  throw refuse("it is truncated");
}

/** @returns undefined for numbers that are none */
function readHeader(block: Buffer, pax: Pax | undefined): Header | undefined {
  try {
    return new Header(block, 0, pax, undefined);
  } catch {
    return undefined;
  }
}

/** Returns a part of a file as a file of its own. */
function viewOf(archive: SourceFile, name: string, start: number, bytes: number): SourceFile {
  const fill = (into: Uint8Array, position: number): void => {
    if (position < 0 || position + into.length > bytes) throw new ImportError(name, "the file is truncated");
    archive.fill(into, start + position);
  };
  return {
    name,
    bytes,
    fill,
    read: readWith(fill),
    close: () => {},
  };
}

async function unpack(packed: SourceFile, { into, requireSpace }: Unpacking): Promise<SourceFile> {
  const name = "unpacked.tar";
  const refuse = (reason: string) => new ImportError(packed.name, reason);
  const output = openSync(join(into, name), "wx", 0o600);
  const gunzip = createGunzip({ chunkSize: PIECE_BYTES });
  const most = Math.min(MAX_UNPACKED_BYTES, FREE_BYTES + MAX_RATIO * packed.bytes);
  let bytes = 0;
  try {
    // A file that cannot be read on ends the loop.
    feed(packed, gunzip).catch((error: Error) => gunzip.destroy(error));
    for await (const piece of gunzip as AsyncIterable<Uint8Array>) {
      bytes += piece.length;
      if (bytes > most) throw refuse(`it unpacks to more than ${most} bytes`);
      requireSpace(piece.length);
      for (let done = 0; done < piece.length; ) done += writeSync(output, piece, done, piece.length - done);
    }
  } catch (error) {
    if (/^Z_/.test(String((error as NodeJS.ErrnoException).code)))
      throw refuse(`it is damaged: ${errorMessage(error)}`);
    throw error;
  } finally {
    gunzip.destroy();
    closeSync(output);
  }
  return { ...openSource({ path: into }, name), name: packed.name };
}

async function feed(packed: SourceFile, gunzip: ReturnType<typeof createGunzip>): Promise<void> {
  for (let at = 0; at < packed.bytes; at += PIECE_BYTES) {
    const piece = packed.read(at, Math.min(PIECE_BYTES, packed.bytes - at));
    if (!gunzip.write(piece)) await new Promise((resolve) => gunzip.once("drain", resolve));
  }
  gunzip.end();
}
