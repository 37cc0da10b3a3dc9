import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { ConfigError } from "../config/problems.ts";
import type { Config } from "../config/schema.ts";
import { readRegularFile } from "../lib/regular-file.ts";
import { DAY_MS, toTimestamp } from "../lib/time.ts";

/** Largest file that is read. A chain of certificates has some kilobytes. */
const MAX_PEM_BYTES = 1024 * 1024;

/** PEM texts for `Bun.serve`, and when the certificate expires. */
export type Certificate = { tls: { cert: string; key: string }; endsAtMs: number };

/**
 * Reads and checks the certificate of `server.tls_cert` and its key. So an error names the setting, and does not come
 * from the TLS library when the server listens.
 *
 * @returns undefined without these settings: plain HTTP
 * @throws ConfigError when one of the files cannot be used, or they do not belong together
 */
export function readCertificate({ server }: Config): Certificate | undefined {
  const { tls_cert, tls_key } = server;
  if (tls_cert === "" && tls_key === "") return undefined;
  if (tls_cert === "" || tls_key === "") {
    throw new ConfigError("server.tls_cert and server.tls_key must both be set");
  }
  const cert = readText("server.tls_cert", tls_cert);
  const key = readText("server.tls_key", tls_key);
  const certificate = parse("server.tls_cert", tls_cert, "PEM file of certificates", () =>
    firstCertificate(cert),
  );
  const privateKey = parse("server.tls_key", tls_key, "PEM file of a private key without a passphrase", () =>
    createPrivateKey(key),
  );
  if (!belongTogether(certificate, privateKey)) {
    throw new ConfigError(
      `server.tls_key: ${tls_key} is not the key of the first certificate in ${tls_cert}`,
    );
  }
  return { tls: { cert, key }, endsAtMs: Date.parse(certificate.validTo) };
}

/** Warn this long before expiry. */
const SOON_MS = 14 * DAY_MS;

/** Warns of a certificate that expires soon or has expired; undefined: it does neither. */
export function endingOf(certificate: Certificate, nowMs: number): string | undefined {
  const leftMs = certificate.endsAtMs - nowMs;
  if (leftMs > SOON_MS) return undefined;
  const end = toTimestamp(certificate.endsAtMs);
  return leftMs > 0
    ? `the TLS certificate ends on ${end}: renew it and reload the server`
    : `the TLS certificate has ended on ${end}: clients refuse it`;
}

function readText(setting: string, path: string): string {
  try {
    return readRegularFile(path, MAX_PEM_BYTES);
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? "unknown";
    throw new ConfigError(`${setting}: ${path} cannot be read (${reason})`, { cause });
  }
}

function parse<T>(setting: string, path: string, form: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw new ConfigError(`${setting}: ${path} cannot be used as a ${form}`, { cause });
  }
}

/** Returns the first certificate of a chain. Parses all of them, so that a damaged one is found wherever it is. */
function firstCertificate(pem: string): X509Certificate {
  const texts = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  const [first] = texts.map((text) => new X509Certificate(text));
  if (!first) throw new Error("no certificate in it");
  return first;
}

function belongTogether(certificate: X509Certificate, key: KeyObject): boolean {
  return certificate.checkPrivateKey(key);
}
