import { afterAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { signDocument } from "../../services/signed/signed-documents.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-signed-file-"));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (name: string) => join(folder, name);
writeFileSync(at("document.json"), "{}");
writeFileSync(at("no-key.pem"), "hello");
Bun.spawnSync(["mkfifo", at("pipe")], {});

describe.each(["receipts", "evidence"])("%s verify", (noun) => {
  // A pipe without a writer would never end, and a device would fill the memory.
  test.each([
    ["a pipe", "pipe", "a named pipe"],
    ["a device", "/dev/zero", "a device"],
    ["a folder", ".", "a directory"],
    ["no file", "absent", "ENOENT"],
    ["no key", "no-key.pem", "not a public key"],
  ])("refuses %s as key: wrong usage, and the option is named", async (_, key, reason) => {
    const path = key.startsWith("/") ? key : at(key);
    const { status, err } = await runCaptured([noun, "verify", at("document.json"), "--key", path], {});
    expect({ status, err }).toEqual({ status: 2, err: expect.stringContaining(`--key ${path}: `) });
    expect(err).toContain(reason);
  });

  test("names a document that it cannot read once", async () => {
    const { status, err } = await runCaptured([noun, "verify", at("pipe")], {});
    expect({ status, err }).toEqual({
      status: 4,
      err: `error: ${at("pipe")}: it is a named pipe, not a regular file\n`,
    });
  });

  test.each([
    ["without its fields", { object: noun === "receipts" ? "deletion_receipt" : "transcription_evidence" }],
    ["that is another document", ["hello"]],
    ["that is nothing", null],
  ])("refuses a signed document %s in a plain sentence", async (_, document) => {
    const { privateKey } = generateKeyPairSync("ed25519");
    writeFileSync(at("signed.json"), JSON.stringify(signDocument(document, privateKey)));
    const { status, err } = await runCaptured([noun, "verify", at("signed.json")], {});
    const what = noun === "receipts" ? "a receipt" : "evidence";
    expect({ status, err }).toEqual({
      status: 1,
      err: `error: ${at("signed.json")} is not ${what} that this version can read\n`,
    });
  });

  test("refuses very many brackets in a plain sentence", async () => {
    writeFileSync(at("deep.json"), "[".repeat(200_000) + "]".repeat(200_000));
    const { status, err } = await runCaptured([noun, "verify", at("deep.json")], {});
    expect({ status, err }).toEqual({
      status: 1,
      err: `error: ${at("deep.json")}: it nests deeper than 32 levels\n`,
    });
  });
});
