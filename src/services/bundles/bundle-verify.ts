import type { KeyObject } from "node:crypto";
import { closeSync, readSync } from "node:fs";
import { ChecksumsError, parseChecksums } from "../../lib/checksums.ts";
import { openRegularFile, statRegularFile } from "../../lib/regular-file.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { isSignedBy, keyFingerprint } from "../../lib/signatures.ts";
import { type FolderRules, type FolderTar, readFolderTar, UnfitEntryError } from "../signed/folder-tar.ts";
import { piecesOf, TarError } from "../signed/tar-pieces.ts";
import {
  type BundleContents,
  BundleError,
  CHECKSUMS,
  CONTENTS,
  FOLDER,
  parseContents,
  SIGNATURE,
} from "./bundle-format.ts";

/** A bundle whose signature and files are right. */
export type VerifiedBundle = {
  contents: BundleContents;
  /** SHA-256 of every file by its name below the bundle's folder. */
  hashes: Map<string, string>;
  /** Size of all files together. */
  bytes: number;
  /** Fingerprint of the signer's key. */
  key: string;
};

const KEPT = [CHECKSUMS, SIGNATURE, CONTENTS];

/** What the entries of a bundle must be like. */
export const BUNDLE_RULES: FolderRules = { folder: FOLDER, kept: KEPT, maxKeptBytes: 4 * 1024 * 1024 };

/** Reports whether a path is a file that begins as a bundle does. Nothing is verified. */
export function isBundle(path: string): boolean {
  const beginning = Buffer.alloc(FOLDER.length + 1);
  const file = openRegularFile(path);
  try {
    return readSync(file, beginning) === beginning.length && beginning.toString("latin1") === `${FOLDER}/`;
  } finally {
    closeSync(file);
  }
}

/**
 * Reads a bundle once and writes nothing: every file must be listed in the signed checksums with its SHA-256, and every
 * listed file must be there. Memory does not grow with the bundle.
 *
 * @throws BundleError; RegularFileError or the system's error when it cannot be read
 */
export async function verifyBundle(path: string, key: KeyObject): Promise<VerifiedBundle> {
  statRegularFile(path);
  const found = await readBundle(path, key);
  const [checksums, signature, contents] = KEPT.map((name) => found.kept.get(name));
  if (!checksums || !signature || !contents) {
    throw new BundleError(`it is not a bundle: it needs ${FOLDER}/${KEPT.join(`, ${FOLDER}/`)}`);
  }
  const listed = readList(checksums);
  const hashes = new Map([[CONTENTS, sha256Hex(contents)], ...found.hashes]);
  for (const [name, sha256] of hashes) {
    if (!listed.has(name)) throw new BundleError(`${name} is not in the signed list`);
    if (listed.get(name) !== sha256) throw new BundleError(`${name} is not the file that was signed`);
  }
  for (const name of listed.keys()) if (!hashes.has(name)) throw new BundleError(`${name} is missing`);
  return {
    contents: parseContents(contents),
    hashes,
    bytes: found.bytes,
    key: keyFingerprint(key),
  };
}

function readList(bytes: Uint8Array): Map<string, string> {
  try {
    return new Map(parseChecksums(new TextDecoder().decode(bytes)).map(({ name, sha256 }) => [name, sha256]));
  } catch (error) {
    if (error instanceof ChecksumsError) throw new BundleError(`${CHECKSUMS}: ${error.message}`);
    throw error;
  }
}

/** Reads the files. The signature is checked as soon as it is there, before what follows it is read. */
async function readBundle(path: string, key: KeyObject): Promise<FolderTar> {
  try {
    return await readFolderTar(piecesOf(path), BUNDLE_RULES, (kept) => requireSigned(kept, key));
  } catch (error) {
    if (error instanceof UnfitEntryError) throw new BundleError(error.message);
    if (error instanceof TarError) throw new BundleError(`it is not a bundle: ${error.message}`);
    throw error;
  }
}

/** @returns false where list and signature are not there yet. @throws BundleError when they do not belong together */
function requireSigned(kept: ReadonlyMap<string, Uint8Array>, key: KeyObject): boolean {
  const [checksums, signature] = [kept.get(CHECKSUMS), kept.get(SIGNATURE)];
  if (!checksums || !signature) return false;
  if (isSignedBy(checksums, signature, key)) return true;
  throw new BundleError(`it was changed, or not signed with this key (${keyFingerprint(key).slice(0, 16)})`);
}
