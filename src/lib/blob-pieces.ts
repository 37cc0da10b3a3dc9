const PIECE_BYTES = 4 * 1024 * 1024;

/** Yields a file in pieces, so that it is never in memory as a whole. It may be one that the executable carries. */
export async function* piecesOfBlob(file: Blob): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < file.size; at += PIECE_BYTES) {
    yield new Uint8Array(await file.slice(at, at + PIECE_BYTES).arrayBuffer());
  }
}
