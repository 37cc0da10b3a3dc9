import { closeSync, existsSync, readSync } from "node:fs";
import { open, stat } from "node:fs/promises";
import { join } from "node:path";
import { openRegularFile } from "../../lib/regular-file.ts";
import { asOwnerOf } from "../../lib/rights.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { keyFingerprint } from "../../lib/signatures.ts";
import type { Store } from "../../store/database.ts";
import { findSetting, SETTING_NAMES } from "../../store/settings.ts";
import { openApplianceKey } from "../signed/appliance-key.ts";
import { verifyDocument } from "../signed/signed-documents.ts";

/**
 * Files that only grow, with a signed document in each line: what was deleted, and what was closed. They are beside the
 * database, and copies of them are in the folders of backups, so that a database from before learns of it.
 */

export const DELETIONS_FILE = "deletions.jsonl";
export const CLOSINGS_FILE = "closings.jsonl";
/** In a folder of backups: the folder with the copies of both files. */
export const JOURNAL_FOLDER = "journal";

/** Longer lines are left out: no document is so long. */
const MAX_LINE_BYTES = 64 * 1024;
const BLOCK_BYTES = 256 * 1024;

/**
 * Reads the lines of a file, which may be damaged: a line that is too long is left out. Memory does not grow with the file.
 *
 * @param start where to begin, bytes
 * @throws RegularFileError when it is not a file; the system's error when it cannot be read
 */
export function* readLines(path: string, start = 0): Generator<string> {
  if (!asOwnerOf(path, () => existsSync(path))) return;
  const file = openRegularFile(path);
  try {
    const block = Buffer.alloc(BLOCK_BYTES);
    let rest = Buffer.alloc(0);
    let isTooLong = false;
    for (let at = start; ; ) {
      const count = readSync(file, block, 0, BLOCK_BYTES, at);
      if (count === 0) break;
      at += count;
      const bytes = Buffer.concat([rest, block.subarray(0, count)]);
      let begin = 0;
      for (let end = bytes.indexOf(0x0a); end !== -1; end = bytes.indexOf(0x0a, begin)) {
        if (!isTooLong && end > begin && end - begin <= MAX_LINE_BYTES)
          yield bytes.toString("utf8", begin, end);
        isTooLong = false;
        begin = end + 1;
      }
      rest = bytes.subarray(begin);
      if (rest.length <= MAX_LINE_BYTES) continue;
      isTooLong = true;
      rest = Buffer.alloc(0);
    }
    if (!isTooLong && rest.length > 0) yield rest.toString();
  } finally {
    closeSync(file);
  }
}

/**
 * The beginning of a file that is known, or that was copied. `tail` is the SHA-256 of the last bytes of the beginning, by
 * which it is recognised: the file may be another one.
 */
export type Beginning = { bytes: number; tail: string };

const TAIL_BYTES = 4096;

/** Describes all that is in the file now. */
export async function beginningOf(path: string): Promise<Beginning> {
  const { size: bytes } = await stat(path);
  return { bytes, tail: await hashBefore(path, bytes) };
}

/** Returns how many bytes of the file belong to that beginning; 0 where it is not the file that is known. */
export async function knownBytes(path: string, known: unknown): Promise<number> {
  const { bytes = 0, tail } = (known ?? {}) as Partial<Beginning>;
  const isThere = Number.isSafeInteger(bytes) && bytes > 0 && (await stat(path)).size >= bytes;
  return isThere && (await hashBefore(path, bytes)) === tail ? bytes : 0;
}

/** Hashes the last bytes before a position of the file. */
async function hashBefore(path: string, end: number): Promise<string> {
  const file = await open(path);
  try {
    const start = Math.max(0, end - TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(end - start), 0, end - start, start);
    return sha256Hex(buffer.subarray(0, bytesRead));
  } finally {
    await file.close();
  }
}

/** Returns the fingerprints of the keys whose lines count: the appliance's own, and those of before a restore. */
export function trustedKeys(dataDir: string, store: Store): Set<string> {
  const earlier = findSetting(store, SETTING_NAMES.journalKeys);
  return new Set([
    keyFingerprint(openApplianceKey(dataDir)),
    ...(Array.isArray(earlier) ? earlier.map(String) : []),
  ]);
}

/** Returns a signed document; undefined for what was changed, and what no trusted key has signed. */
export function readTrusted(text: string, trusted: ReadonlySet<string>): unknown {
  try {
    const { document, fingerprint } = verifyDocument(text);
    return trusted.has(fingerprint) ? document : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the paths of a file in several folders, as far as it is there. */
export function pathsIn(folders: readonly string[], name: string): string[] {
  return folders
    .map((folder) => join(folder, name))
    .filter((path) => asOwnerOf(path, () => existsSync(path)));
}
