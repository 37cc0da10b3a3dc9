import { open } from "node:fs/promises";
import { readFully } from "../../lib/file-bytes.ts";
import { contentRangeHeader, readRange } from "../pieces.ts";
import { BYTES_HEADERS, bare } from "./listener.ts";

/**
 * Answers a request for one piece of a file: 206, or 416 for a request without a range or with one outside the file.
 *
 * @param path a regular file
 * @returns 404 when the file is gone
 */
export async function answerPiece(request: Request, path: string): Promise<Response> {
  const file = await open(path, "r").catch(() => undefined);
  if (!file) return bare(404);
  try {
    const { size } = await file.stat();
    const piece = readRange(request.headers.get("range"), size);
    if (!piece) return new Response(null, { status: 416, headers: { "content-range": `bytes */${size}` } });
    const bytes = new Uint8Array(piece.end - piece.start);
    if ((await readFully(file, bytes, piece.start)) < bytes.length) return bare(500);
    const headers = { ...BYTES_HEADERS, "content-range": contentRangeHeader(piece, size) };
    return new Response(bytes, { status: 206, headers });
  } finally {
    await file.close();
  }
}
