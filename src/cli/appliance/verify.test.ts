import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "tar";
import { renderChecksums } from "../../lib/checksums.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { readPrivateKey, signMessage } from "../../lib/signatures.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";

/** `shruti verify` on files that were signed by it or by openssl, and on changed ones. */

const folder = mkdtempSync(join(tmpdir(), "shruti-verify-"));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (name: string) => join(folder, name);
const PUBLIC = at("public.pem");
const PRIVATE = at("private.pem");

function openssl(...args: string[]): number {
  return Bun.spawnSync(["openssl", ...args], { cwd: folder }).exitCode;
}

/** Signs with the product's code. */
function signed(path: string): void {
  const key = readPrivateKey(readFileSync(PRIVATE, "utf8"));
  writeFileSync(`${path}.sig`, signMessage(readFileSync(path), key));
}

const verify = (file: string, ...options: string[]) =>
  runCaptured(["verify", file, "--key", PUBLIC, ...options], { PATH: process.env.PATH });

/** Makes a folder with two files and their list, which is signed. */
function listed(name: string, signIt = true): string {
  const dir = at(name);
  mkdirSync(join(dir, "docs"), { recursive: true });
  const contents = { shruti: "program", "docs/a.txt": "text" };
  for (const [file, text] of Object.entries(contents)) writeFileSync(join(dir, file), text);
  const sums = Object.entries(contents).map(([file, text]) => ({ name: file, sha256: sha256Hex(text) }));
  writeFileSync(join(dir, "SHA256SUMS"), renderChecksums(sums));
  if (signIt) signed(join(dir, "SHA256SUMS"));
  return dir;
}

async function tarball(name: string, change: (dir: string) => void = () => {}): Promise<string> {
  const dir = listed(`in-${name}/top`);
  change(dir);
  // Alone in its folder, so that no list is beside it.
  mkdirSync(at(name));
  const path = join(at(name), "release.tar.gz");
  await create({ file: path, cwd: join(dir, ".."), gzip: true, portable: true }, ["top"]);
  return path;
}

beforeAll(() => {
  expect(openssl("genpkey", "-algorithm", "ed25519", "-out", PRIVATE)).toBe(0);
  expect(openssl("pkey", "-in", PRIVATE, "-pubout", "-out", PUBLIC)).toBe(0);
});

describe("a detached signature", () => {
  test("openssl verifies what this program signs, and the other way round", async () => {
    const ours = at("ours.bin");
    writeFileSync(ours, crypto.getRandomValues(new Uint8Array(5000)));
    signed(ours);
    const check = ["pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", PUBLIC, "-sigfile", `${ours}.sig`];
    expect(openssl(...check, "-in", ours)).toBe(0);

    const theirs = at("theirs.txt");
    writeFileSync(theirs, "signed by openssl\n");
    const sign = ["pkeyutl", "-sign", "-rawin", "-inkey", PRIVATE, "-in", theirs, "-out", `${theirs}.sig`];
    expect(openssl(...sign)).toBe(0);
    expect(await verify(theirs)).toMatchObject({
      status: 0,
      out: expect.stringContaining("verified by its signature"),
    });

    appendFileSync(ours, "x");
    expect(openssl(...check, "-in", ours)).not.toBe(0);
    expect(await verify(ours)).toMatchObject({
      status: 1,
      out: "",
      err: expect.stringContaining("was changed"),
    });
  });

  test("it may have another place, and another key's signature is refused", async () => {
    const file = at("elsewhere.txt");
    writeFileSync(file, "text");
    signed(file);
    cpSync(`${file}.sig`, at("sig"));
    rmSync(`${file}.sig`);
    expect((await verify(file, "--signature", at("sig"))).status).toBe(0);
    expect(openssl("genpkey", "-algorithm", "ed25519", "-out", "other.pem")).toBe(0);
    expect(openssl("pkey", "-in", "other.pem", "-pubout", "-out", "other.pub")).toBe(0);
    const other = ["verify", file, "--key", at("other.pub"), "--signature", at("sig")];
    expect(await runCaptured(other, {})).toMatchObject({
      status: 1,
      err: expect.stringContaining("is not the signature of this key"),
    });
  });
});

