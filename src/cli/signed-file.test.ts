import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCaptured } from "../testing/run-cli.ts";

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
});
