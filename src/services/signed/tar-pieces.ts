import { createReadStream } from "node:fs";
import { createGunzip } from "node:zlib";
import { Header, type Parser } from "tar";
import { openRegularFile } from "../../lib/regular-file.ts";

/** A file that is not a tar archive, or is damaged. The message begins after its name. */
export class TarError extends Error {}

/** What is read at once. Memory holds a few of them. */
const PIECE_BYTES = 256 * 1024;
const BLOCK_BYTES = 512;
/** Programs and models pack to a third. Only what is made to fill memory and disk packs to a hundredth. */
const MAX_RATIO = 100;
/** Small files may pack better. */
const RATIO_FROM_BYTES = 64 * 1024 * 1024;

/** Reads a file piece by piece. @throws RegularFileError, the system's error */
export async function* piecesOf(path: string): AsyncGenerator<Uint8Array> {
  yield* createReadStream(path, { fd: openRegularFile(path), highWaterMark: PIECE_BYTES });
}

/**
 * Unpacks a file of gzip piece by piece, never more than is asked for.
 *
 * @param maxBytes of the unpacked file
 * @throws TarError for damage, and for more than `maxBytes` or a hundred times the packed bytes; what `piecesOf` throws
 */
export async function* unpackedPiecesOf(path: string, maxBytes: number): AsyncGenerator<Uint8Array> {
  const packed = createReadStream(path, { fd: openRegularFile(path), highWaterMark: PIECE_BYTES });
  const unpacking = createGunzip({ chunkSize: PIECE_BYTES });
  packed.on("error", (error) => unpacking.destroy(error));
  packed.pipe(unpacking);
  let bytes = 0;
  try {
    for await (const piece of unpacking as AsyncIterable<Uint8Array>) {
      bytes += piece.byteLength;
      if (bytes > maxBytes) throw new TarError(`it is larger than ${maxBytes} bytes when unpacked`);
      if (bytes > RATIO_FROM_BYTES && bytes > MAX_RATIO * packed.bytesRead)
        throw new TarError(`it is more than ${MAX_RATIO} times as large when unpacked`);
      yield piece;
    }
  } catch (error) {
    // zlib's errors have codes such as Z_DATA_ERROR.
    if (error instanceof Error && /^Z_|^ERR_/.test(String((error as NodeJS.ErrnoException).code)))
      throw new TarError("it is damaged: it cannot be unpacked");
    throw error;
  } finally {
    unpacking.destroy();
    packed.destroy();
  }
}

/**
 * Gives an archive to a reader of the tar library, and waits where that is slow. The library would unpack by itself
 * whatever begins as a packed file, faster than it is read, so anything else than a tar archive is refused first.
 *
 * @param onPiece is called when a piece has been read; what it throws ends the reading
 * @throws TarError for damage and other files; what `pieces` and `onPiece` throw
 */
export async function feedTar(
  pieces: AsyncIterable<Uint8Array>,
  reader: Parser,
  onPiece: () => void = () => {},
): Promise<void> {
  const end = Promise.withResolvers<void>();
  end.promise.catch(() => undefined);
  reader.on("error", (error) => end.reject(new TarError(`it is damaged: ${error.message}`)));
  reader.on("close", () => end.resolve());
  let isBegun = false;
  for await (const piece of wholeBlockFirst(pieces)) {
    if (!isBegun) refuseOthers(piece);
    isBegun = true;
    const isReady = reader.write(Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength));
    onPiece();
    await Promise.race([end.promise, isReady || new Promise((resolve) => reader.once("drain", resolve))]);
  }
  if (!isBegun) refuseOthers(new Uint8Array());
  reader.end();
  await end.promise;
  onPiece();
}

/** Makes the first piece at least as long as a header. */
async function* wholeBlockFirst(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let first: Uint8Array | undefined = new Uint8Array();
  for await (const piece of pieces) {
    if (first === undefined) {
      yield piece;
      continue;
    }
    first = Buffer.concat([first, piece]);
    if (first.byteLength < BLOCK_BYTES) continue;
    yield first;
    first = undefined;
  }
  if (first !== undefined && first.byteLength > 0) yield first;
}

function refuseOthers(piece: Uint8Array): void {
  if (piece.byteLength >= BLOCK_BYTES && new Header(Buffer.from(piece.subarray(0, BLOCK_BYTES))).cksumValid)
    return;
  throw new TarError("it is not a tar archive, or it is packed");
}