describe("a list of checksums", () => {
  test("verifies its files, and reports those that are not there", async () => {
    const dir = listed("sums");
    rmSync(join(dir, "docs/a.txt"));
    const { status, out } = await verify(join(dir, "SHA256SUMS"), "--json");
    expect(status).toBe(0);
    expect(JSON.parse(out)).toMatchObject({
      by: "signature",
      key: expect.stringMatching(/^[0-9a-f]{64}$/),
      files: [
        { name: "docs/a.txt", outcome: "absent" },
        { name: "shruti", outcome: "verified" },
      ],
    });
    writeFileSync(join(dir, "shruti"), "another program");
    expect(await verify(join(dir, "SHA256SUMS"))).toMatchObject({
      status: 1,
      err: expect.stringContaining("not as they were signed: shruti"),
    });
  });

  test("verifies a file that it lists", async () => {
    const dir = listed("beside");
    expect(await verify(join(dir, "shruti"))).toMatchObject({
      status: 0,
      out: expect.stringContaining("by the signed SHA256SUMS beside it"),
    });
    writeFileSync(join(dir, "shruti"), "another program");
    expect((await verify(join(dir, "shruti"))).status).toBe(1);
    // Someone who changes the list as well has no signature for it.
    const sums = renderChecksums([{ name: "shruti", sha256: sha256Hex("another program") }]);
    writeFileSync(join(dir, "SHA256SUMS"), sums);
    expect((await verify(join(dir, "shruti"))).status).toBe(1);
  });
});

describe("a tarball", () => {
  test("is verified by the signed list inside", async () => {
    expect(await verify(await tarball("good"))).toMatchObject({
      status: 0,
      out: expect.stringContaining("2 of 2 listed files"),
    });
  });

  test.each([
    ["a changed file", (dir: string) => writeFileSync(join(dir, "shruti"), "x"), "not as they were signed"],
    ["a missing file", (dir: string) => rmSync(join(dir, "shruti")), "not as they were signed: shruti"],
    [
      "a further file",
      (dir: string) => writeFileSync(join(dir, "extra"), "x"),
      "not in the signed list: extra",
    ],
    ["a link", (dir: string) => symlinkSync("/etc/passwd", join(dir, "link")), "not a regular file"],
    ["a changed list", (dir: string) => appendFileSync(join(dir, "SHA256SUMS"), "\n"), "was changed"],
    ["a changed signature", (dir: string) => writeFileSync(join(dir, "SHA256SUMS.sig"), "x"), "was changed"],
  ])("with %s is refused", async (what, change, message) => {
    const path = await tarball(what.replaceAll(" ", "-"), change);
    expect(await verify(path)).toMatchObject({ status: 1, out: "", err: expect.stringContaining(message) });
  });

  test("that is cut off or damaged is refused", async () => {
    const path = await tarball("cut");
    const bytes = readFileSync(path);
    writeFileSync(path, bytes.subarray(0, bytes.length - 40));
    expect((await verify(path)).status).toBe(1);
    const flipped = Buffer.from(bytes);
    flipped[60] = (flipped[60] ?? 0) ^ 0xff;
    writeFileSync(path, flipped);
    expect((await verify(path)).status).toBe(1);
  });

  test("without signature is not found to be signed", async () => {
    const path = await tarball("unsigned", (dir) => rmSync(join(dir, "SHA256SUMS.sig")));
    expect(await verify(path)).toMatchObject({
      status: 4,
      err: expect.stringContaining("there is no signature"),
    });
  });
});

test.each([
  ["no such file", ["verify", "absent", "--key", PUBLIC], 4, "ENOENT"],
  ["a folder", ["verify", folder, "--key", PUBLIC], 1, "a directory"],
  ["no signature", ["verify", PUBLIC, "--key", PUBLIC], 4, "there is no signature"],
  ["no key", ["verify", PUBLIC], 2, "--key"],
  ["no such key", ["verify", PUBLIC, "--key", "absent.pem"], 2, "ENOENT"],
  ["the private key", ["verify", PUBLIC, "--key", PRIVATE], 2, "private key"],
])("%s has its exit status", async (_what, argv, status, message) => {
  expect(await runCaptured(argv, {})).toMatchObject({
    status,
    out: "",
    err: expect.stringContaining(message),
  });
});
