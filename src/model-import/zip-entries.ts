import { Readable } from "node:stream";
import { type Entry, fromRandomAccessReaderPromise, RandomAccessReader, type ZipFile } from "yauzl";
import { errorMessage } from "../lib/error-message.ts";
import { ImportError } from "./import-error.ts";
import type { SourceFile } from "./source-file.ts";

/** A file in a ZIP, whose extent has been checked. */
export type ZipEntry = {
  name: string;
  /** Position of its bytes in the archive. */
  position: number;
  packedBytes: number;
  bytes: number;
  isPacked: boolean;
  crc32: number;
  /** Reads it from begin to end, unpacked. It fails when it holds more or fewer bytes than `bytes`. */
  stream(): Promise<AsyncIterable<Uint8Array>>;
};

const MAX_ENTRIES = 20_000;
const STORED = 0;
const DEFLATED = 8;
/** File types of Unix in the upper half of the external attributes. */
const TYPE_MASK = 0o170000;
const REGULAR = 0o100000;
const FOLDER = 0o040000;

const PART_BYTES = 256 * 1024;

function* partsOf(file: SourceFile, start: number, end: number): Generator<Buffer> {
  for (let at = start; at < end; at += PART_BYTES) yield file.read(at, Math.min(PART_BYTES, end - at));
}

/** Reads an open file for the library. A range outside of the file is an error of the archive. */
class SourceReader extends RandomAccessReader {
  constructor(readonly file: SourceFile) {
    super();
  }

  override _readStreamForRange(start: number, end: number): Readable {
    return Readable.from(partsOf(this.file, start, end), { objectMode: false });
  }

  override read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null) => void,
  ): void {
    let failure: Error | null = null;
    try {
      if (position < 0 || position + length > this.file.bytes)
        throw new Error("it points outside of the file");
      this.file.fill(buffer.subarray(offset, offset + length), position);
    } catch (error) {
      failure = error as Error;
    }
    queueMicrotask(() => callback(failure));
  }

  /** The owner of the file closes it. */
  override close(callback: (error: Error | null) => void): void {
    queueMicrotask(() => callback(null));
  }
}

/**
 * Lists the files of a ZIP without unpacking any. Each name must be relative and stay within the archive, each extent
 * must lie within the file and overlap no other one, and only regular files may be there.
 *
 * @throws ImportError
 */
export async function listZip(file: SourceFile): Promise<ZipEntry[]> {
  const refuse = (reason: string) => new ImportError(file.name, reason);
  try {
    const zip = await fromRandomAccessReaderPromise(new SourceReader(file), file.bytes, {
      lazyEntries: true,
      autoClose: false,
      strictFileNames: true,
    });
    if (zip.entryCount > MAX_ENTRIES) throw refuse(`it has more than ${MAX_ENTRIES} entries`);
    const entries: ZipEntry[] = [];
    const names = new Set<string>();
    for await (const entry of zip.eachEntry()) {
      checkKind(file, entry);
      if (names.has(entry.fileName)) throw refuse(`it has two entries ${entry.fileName}`);
      names.add(entry.fileName);
      if (!entry.fileName.endsWith("/")) entries.push(await locate(file, zip, entry));
    }
    checkExtents(file, entries);
    return entries;
  } catch (error) {
    if (error instanceof ImportError) throw error;
    throw refuse(`it is not a usable ZIP: ${errorMessage(error)}`);
  }
}

function checkKind(file: SourceFile, entry: Entry): void {
  const { fileName, externalFileAttributes, compressionMethod } = entry;
  const refuse = (reason: string) =>
    new ImportError(file.name, `its entry ${JSON.stringify(fileName)} ${reason}`);
  if (/\p{Cc}/u.test(fileName) || fileName === "" || fileName.startsWith("/"))
    throw refuse("has an unusable name");
  const type = (externalFileAttributes >>> 16) & TYPE_MASK;
  if (type !== 0 && type !== REGULAR && type !== FOLDER) throw refuse("is a link or device, not a file");
  if (entry.isEncrypted()) throw refuse("is encrypted");
  if (compressionMethod !== STORED && compressionMethod !== DEFLATED) {
    throw refuse(`is packed by method ${compressionMethod}, which is not supported`);
  }
}

async function locate(file: SourceFile, zip: ZipFile, entry: Entry): Promise<ZipEntry> {
  const { fileName: name, compressedSize: packedBytes, uncompressedSize: bytes } = entry;
  const header = await zip.readLocalFileHeaderPromise(entry);
  if (header.compressionMethod !== entry.compressionMethod) {
    throw new ImportError(file.name, `its entry ${name} is described in two ways`);
  }
  return {
    name,
    position: header.fileDataStart,
    packedBytes,
    bytes,
    isPacked: entry.compressionMethod !== STORED,
    crc32: entry.crc32,
    stream: () => zip.openReadStreamPromise(entry),
  };
}

function checkExtents(file: SourceFile, entries: readonly ZipEntry[]): void {
  let end = 0;
  for (const { name, position, packedBytes } of entries.toSorted((a, b) => a.position - b.position)) {
    if (position < end) throw new ImportError(file.name, `its entry ${name} overlaps another one`);
    end = position + packedBytes;
    if (end > file.bytes) throw new ImportError(file.name, `its entry ${name} reaches beyond the file`);
  }
}
