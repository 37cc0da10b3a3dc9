import { expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { isSignedBy, keyFingerprint, readPrivateKey, readPublicKey, signMessage } from "./signatures.ts";

/** RFC 8032 section 7.1, TEST 3. */
const SEED = "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7";
const PUBLIC = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";
const SIGNATURE =
  "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a";
const PKCS8_PREFIX = "302e020100300506032b657004220420";
const SPKI_PREFIX = "302a300506032b6570032100";

function pem(label: string, hex: string): string {
  return `-----BEGIN ${label}-----\n${Buffer.from(hex, "hex").toString("base64")}\n-----END ${label}-----\n`;
}

test("it signs and verifies as RFC 8032 says", () => {
  const privateKey = readPrivateKey(pem("PRIVATE KEY", PKCS8_PREFIX + SEED));
  const publicKey = readPublicKey(pem("PUBLIC KEY", SPKI_PREFIX + PUBLIC));
  const message = Buffer.from("af82", "hex");
  const signature = signMessage(message, privateKey);
  expect(Buffer.from(signature).toString("hex")).toBe(SIGNATURE);
  expect(isSignedBy(message, signature, publicKey)).toBe(true);
  expect(isSignedBy(Buffer.from("af83", "hex"), signature, publicKey)).toBe(false);
  expect(isSignedBy(message, signature.subarray(1), publicKey)).toBe(false);
  expect(isSignedBy(message, Buffer.concat([signature, Buffer.from([0])]), publicKey)).toBe(false);
  const other = generateKeyPairSync("ed25519").publicKey;
  expect(isSignedBy(message, signature, other)).toBe(false);
  expect(keyFingerprint(privateKey)).toBe(keyFingerprint(publicKey));
  expect(keyFingerprint(other)).not.toBe(keyFingerprint(publicKey));
});

const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const ed25519 = generateKeyPairSync("ed25519");

test.each([
  ["a private key as public one", ed25519.privateKey.export({ type: "pkcs8", format: "pem" }), "private key"],
  ["an RSA key", rsa.publicKey.export({ type: "spki", format: "pem" }), "rsa, not for Ed25519"],
  ["an empty file", "", "not a public key"],
  ["text", "hello\n", "not a public key"],
])("%s is refused", (_what, text, message) => {
  expect(() => readPublicKey(String(text))).toThrow(message);
});

test("a public key does not sign", () => {
  const text = ed25519.publicKey.export({ type: "spki", format: "pem" });
  expect(() => readPrivateKey(String(text))).toThrow("not a private key");
});
