import { createPublicKey, type KeyObject } from "node:crypto";
import forge from "node-forge";
import { sha256Hex } from "../../src/lib/sha256.ts";
import { signMessage } from "../../src/lib/signatures.ts";

/**
 * Renders the signature of a text in a form that OpenSSL 1.1.1 can verify. Its commands verify no Ed25519 signature of a file,
 * but that of a certificate request (RFC 2986). So the request's name is the SHA-256 of the text, its key is the signer's, and no
 * certificate is ever made from it. The same text and key give the same bytes.
 *
 * @param privateKey Ed25519
 * @returns PEM
 */
export function requestFor(text: string, privateKey: KeyObject): string {
  const spki = createPublicKey(privateKey).export({ type: "spki", format: "der" });
  const signedPart = sequence([
    forge.asn1.create(UNIVERSAL, forge.asn1.Type.INTEGER, false, "\0"),
    nameOf(sha256Hex(text)),
    forge.asn1.fromDer(spki.toString("binary")),
    // No attributes.
    forge.asn1.create(forge.asn1.Class.CONTEXT_SPECIFIC, 0, true, []),
  ]);
  const bytes = Buffer.from(forge.asn1.toDer(signedPart).getBytes(), "binary");
  const signature = Buffer.from(signMessage(bytes, privateKey)).toString("binary");
  const request = sequence([
    signedPart,
    sequence([oid(ED25519)]),
    // The first byte says that no bit is unused.
    forge.asn1.create(UNIVERSAL, forge.asn1.Type.BITSTRING, false, `\0${signature}`),
  ]);
  const base64 = Buffer.from(forge.asn1.toDer(request).getBytes(), "binary").toString("base64");
  const lines = base64.match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE REQUEST-----", ...lines, "-----END CERTIFICATE REQUEST-----", ""].join(
    "\n",
  );
}

const UNIVERSAL = forge.asn1.Class.UNIVERSAL;
/** RFC 8410. */
const ED25519 = "1.3.101.112";
const COMMON_NAME = "2.5.4.3";

const sequence = (parts: forge.asn1.Asn1[]) =>
  forge.asn1.create(UNIVERSAL, forge.asn1.Type.SEQUENCE, true, parts);

const oid = (dotted: string) =>
  forge.asn1.create(UNIVERSAL, forge.asn1.Type.OID, false, forge.asn1.oidToDer(dotted).getBytes());

function nameOf(text: string): forge.asn1.Asn1 {
  const value = forge.asn1.create(UNIVERSAL, forge.asn1.Type.UTF8, false, text);
  return sequence([
    forge.asn1.create(UNIVERSAL, forge.asn1.Type.SET, true, [sequence([oid(COMMON_NAME), value])]),
  ]);
}
