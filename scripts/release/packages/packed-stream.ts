import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";

/** What was written: lengths in bytes, and the SHA-256 of the packed file. */
export type Packed = { plainBytes: number; packedBytes: number; sha256: string };

/**
 * Writes pieces into a new file, packed by gzip. Equal pieces give equal bytes.
 *
 * @param level of compression, from 1 (fast) to 9
 */
export async function writePacked(
  pieces: AsyncIterable<Uint8Array>,
  path: string,
  level: number,
): Promise<Packed> {
  const hash = createHash("sha256");
  const packed: Packed = { plainBytes: 0, packedBytes: 0, sha256: "" };
  const count = (note: (piece: Buffer) => void) =>
    new Transform({
      transform(piece: Buffer, _encoding, done) {
        note(piece);
        done(null, piece);
      },
    });
  await pipeline(
    Readable.from(pieces, { objectMode: false }),
    count((piece) => {
      packed.plainBytes += piece.length;
    }),
    createGzip({ level }),
    count((piece) => {
      packed.packedBytes += piece.length;
      hash.update(piece);
    }),
    createWriteStream(path, { flags: "wx" }),
  );
  return { ...packed, sha256: hash.digest("hex") };
}
