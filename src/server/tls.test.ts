import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCli } from "../cli/program.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { makeCertificates } from "../testing/kits/webhook-kit.ts";
import { type Certificate, endingOf, readCertificate } from "./tls.ts";

/** `server.tls_cert` and `server.tls_key`: a file that cannot be used is named before the server listens. */

const folder = mkdtempSync(join(tmpdir(), "shruti-cli-tls-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (name: string, text: string) => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};
const certificates = makeCertificates();
const CERT = file("cert.pem", certificates.address.cert);
const KEY = file("key.pem", certificates.address.key);
const OTHER_KEY = file("other.pem", certificates.receiver.key);
const GARBAGE = file("garbage.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
const CUT_CHAIN = file(
  "chain.pem",
  `${certificates.address.cert}\n${certificates.receiver.cert.replace("MI", "AA")}`,
);
certificates.remove();

const read = (tls_cert: string, tls_key: string) =>
  readCertificate(testConfig({ server: { tls_cert, tls_key } }));

test("a certificate and its key are read, and the time when the certificate expires", () => {
  const certificate = read(CERT, KEY);
  expect(certificate?.tls).toEqual({ cert: certificates.address.cert, key: certificates.address.key });
  const days = ((certificate?.endsAtMs ?? 0) - Date.now()) / 86_400_000;
  expect(days).toBeGreaterThan(1.9);
  expect(days).toBeLessThan(2.1);
  expect(read("", "")).toBeUndefined();
});

test("the expiry is announced two weeks before", () => {
  const certificate = read(CERT, KEY) as Certificate;
  const ending = (daysBefore: number) =>
    endingOf(certificate, certificate.endsAtMs - daysBefore * 86_400_000);
  expect(ending(14.1)).toBeUndefined();
  expect(ending(13.9)).toContain("renew it and reload");
  expect(ending(-0.1)).toContain("has ended");
});

test.each([
  ["only one of the two", CERT, "", "server.tls_cert and server.tls_key must both be set"],
  ["no such certificate", join(folder, "none"), KEY, "server.tls_cert: .* cannot be read \\(ENOENT\\)"],
  ["no such key", CERT, folder, "server.tls_key: .* cannot be read \\(it is a directory"],
  ["a key as certificate", KEY, KEY, "server.tls_cert: .* cannot be used as a PEM file of certificates"],
  ["a damaged certificate", GARBAGE, KEY, "server.tls_cert: .* cannot be used"],
  ["a damaged chain", CUT_CHAIN, KEY, "server.tls_cert: .* cannot be used"],
  ["a certificate as key", CERT, CERT, "server.tls_key: .* cannot be used as a PEM file of a private key"],
  ["another's key", CERT, OTHER_KEY, "server.tls_key: .* is not the key of the first certificate"],
])("%s is named", async (_what, cert, key, message) => {
  expect(() => read(cert, key)).toThrow(new RegExp(message));
  const environment = {
    SHRUTI_CONFIG: file("shruti.toml", ""),
    SHRUTI_SERVER_TLS_CERT: cert,
    SHRUTI_SERVER_TLS_KEY: key,
  };
  let err = "";
  const io = {
    out: () => {},
    err: (text: string) => {
      err += text;
    },
    environment,
  };
  expect(await runCli(["config", "check"], io)).toBe(2);
  expect(err).toMatch(new RegExp(message));
});
