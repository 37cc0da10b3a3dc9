import type { KeyObject } from "node:crypto";
import { closeSync, existsSync, readSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { ChecksumsError, parseChecksums } from "../../lib/checksums.ts";
import { openRegularFile, readRegularFile, statRegularFile } from "../../lib/regular-file.ts";
import { isSignedBy, keyFingerprint, SIGNATURE_BYTES } from "../../lib/signatures.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { readFolderTar } from "./folder-tar.ts";
import { TarError, unpackedPiecesOf } from "./tar-pieces.ts";

/** How a file was verified: by its own signature, a signed list beside it, or a signed list inside it. */
type VerifiedBy = "signature" | "checksums" | "contents";
type Listed = { name: string; outcome: "verified" | "differs" | "absent" };
export type Verified = { file: string; by: VerifiedBy; key: string; files: Listed[] };

/** A file is not what its signer signed. */
export class NotVerifiedError extends Error {}
/** There is no signature to verify a file with. */
export class NoSignatureError extends Error {}

export const CHECKSUMS = "SHA256SUMS";
export const SIGNATURE_SUFFIX = ".sig";
/** The same signature in a form that OpenSSL 1.1.1 can verify (docs/release.md section 3). Nothing here reads it. */
const REQUEST_SUFFIX = ".csr";
/** A signature covers all bytes at once, so they are in memory. Larger files are in a list of checksums. */
const MAX_SIGNED_BYTES = 64 * 1024 * 1024;
const MAX_CHECKSUMS_BYTES = 1024 * 1024;
/** More than any release has. */
const MAX_UNPACKED_BYTES = 8 * 1024 ** 3;

/**
 * Verifies a file with the first signature that there is: `FILE.sig`; a signed `SHA256SUMS` beside it that lists it; or,
 * in a tarball of a release, the signed `SHA256SUMS` inside. For a `SHA256SUMS`, the files that it lists are verified
 * as well, as far as they are there.
 *
 * @param signaturePath signature to use instead
 * @throws NotVerifiedError; NoSignatureError; RegularFileError or the system's error when a file cannot be read
 */
export async function verifySignedFile(
  path: string,
  key: KeyObject,
  signaturePath?: string,
): Promise<Verified> {
  statRegularFile(path);
  const own = signaturePath ?? path + SIGNATURE_SUFFIX;
  if (signaturePath !== undefined || existsSync(own)) return verifyDetached(path, own, key);
  const beside = await verifyBeside(path, key);
  if (beside) return beside;
  if (isGzip(path)) return verifyTarball(path, key);
  throw new NoSignatureError(
    `there is no signature: neither ${basename(own)}, nor a ${CHECKSUMS} and ${CHECKSUMS}${SIGNATURE_SUFFIX} that list the file`,
  );
}

/** @returns the bytes, which the owner of the key signed */
function readSigned(path: string, signaturePath: string, key: KeyObject, maxBytes: number): Uint8Array {
  const { size } = statRegularFile(path);
  if (size > maxBytes) {
    throw new NotVerifiedError(
      `${path} is larger than ${maxBytes} bytes: verify it with a signed ${CHECKSUMS} beside it`,
    );
  }
  const message = readBytes(path, maxBytes);
  // One byte more than a signature has, so that a longer file is seen.
  const signature = readBytes(signaturePath, SIGNATURE_BYTES + 1);
  if (!isSignedBy(message, signature, key)) {
    throw new NotVerifiedError(
      `${path} was changed, or ${signaturePath} is not the signature of this key (${keyFingerprint(key).slice(0, 16)})`,
    );
  }
  return message;
}

async function verifyDetached(path: string, signaturePath: string, key: KeyObject): Promise<Verified> {
  const message = readSigned(path, signaturePath, key, MAX_SIGNED_BYTES);
  const isList = basename(path) === CHECKSUMS;
  const files = isList ? await checkListed(path, new TextDecoder().decode(message)) : [];
  return { file: path, by: "signature", key: keyFingerprint(key), files };
}

/** Compares the files of a list that are there. */
async function checkListed(listPath: string, text: string): Promise<Listed[]> {
  const files: Listed[] = [];
  for (const { name, sha256 } of parseList(listPath, text)) {
    const path = join(dirname(listPath), name);
    if (!existsSync(path)) files.push({ name, outcome: "absent" });
    else files.push({ name, outcome: (await hashOf(path)) === sha256 ? "verified" : "differs" });
  }
  refuseDiffering(files);
  return files;
}

function refuseDiffering(files: readonly Listed[]): void {
  const differing = files.filter(({ outcome }) => outcome === "differs").map(({ name }) => name);
  if (differing.length > 0) {
    throw new NotVerifiedError(`not as they were signed: ${differing.join(", ")}`);
  }
}

/** @returns undefined when no signed list beside the file names it */
async function verifyBeside(path: string, key: KeyObject): Promise<Verified | undefined> {
  const listPath = join(dirname(path), CHECKSUMS);
  const signaturePath = listPath + SIGNATURE_SUFFIX;
  if (!existsSync(listPath) || !existsSync(signaturePath)) return undefined;
  const text = readRegularFile(listPath, MAX_CHECKSUMS_BYTES);
  const name = basename(path);
  if (!parseList(listPath, text).some((listed) => listed.name === name)) return undefined;
  // The list is read again together with its signature: what was read before it was verified decides nothing.
  const signed = readSigned(listPath, signaturePath, key, MAX_CHECKSUMS_BYTES);
  const listed = parseList(listPath, new TextDecoder().decode(signed)).find((entry) => entry.name === name);
  if (listed?.sha256 !== (await hashOf(path))) {
    throw new NotVerifiedError(`${path} is not the file that ${listPath} lists`);
  }
  return { file: path, by: "checksums", key: keyFingerprint(key), files: [{ name, outcome: "verified" }] };
}

async function verifyTarball(path: string, key: KeyObject): Promise<Verified> {
  let wanted: Map<string, string> | undefined;
  const files = await contentsOf(path, (checksums, signature) => {
    if (!isSignedBy(checksums, signature, key)) {
      throw new NotVerifiedError(
        `the list inside ${path} was changed, or was not signed with this key (${keyFingerprint(key).slice(0, 16)})`,
      );
    }
    const list = parseList(`${CHECKSUMS} in ${path}`, new TextDecoder().decode(checksums));
    wanted = new Map(list.map(({ name, sha256 }) => [name, sha256]));
  });
  if (wanted === undefined) {
    throw new NoSignatureError(
      `there is no signature: neither beside the file, nor a ${CHECKSUMS}${SIGNATURE_SUFFIX} in it`,
    );
  }
  const listed: Listed[] = [...wanted].map(([name, sha256]) => ({
    name,
    outcome: files.get(name) === sha256 ? "verified" : "differs",
  }));
  refuseDiffering(listed);
  const further = [...files.keys()].filter(
    (name) => !wanted?.has(name) && name !== CHECKSUMS + REQUEST_SUFFIX,
  );
  if (further.length > 0) throw new NotVerifiedError(`not in the signed list: ${further.join(", ")}`);
  return { file: path, by: "contents", key: keyFingerprint(key), files: listed };
}

/** @param judge gets the list and its signature before what follows them is unpacked. @returns hashes by name */
async function contentsOf(path: string, judge: (checksums: Uint8Array, signature: Uint8Array) => void) {
  const names = [CHECKSUMS, CHECKSUMS + SIGNATURE_SUFFIX];
  const judgeBoth = (kept: ReadonlyMap<string, Uint8Array>) => {
    const [checksums, signature] = names.map((name) => kept.get(name));
    if (!checksums || !signature) return false;
    judge(checksums, signature);
    return true;
  };
  const rules = { kept: names, maxKeptBytes: MAX_CHECKSUMS_BYTES };
  try {
    return (await readFolderTar(unpackedPiecesOf(path, MAX_UNPACKED_BYTES), rules, judgeBoth)).hashes;
  } catch (error) {
    if (error instanceof TarError) throw new NotVerifiedError(`${path}: ${error.message}`);
    throw error;
  }
}

function parseList(path: string, text: string) {
  try {
    return parseChecksums(text);
  } catch (error) {
    if (error instanceof ChecksumsError) throw new NotVerifiedError(`${path}: ${error.message}`);
    throw error;
  }
}

/** Hashes a regular file in a thread. */
function hashOf(path: string): Promise<string> {
  statRegularFile(path);
  return sha256OfFile(path);
}

function isGzip(path: string): boolean {
  const [first, second] = readBytes(path, 2);
  return first === 0x1f && second === 0x8b;
}

/** Reads the first `maxBytes` bytes of a regular file, or all of them. */
function readBytes(path: string, maxBytes: number): Uint8Array {
  const descriptor = openRegularFile(path);
  try {
    const bytes = new Uint8Array(Math.min(statRegularFile(path).size, maxBytes));
    let filled = 0;
    while (filled < bytes.length) {
      const count = readSync(descriptor, bytes, filled, bytes.length - filled, filled);
      if (count === 0) break;
      filled += count;
    }
    return bytes.subarray(0, filled);
  } finally {
    closeSync(descriptor);
  }
}
