import { createHash, type KeyObject } from "node:crypto";
import { Parser, type ReadEntry } from "tar";
import { ChecksumsError, parseChecksums } from "../../lib/checksums.ts";
import { statRegularFile } from "../../lib/regular-file.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { isSignedBy, keyFingerprint } from "../../lib/signatures.ts";
import { feedTar, piecesOf, TarError } from "../signed/tar-pieces.ts";
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
const MAX_KEPT_BYTES = 4 * 1024 * 1024;
const MAX_FILES = 10_000;

type Found = { kept: Map<string, Buffer>; hashes: Map<string, string>; bytes: number; problem?: string };

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
  for (const [name, sha256] of found.hashes) {
    if (!listed.has(name)) throw new BundleError(`${name} is not in the signed list`);
    if (listed.get(name) !== sha256) throw new BundleError(`${name} is not the file that was signed`);
  }
  for (const name of listed.keys()) if (!found.hashes.has(name)) throw new BundleError(`${name} is missing`);
  return {
    contents: parseContents(contents),
    hashes: found.hashes,
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
async function readBundle(path: string, key: KeyObject): Promise<Found> {
  const found: Found = { kept: new Map(), hashes: new Map(), bytes: 0 };
  const names = new Set<string>();
  const onReadEntry = (entry: ReadEntry) => {
    const problem = problemWith(entry, names);
    if (problem !== undefined) found.problem ??= problem;
    if (found.problem !== undefined || entry.type === "Directory") return entry.resume();
    const name = entry.path.slice(FOLDER.length + 1);
    names.add(name);
    found.bytes += entry.size;
    if (KEPT.includes(name)) keep(entry, name, found);
    else hash(entry, name, found);
  };
  let isSigned = false;
  const onPiece = () => {
    if (found.problem !== undefined) throw new BundleError(found.problem);
    if (!isSigned) isSigned = requireSigned(found, key);
  };
  try {
    await feedTar(piecesOf(path), new Parser({ strict: true, onReadEntry }), onPiece);
  } catch (error) {
    if (error instanceof TarError) throw new BundleError(`it is not a bundle: ${error.message}`);
    throw error;
  }
  return found;
}

/** @returns false where list and signature are not there yet. @throws BundleError when they do not belong together */
function requireSigned({ kept }: Found, key: KeyObject): boolean {
  const [checksums, signature] = [kept.get(CHECKSUMS), kept.get(SIGNATURE)];
  if (!checksums || !signature) return false;
  if (isSignedBy(checksums, signature, key)) return true;
  throw new BundleError(`it was changed, or not signed with this key (${keyFingerprint(key).slice(0, 16)})`);
}

/** Says why an entry must not be in a bundle; undefined: it may. */
export function problemWith(entry: ReadEntry, names: ReadonlySet<string>): string | undefined {
  const { path, type } = entry;
  const shown = JSON.stringify(path.slice(0, 200));
  const parts = path.replace(/\/$/, "").split("/");
  if (parts[0] !== FOLDER || parts.some((part) => part === "" || part === "." || part === "..")) {
    return `${shown} is outside of the folder ${FOLDER}`;
  }
  if (/[\p{Cc}\\]/u.test(path)) return `${shown} has an unusable name`;
  if (type === "Directory") return undefined;
  if (type !== "File") return `${shown} is not a regular file`;
  const name = parts.slice(1).join("/");
  if (names.has(name)) return `${shown} is in it twice`;
  if (names.size >= MAX_FILES) return `it has more than ${MAX_FILES} files`;
  if (KEPT.includes(name) && entry.size > MAX_KEPT_BYTES) return `${shown} is too large`;
  return undefined;
}

function keep(entry: ReadEntry, name: string, { kept, hashes }: Found): void {
  const pieces: Uint8Array[] = [];
  entry.on("data", (piece) => void pieces.push(piece));
  entry.on("end", () => {
    const bytes = Buffer.concat(pieces);
    kept.set(name, bytes);
    if (name === CONTENTS) hashes.set(name, sha256Hex(bytes));
  });
}

function hash(entry: ReadEntry, name: string, { hashes }: Found): void {
  const digest = createHash("sha256");
  entry.on("data", (piece) => digest.update(piece));
  entry.on("end", () => void hashes.set(name, digest.digest("hex")));
}
