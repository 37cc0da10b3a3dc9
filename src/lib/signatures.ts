import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";

/** Ed25519 keys and detached signatures, in the forms of openssl: PEM files, and 64 bytes for a signature. */

export const SIGNATURE_BYTES = 64;

/** A file does not hold the key that is asked for. The message does not repeat its content. */
export class KeyError extends Error {}

/** Reads a public key: PEM with `BEGIN PUBLIC KEY`, as `openssl pkey -pubout` writes it. */
export function readPublicKey(pem: string): KeyObject {
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) {
    throw new KeyError("it is a private key: keep it secret, and give the public key");
  }
  return ed25519(() => createPublicKey(pem), "public");
}

/** Reads a private key: PEM with `BEGIN PRIVATE KEY`, as `openssl genpkey -algorithm ed25519` writes it. */
export function readPrivateKey(pem: string): KeyObject {
  return ed25519(() => createPrivateKey(pem), "private");
}

function ed25519(read: () => KeyObject, kind: "public" | "private"): KeyObject {
  let key: KeyObject;
  try {
    key = read();
  } catch {
    throw new KeyError(`it is not a ${kind} key in PEM form`);
  }
  if (key.asymmetricKeyType !== "ed25519") {
    throw new KeyError(`it is a key for ${key.asymmetricKeyType}, not for Ed25519`);
  }
  return key;
}

/** Signs all of a message. @returns `SIGNATURE_BYTES` bytes, the same for the same message and key */
export function signMessage(message: Uint8Array, privateKey: KeyObject): Uint8Array {
  return sign(null, message, privateKey);
}

/** Reports whether a signature is that of this message by the owner of the key. */
export function isSignedBy(message: Uint8Array, signature: Uint8Array, publicKey: KeyObject): boolean {
  return signature.length === SIGNATURE_BYTES && verify(null, message, publicKey, signature);
}

/** Returns the SHA-256 of a public key's DER form, lower-case hex. People compare it to know whose key it is. */
export function keyFingerprint(key: KeyObject): string {
  const publicKey = key.type === "private" ? createPublicKey(key) : key;
  return createHash("sha256")
    .update(publicKey.export({ type: "spki", format: "der" }))
    .digest("hex");
}
