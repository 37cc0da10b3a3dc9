import { createPublicKey, type KeyObject } from "node:crypto";
import { isSignedBy, KeyError, keyFingerprint, signMessage } from "../../lib/signatures.ts";

/**
 * A document that people can read and every program can check: JSON with an Ed25519 signature over the document's
 * canonical form (RFC 8785: keys sorted, no spaces).
 */
export type SignedDocument<T> = {
  document: T;
  signature: { algorithm: "Ed25519"; public_key: string; fingerprint: string; value: string };
};

/** Signs a document. It may hold texts, booleans, null, lists, objects and numbers. */
export function signDocument<T>(document: T, privateKey: KeyObject): SignedDocument<T> {
  const publicKey = createPublicKey(privateKey);
  const value = Buffer.from(signMessage(Buffer.from(canonicalJson(document)), privateKey)).toString("base64");
  return {
    document,
    signature: {
      algorithm: "Ed25519",
      public_key: publicKey.export({ type: "spki", format: "pem" }).toString(),
      fingerprint: keyFingerprint(publicKey),
      value,
    },
  };
}

/**
 * Checks a signed document.
 *
 * @param key the public key of the signature; left out: that of the document itself, so that only later changes are
 *   found
 * @returns the document and the fingerprint of the key
 * @throws KeyError with the reason
 */
export function verifyDocument<T>(text: string, key?: KeyObject): { document: T; fingerprint: string } {
  let signed: Partial<SignedDocument<T>> | null;
  try {
    signed = JSON.parse(text) as Partial<SignedDocument<T>> | null;
  } catch {
    throw new KeyError("it is not JSON");
  }
  const { document, signature } = signed ?? {};
  if (document === undefined || typeof signature?.value !== "string")
    throw new KeyError("it is not a signed document");
  const publicKey = key ?? ownKeyOf(String(signature.public_key));
  const fingerprint = keyFingerprint(publicKey);
  const message = Buffer.from(canonicalJson(document));
  if (!isSignedBy(message, Buffer.from(signature.value, "base64"), publicKey)) {
    throw new KeyError(
      signature.fingerprint === fingerprint
        ? "it has been changed since it was signed"
        : `it is not signed with the key ${fingerprint.slice(0, 16)}`,
    );
  }
  return { document, fingerprint };
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
