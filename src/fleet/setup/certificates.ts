import { generateKeyPair, randomBytes } from "node:crypto";
import { isIP } from "node:net";
import { promisify } from "node:util";
import { md, pki } from "node-forge";
import { DAY_MS } from "../../lib/time.ts";

/** A certificate and its private key, PEM texts. */
export type KeyedCertificate = { cert: string; key: string };

const YEARS = 10;
const RSA_BITS = 2048;
const SERIAL_BYTES = 16;

/** Returns random bytes; replaced in tests. */
type Random = (count: number) => Buffer;

/** Makes the authority of a fleet. Only certificates of this fleet come from it, so no other is trusted. */
export async function makeAuthority(fleet: string, random: Random = randomBytes): Promise<KeyedCertificate> {
  const key = await makeKey();
  const subject = [{ shortName: "CN", value: `Shruti fleet ${fleet}` }];
  const certificate = bodyOf(key, subject, subject, random);
  certificate.setExtensions([
    { name: "basicConstraints", cA: true, critical: true },
    { name: "keyUsage", keyCertSign: true, cRLSign: true, critical: true },
    { name: "subjectKeyIdentifier" },
  ]);
  return signed(certificate, key, key);
}

/** Makes the certificate of a server for its names: host names and IP addresses. */
export async function makeServerCertificate(
  authority: KeyedCertificate,
  names: readonly string[],
  random: Random = randomBytes,
): Promise<KeyedCertificate> {
  const key = await makeKey();
  const issuer = pki.certificateFromPem(authority.cert);
  const subject = [{ shortName: "CN", value: names[0] ?? "shruti" }];
  const certificate = bodyOf(key, subject, issuer.subject.attributes, random);
  certificate.setExtensions([
    { name: "basicConstraints", cA: false, critical: true },
    { name: "keyUsage", digitalSignature: true, keyEncipherment: true, critical: true },
    { name: "extKeyUsage", serverAuth: true },
    { name: "subjectAltName", altNames: [...new Set(names)].map(alternative) },
  ]);
  return signed(certificate, key, authority.key);
}

/** The kinds of names in a certificate (RFC 5280, GeneralName). */
const DNS_NAME = 2;
const IP_ADDRESS = 7;

function alternative(name: string) {
  return isIP(name) === 0 ? { type: DNS_NAME, value: name } : { type: IP_ADDRESS, ip: name };
}

/** Makes a private key, PEM. The library's own generator is many times slower. */
async function makeKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)("rsa", { modulusLength: RSA_BITS });
  return privateKey.export({ type: "pkcs1", format: "pem" }).toString();
}

function bodyOf(
  key: string,
  subject: pki.CertificateField[],
  issuer: pki.CertificateField[],
  random: Random,
): pki.Certificate {
  const certificate = pki.createCertificate();
  const { n, e } = pki.privateKeyFromPem(key);
  certificate.publicKey = pki.setRsaPublicKey(n, e);
  certificate.serialNumber = serialOf(random(SERIAL_BYTES));
  const begin = new Date(Date.now() - DAY_MS);
  certificate.validity.notBefore = begin;
  certificate.validity.notAfter = new Date(begin);
  certificate.validity.notAfter.setFullYear(begin.getFullYear() + YEARS);
  certificate.setSubject(subject);
  certificate.setIssuer(issuer);
  return certificate;
}

/**
 * Makes a positive number without leading zeros. The library writes leading zeros into the certificate, where they are a
 * mistake (X.690, 8.3.2): such a certificate is refused by every program, and one fleet of 170 could not connect at all.
 */
function serialOf(bytes: Buffer): string {
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes.toString("hex");
}

function signed(certificate: pki.Certificate, key: string, signer: string): KeyedCertificate {
  certificate.sign(pki.privateKeyFromPem(signer), md.sha256.create());
  return { cert: pki.certificateToPem(certificate), key };
}
