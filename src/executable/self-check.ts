import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { NATIVE_FILES } from "#native-parts";
import { piecesOfBlob } from "../lib/blob-pieces.ts";
import { OWN_EXECUTABLE } from "../lib/own-executable.ts";
import { unpackCarried } from "../native/carried-files.ts";
import { CARRIED_FILES, type CarriedFiles } from "../services/models/carried-models.ts";
import { CARRIED_NETS } from "../services/models/carried-nets.ts";
import { parseManifest } from "../services/models/model-manifest.ts";
import { readSeal, SEAL_BYTES, type Seal } from "./seal.ts";

export type SelfFinding = { check: string; ok: boolean; detail: string };

const PIECE_BYTES = 1024 * 1024;

/**
 * Compares the executable with the checksums of its build: each embedded part, then the whole file with its seal.
 *
 * @param path the executable; it must be the one that runs, because the parts are read from memory
 * @returns a finding for the file and one for the parts; `ok` is false for a program that runs from source
 */
export async function examineSelf(path: string = OWN_EXECUTABLE): Promise<SelfFinding[]> {
  if (!Bun.isStandaloneExecutable) {
    return [{ check: "executable", ok: false, detail: "this program runs from source and has no checksum" }];
  }
  return [await examineFile(path), await examineParts()];
}

async function examineFile(path: string): Promise<SelfFinding> {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const end = Buffer.alloc(Math.min(size, SEAL_BYTES));
    await file.read(end, 0, end.length, size - end.length);
    const seal = readSeal(end.toString("latin1"));
    return { check: "executable", ...(await compare(file, size, seal)) };
  } finally {
    await file.close();
  }
}

async function compare(
  file: FileHandle,
  size: number,
  seal: Seal | undefined,
): Promise<{ ok: boolean; detail: string }> {
  if (seal === undefined) {
    return { ok: false, detail: "damaged: the checksum at its end is missing, cut off or unreadable" };
  }
  const bytes = size - SEAL_BYTES;
  if (bytes !== seal.bytes) {
    return { ok: false, detail: `damaged: it has ${bytes} bytes where the build wrote ${seal.bytes}` };
  }
  const sha256 = await hashOf(file, bytes);
  if (sha256 !== seal.sha256) {
    return { ok: false, detail: `damaged: its SHA-256 is ${sha256} where the build wrote ${seal.sha256}` };
  }
  return { ok: true, detail: `as it was built: ${bytes} bytes, SHA-256 ${sha256}` };
}

async function hashOf(file: FileHandle, bytes: number): Promise<string> {
  const hash = createHash("sha256");
  const piece = Buffer.alloc(PIECE_BYTES);
  for (let at = 0; at < bytes; ) {
    const { bytesRead } = await file.read(piece, 0, Math.min(PIECE_BYTES, bytes - at), at);
    // The file has become shorter. Its hash then differs.
    if (bytesRead === 0) break;
    hash.update(piece.subarray(0, bytesRead));
    at += bytesRead;
  }
  return hash.digest("hex");
}

/** Names the embedded files that differ, so that an admin sees what a damage means. */
async function examineParts(): Promise<SelfFinding> {
  const damaged: string[] = [];
  for (const file of NATIVE_FILES) {
    if ((await unpackCarried(file)) === undefined) damaged.push(file.name);
  }
  for (const model of CARRIED_FILES) {
    const name = await damagedFileOf(model);
    if (name !== undefined) damaged.push(name);
  }
  const nets = Object.values(CARRIED_NETS);
  for (const { fileName, weights, sha256 } of nets) {
    if ((await hashOfBlob(Bun.file(weights))) !== sha256) damaged.push(fileName);
  }
  const ok = damaged.length === 0;
  const count = NATIVE_FILES.length + CARRIED_FILES.length + nets.length;
  return {
    check: "parts",
    ok,
    detail: ok ? `${count} embedded files as they were built` : `damaged: ${damaged.join(", ")}`,
  };
}

/** Names a damaged file of a model. The hash of its weights is in its manifest, which may be damaged as well. */
async function damagedFileOf({ name, manifest, weights }: CarriedFiles): Promise<string | undefined> {
  let sha256: string;
  try {
    ({ sha256 } = parseManifest(await Bun.file(manifest).text(), `models/${name}.toml`));
  } catch {
    return `${name}.toml`;
  }
  return (await hashOfBlob(Bun.file(weights))) === sha256 ? undefined : `${name}.bin`;
}

async function hashOfBlob(blob: Blob): Promise<string> {
  const hash = createHash("sha256");
  for await (const piece of piecesOfBlob(blob)) hash.update(piece);
  return hash.digest("hex");
}
