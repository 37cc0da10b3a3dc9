import { afterAll, describe, expect, test } from "bun:test";
import { createHash, generateKeyPairSync } from "node:crypto";
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliCompressSync, createGzip, gzipSync, zstdCompressSync } from "node:zlib";
import { Header } from "tar";
import { signMessage } from "../../lib/signatures.ts";
import { peakMemoryOf } from "../../testing/programs/peak-memory.ts";
import { verifyBundle } from "../bundles/bundle-verify.ts";
import { verifySignedFile } from "./signed-files.ts";

/** Archives that are small, and large when they are unpacked. */

const folder = mkdtempSync(join(tmpdir(), "shruti-tar-pieces-"));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (name: string) => join(folder, name);
const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const MIB = 1024 * 1024;

function headOf(path: string, size: number): Buffer {
  const block = Buffer.alloc(512);
  new Header({ path, size, mode: 0o644, mtime: new Date(0), type: "File" }).encode(block);
  return block;
}

const padded = (bytes: Uint8Array) =>
  Buffer.concat([bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)]);
const fileOf = (path: string, bytes: Uint8Array) =>
  Buffer.concat([headOf(path, bytes.length), padded(bytes)]);

/** Packs an archive with one file of `blocks` times `block`, after some other files. Nothing large is in memory. */
async function packed(name: string, before: Buffer[], block: Buffer, blocks: number): Promise<string> {
  const gzip = createGzip({ level: 1 });
  const file = openSync(at(name), "w");
  gzip.on("data", (piece: Uint8Array) => void writeSync(file, piece));
  const write = async (bytes: Uint8Array) => {
    if (!gzip.write(bytes)) await new Promise((resolve) => gzip.once("drain", resolve));
  };
  for (const part of before) await write(part);
  await write(headOf("shruti-bundle/large", block.length * blocks));
  for (let index = 0; index < blocks; index++) await write(block);
  const end = new Promise((resolve) => gzip.once("end", resolve));
  gzip.end(Buffer.alloc(1024));
  await end;
  closeSync(file);
  return at(name);
}

/** Verifies a file in a process of its own. */
function verifyElsewhere(path: string): ReturnType<typeof peakMemoryOf> {
  const pem = publicKey.export({ type: "spki", format: "pem" }).toString();
  return peakMemoryOf(`
    const { verifySignedFile } = await import(source("services/signed/signed-files.ts"));
    const { readPublicKey } = await import(source("lib/signatures.ts"));
    const verified = verifySignedFile(${JSON.stringify(path)}, readPublicKey(${JSON.stringify(pem)}));
    outcome = await verified.then(({ files }) => files, (error) => error.message);
  `);
}

const reasonOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: Error) => error.message,
  );

/** Packs to a ninetieth: as much as may be. */
const DENSE = Buffer.concat([crypto.getRandomValues(new Uint8Array(11_000)), Buffer.alloc(MIB - 11_000)]);
const LARGE_MIB = 300;
/** The process itself has some 100 MiB. */
const MAX_MEMORY_BYTES = 240 * MIB;

describe("a packed archive", () => {
  test("that is a thousand times as large when unpacked is refused early, with little memory", async () => {
    const path = await packed("bomb.tar.gz", [], Buffer.alloc(MIB), LARGE_MIB);
    const { bytes, outcome } = await verifyElsewhere(path);
    expect(outcome).toEndWith("it is more than 100 times as large when unpacked");
    expect(bytes).toBeLessThan(MAX_MEMORY_BYTES);
  });

  test("is verified with memory that does not grow with it", async () => {
    const digest = createHash("sha256");
    for (let index = 0; index < LARGE_MIB; index++) digest.update(DENSE);
    const list = Buffer.from(`${digest.digest("hex")}  large\n`);
    const before = [
      fileOf("shruti-bundle/SHA256SUMS", list),
      fileOf("shruti-bundle/SHA256SUMS.sig", signMessage(list, privateKey)),
    ];
    const path = await packed("large.tar.gz", before, DENSE, LARGE_MIB);
    const { bytes, outcome } = await verifyElsewhere(path);
    expect(outcome).toEqual([{ name: "large", outcome: "verified" }]);
    expect(bytes).toBeLessThan(MAX_MEMORY_BYTES);
    // Another key: what follows the signature is not unpacked.
    const other = generateKeyPairSync("ed25519").publicKey;
    const startedMs = process.cpuUsage().user / 1000;
    expect(await reasonOf(verifySignedFile(path, other))).toContain("was not signed with this key");
    expect(process.cpuUsage().user / 1000 - startedMs).toBeLessThan(200);
  });

  test.each([
    ["gzip", gzipSync, "bundle.tar"],
    ["zstd", zstdCompressSync, "bundle.tar.zst"],
    ["brotli", brotliCompressSync, "bundle.tar.br"],
  ] as const)("of %s is no bundle, and is not unpacked", async (_, pack, name) => {
    writeFileSync(at(name), pack(Buffer.concat([headOf("shruti-bundle/large", MIB), Buffer.alloc(MIB)])));
    expect(await reasonOf(verifyBundle(at(name), publicKey))).toBe(
      "it is not a bundle: it is not a tar archive, or it is packed",
    );
  });

  test("that is packed twice is refused", async () => {
    writeFileSync(at("twice.tar.gz"), gzipSync(gzipSync(Buffer.alloc(64 * MIB))));
    expect(await reasonOf(verifySignedFile(at("twice.tar.gz"), publicKey))).toContain("not a tar archive");
  });

  test.each([0, 1, 511, 512])("of %d bytes is refused", async (size) => {
    writeFileSync(at("short.tar.gz"), gzipSync(Buffer.alloc(size)));
    expect(await reasonOf(verifySignedFile(at("short.tar.gz"), publicKey))).toContain("not a tar archive");
    writeFileSync(at("short.tar"), Buffer.alloc(size));
    expect(await reasonOf(verifyBundle(at("short.tar"), publicKey))).toContain("not a tar archive");
  });
});
