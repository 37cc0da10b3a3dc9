/** Files travel between machines in pieces of this size at most: each side holds one piece of a transfer in memory. */
export const PIECE_BYTES = 4 * 1024 * 1024;

/** A part of a file. `end` is the byte after the last one. */
export type Piece = { start: number; end: number };

/** Divides a file into pieces, in order. */
export function* piecesOf(bytes: number): Generator<Piece> {
  for (let start = 0; start < bytes; start += PIECE_BYTES) {
    yield { start, end: Math.min(bytes, start + PIECE_BYTES) };
  }
}

/** Writes a piece as the header `range` of a request. */
export const rangeHeader = ({ start, end }: Piece) => `bytes=${start}-${end - 1}`;

/** Writes a piece as the header `content-range`. @param bytes size of the file; `*` where the sender need not say it */
export const contentRangeHeader = ({ start, end }: Piece, bytes: number | "*") =>
  `bytes ${start}-${end - 1}/${bytes}`;

/**
 * Reads the header `range` of a request for one piece of a file. A longer range is shortened to the largest piece, as
 * HTTP allows.
 *
 * @returns undefined for a range in another form, or outside the file
 */
export function readRange(header: string | null, bytes: number): Piece | undefined {
  const found = /^bytes=(\d{1,15})-(\d{1,15})?$/.exec(header ?? "");
  if (!found) return undefined;
  const start = Number(found[1]);
  const last = found[2] === undefined ? bytes - 1 : Number(found[2]);
  if (start >= bytes || last < start) return undefined;
  return { start, end: Math.min(last + 1, bytes, start + PIECE_BYTES) };
}
