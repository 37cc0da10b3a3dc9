import { createPublicKey, type KeyObject } from "node:crypto";
import { isSignedBy, KeyError, keyFingerprint, signMessage } from "../../lib/signatures.ts";
import { readStrictJson, StrictJsonError } from "../../lib/strict-json.ts";

/**
 * A document that people can read and every program can check: JSON with an Ed25519 signature over the document's
 * canonical form (RFC 8785: keys sorted, no spaces).
 */
export type SignedDocument<T> = {
  document: T;
  signature: { algorithm: "Ed25519"; public_key: string; fingerprint: string; value: string };
};

const pemOf = (key: KeyObject) => key.export({ type: "spki", format: "pem" }).toString();

/** Signs a document. It may hold texts, booleans, null, lists, objects and numbers. */
export function signDocument<T>(document: T, privateKey: KeyObject): SignedDocument<T> {
  const publicKey = createPublicKey(privateKey);
  const value = Buffer.from(signMessage(Buffer.from(canonicalJson(document)), privateKey)).toString("base64");
  return {
    document,
    signature: {
      algorithm: "Ed25519",
      public_key: pemOf(publicKey),
      fingerprint: keyFingerprint(publicKey),
      value,
    },
  };
}

/**
 * Checks a signed document. It must mean the same to every reader: strict JSON (`readStrictJson`), nothing beside the
 * document and its signature, and a signature that names the key with which it is right. Every other form is refused,
 * also where the signature would be right, because a person or another program could read something else in it.
 *
 * @param given text, or its bytes in UTF-8
 * @param key the public key of the signature; left out: that of the document itself, so that only later changes are
 *   found
 * @returns the document, of any form, and the fingerprint of the key
 * @throws KeyError with the reason
 */
export function verifyDocument(
  given: string | Uint8Array,
  key?: KeyObject,
): { document: unknown; fingerprint: string } {
  const { document, signature } = readSigned(typeof given === "string" ? given : decoded(given));
  const publicKey = key ?? ownKeyOf(signature.public_key);
  const fingerprint = keyFingerprint(publicKey);
  const bytes = Buffer.from(signature.value, "base64");
  const isRight =
    bytes.toString("base64") === signature.value &&
    isSignedBy(Buffer.from(canonicalJson(document)), bytes, publicKey);
  if (!isRight) {
    throw new KeyError(
      signature.fingerprint === fingerprint
        ? "it has been changed since it was signed"
        : `it is not signed with the key ${fingerprint.slice(0, 16)}`,
    );
  }
  if (signature.fingerprint !== fingerprint || signature.public_key !== pemOf(publicKey))
    throw new KeyError(`it names another key than ${fingerprint.slice(0, 16)}, with which it is signed`);
  return { document, fingerprint };
}

function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new KeyError("it is not valid UTF-8");
  }
}

const SIGNATURE = ["algorithm", "public_key", "fingerprint", "value"] as const;

/** Reads the members of a signed document, all of them and no others. */
function readSigned(text: string): SignedDocument<unknown> {
  const signed = readJson(text);
  if (!isObject(signed) || !("document" in signed) || !isObject(signed.signature))
    throw new KeyError("it is not a signed document");
  refuseOthers(signed, ["document", "signature"]);
  const { document, signature } = signed;
  refuseOthers(signature, SIGNATURE);
  if (SIGNATURE.some((name) => typeof signature[name] !== "string"))
    throw new KeyError("it is not a signed document");
  if (signature.algorithm !== "Ed25519") throw new KeyError("its signature is not of Ed25519");
  return { document, signature: signature as SignedDocument<unknown>["signature"] };
}

function readJson(text: string): unknown {
  try {
    return readStrictJson(text);
  } catch (error) {
    if (error instanceof StrictJsonError) throw new KeyError(error.message);
    throw error;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function refuseOthers(object: Record<string, unknown>, names: readonly string[]): void {
  const other = Object.keys(object).find((name) => !names.includes(name));
  if (other !== undefined)
    throw new KeyError(`it has ${JSON.stringify(other.slice(0, 100))}, which is not signed`);
}

function ownKeyOf(pem: string): KeyObject {
  try {
    const key = createPublicKey(pem);
    if (key.asymmetricKeyType === "ed25519") return key;
  } catch {}
  throw new KeyError("it names no Ed25519 key");
}

/** Renders JSON as RFC 8785 says: keys sorted, no spaces. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value ?? null);
  const entries = Object.entries(value)
    .filter(([, each]) => each !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([name, each]) => `${JSON.stringify(name)}:${canonicalJson(each)}`).join(",")}}`;
}
