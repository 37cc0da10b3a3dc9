import { appendFileSync, closeSync, fstatSync, ftruncateSync, openSync } from "node:fs";
import { AppError } from "../../domain/errors.ts";
import { toTimestamp } from "../../lib/time.ts";
import { hashNow, readWhole } from "./backup-bytes.ts";
import { BackupError } from "./backup-format.ts";
import {
  type BackupSignature,
  type BackupSigner,
  changedSinceSigned,
  type KnownKeys,
  readSignature,
  SIGNED_DATABASE,
  signatureText,
} from "./backup-signature.ts";

/**
 * The signature of a copy of the database alone. It is a block of text behind the last page of the database. SQLite reads
 * as many pages as the head of the file says, so the copy stays a database that every program of SQLite opens.
 */

/** The smallest size that is a multiple of this program's pages. */
const SEAL_BYTES = 4096;
const MARK = "Signature of the database before this line:\n";
/** The beginning of a file of SQLite: a text, then numbers of which two are read. */
const HEAD_BYTES = 100;
const HEAD_TEXT = "SQLite format 3\0";
const PAGE_SIZE_AT = 16;
const PAGES_AT = 28;

/** Adds the signature to a finished copy of the database. Nothing is added where the key cannot be used. */
export function sealDatabase(path: string, signer: BackupSigner, nowMs: number): void {
  const descriptor = openSync(path, "r");
  let text: string | undefined;
  try {
    const bytes = fstatSync(descriptor).size;
    const sha256 = hashNow({ descriptor, offset: 0, bytes });
    const object = "database_backup_signature" as const;
    text = signatureText(signer, { object, format: 1, created_at: toTimestamp(nowMs), bytes, sha256 });
  } finally {
    closeSync(descriptor);
  }
  if (text !== undefined) appendFileSync(path, `${MARK}${text}`.padEnd(SEAL_BYTES, "\n"));
}

/**
 * Takes the signature off a private copy of the file that `sealDatabase` made, and checks it. What remains is the database.
 *
 * @throws BackupError for a database that is not what was signed, and for other bytes behind the database
 */
function unsealDatabase(path: string, keys: KnownKeys): BackupSignature {
  const descriptor = openSync(path, "r+");
  try {
    const { size } = fstatSync(descriptor);
    const bytes = databaseBytes(descriptor, size);
    const behind = size - bytes;
    const text = behind === SEAL_BYTES ? sealText(descriptor, bytes) : undefined;
    if (behind > 0 && text === undefined)
      throw new BackupError(`it has ${behind} bytes behind its end that are no signature: it is damaged`);
    const { statement, signature } = readSignature(text, SIGNED_DATABASE, keys);
    if (!statement) return signature;
    if (statement.bytes !== bytes || statement.sha256 !== hashNow({ descriptor, offset: 0, bytes }))
      throw changedSinceSigned();
    ftruncateSync(descriptor, bytes);
    return signature;
  } finally {
    closeSync(descriptor);
  }
}

function sealText(descriptor: number, offset: number): string | undefined {
  const text = Buffer.from(readWhole({ descriptor, offset, bytes: SEAL_BYTES })).toString();
  return text.startsWith(MARK) ? text.slice(MARK.length) : undefined;
}

/** Returns where the last page ends, as the head of the file says; the whole size for any other file. */
function databaseBytes(descriptor: number, size: number): number {
  if (size < HEAD_BYTES) return size;
  const head = Buffer.from(readWhole({ descriptor, offset: 0, bytes: HEAD_BYTES }));
  if (head.toString("latin1", 0, HEAD_TEXT.length) !== HEAD_TEXT) return size;
  const pageSize = head.readUInt16BE(PAGE_SIZE_AT);
  // 65536 does not fit into two bytes, and is written as 1.
  const bytes = (pageSize === 1 ? 65_536 : pageSize) * head.readUInt32BE(PAGES_AT);
  return bytes > 0 && bytes < size ? bytes : size;
}

/**
 * Takes the signature off a private copy, as `unsealDatabase` does, and keeps the outcome for later: what is wrong with the
 * content of a database says more than that it was changed.
 *
 * @param name what messages call the file
 * @returns whose signature it is. @throws AppError `invalid_request` with what is wrong
 */
export function receiveSealed(path: string, keys: KnownKeys, name: string): { signature(): BackupSignature } {
  try {
    const signature = unsealDatabase(path, keys);
    return { signature: () => signature };
  } catch (error) {
    return {
      signature() {
        if (!(error instanceof BackupError)) throw error;
        throw new AppError("invalid_request", { message: `${name} is not restored: ${error.message}.` });
      },
    };
  }
}
