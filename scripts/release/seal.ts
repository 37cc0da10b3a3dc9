import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { appendFile } from "node:fs/promises";
import { renderSeal } from "../../src/executable/seal.ts";

/** Appends the seal to a finished executable, with which `shruti doctor --self` finds damage. */
export async function seal(path: string): Promise<void> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const piece of createReadStream(path)) {
    hash.update(piece);
    bytes += piece.length;
  }
  await appendFile(path, renderSeal({ bytes, sha256: hash.digest("hex") }));
}
