import type { KeyObject } from "node:crypto";
import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { errorMessage } from "../../lib/error-message.ts";
import { KeyError } from "../../lib/signatures.ts";
import { openApplianceKey } from "../signed/appliance-key.ts";
import { signDocument, verifyDocument } from "../signed/signed-documents.ts";
import { BackupError } from "./backup-format.ts";

/**
 * The appliance signs its backups. A signature does not say that a backup is good; it says with whose key it was
 * signed, and that it has not changed since.
 */

/** By whom a backup is signed, and the fingerprint of the key; `none` and null: it is not signed. */
export type BackupSignature = {
  by: "this_machine" | "given_key" | "other_key" | "none";
  fingerprint: string | null;
};

/** Fingerprints of keys that a signature is compared with. */
export type KnownKeys = {
  /** Fingerprint of this machine's own key; undefined where it has none. */
  own?: string | undefined;
  /** Fingerprint of the key that must have signed; undefined where any key will do. */
  demanded?: string | undefined;
};

/** The key that a backup is signed with, or why it cannot be signed. */
export type BackupSigner = { key: KeyObject } | { problem: string };

const Common = { format: Type.Literal(1), created_at: Type.String({ maxLength: 40 }) };
const Sha256 = Type.String({ pattern: "^[0-9a-f]{64}$" });

/** What is signed of a backup of everything. */
export const SIGNED_LIST = Type.Object({
  object: Type.Literal("backup_signature"),
  ...Common,
  /** SHA-256 of the file `SHA256SUMS`. */
  list_sha256: Sha256,
});

/** What is signed of a copy of the database alone. */
export const SIGNED_DATABASE = Type.Object({
  object: Type.Literal("database_backup_signature"),
  ...Common,
  /** Size of the database, without the signature behind it. */
  bytes: Type.Integer({ minimum: 0 }),
  sha256: Sha256,
});

/**
 * Opens the appliance's key for a backup, and makes it where there is none. A backup without a signature is better than
 * none, so a key that cannot be used is a problem that the backup's maker reports.
 *
 * @returns a function that opens it at its first call: a backup that is refused makes no key
 */
export function backupSigner(dataDir: string): () => BackupSigner {
  let signer: BackupSigner | undefined;
  return () => {
    signer ??= openSigner(dataDir);
    return signer;
  };
}

function openSigner(dataDir: string): BackupSigner {
  try {
    return { key: openApplianceKey(dataDir) };
  } catch (error) {
    return { problem: errorMessage(error) };
  }
}

/** Signs what is known of a backup. @returns the text of the signature; undefined where the key cannot be used */
export function signatureText(
  signer: BackupSigner,
  statement: Static<typeof SIGNED_LIST> | Static<typeof SIGNED_DATABASE>,
): string | undefined {
  return "key" in signer ? `${JSON.stringify(signDocument(statement, signer.key), null, 2)}\n` : undefined;
}

/**
 * Reads a signature and finds out whose it is.
 *
 * @param text of the signature; undefined: the backup has none
 * @returns what was signed, undefined where nothing was, and by whom
 * @throws BackupError for a signature that is wrong or not of a backup, and for any other key than the demanded one
 */
export function readSignature<T extends TSchema>(
  text: string | undefined,
  schema: T,
  { own, demanded }: KnownKeys,
): { statement: Static<T> | undefined; signature: BackupSignature } {
  if (text === undefined) {
    if (demanded !== undefined) throw new BackupError("it is not signed, and --key demands a signature");
    return { statement: undefined, signature: { by: "none", fingerprint: null } };
  }
  const { document, fingerprint } = verified(text);
  if (!Value.Check(schema, document)) throw wrong("it is not the signature of such a backup");
  if (demanded !== undefined && fingerprint !== demanded) {
    throw new BackupError(`it is signed with the key ${fingerprint}, and not with that of --key`);
  }
  const by = demanded === undefined ? (fingerprint === own ? "this_machine" : "other_key") : "given_key";
  return { statement: document as Static<T>, signature: { by, fingerprint } };
}

function verified(text: string): { document: unknown; fingerprint: string } {
  try {
    return verifyDocument(text);
  } catch (error) {
    throw wrong(error instanceof KeyError ? error.message : "it cannot be read");
  }
}

const wrong = (reason: string) => new BackupError(`its signature is wrong: ${reason}`);

/** Makes the error for a backup that is not what was signed. */
export function changedSinceSigned(): BackupError {
  return wrong("the backup was changed or damaged after it was signed");
}
