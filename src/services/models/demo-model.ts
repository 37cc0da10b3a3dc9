import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import weightsFile from "../../../models/demo.bin" with { type: "file" };
import manifestFile from "../../../models/demo.toml" with { type: "file" };
import type { InstalledModel } from "../../domain/model.ts";
import { writeDurably } from "../../lib/durable-files.ts";
import { makeFolder } from "../../lib/give-to-owner.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { parseManifest } from "./model-manifest.ts";

const WEIGHTS_FILE: string = weightsFile;
const MANIFEST_FILE: string = manifestFile;

/**
 * Writes the demonstration model of the executable to the disk, because whisper.cpp reads only files.
 *
 * A compiled executable copies the weights once to `<dataDir>/embedded-models/<hash>.bin`, and removes those of other
 * versions; a run from source uses `models/demo.bin` as it is.
 *
 * @throws Error when the executable is damaged or the directory cannot be written
 */
export async function extractEmbeddedModel(dataDir: string): Promise<InstalledModel> {
  const manifest = parseManifest(await Bun.file(MANIFEST_FILE).text(), "models/demo.toml");
  const { size } = Bun.file(WEIGHTS_FILE);
  const weightsPath = Bun.isStandaloneExecutable
    ? await copyOut(WEIGHTS_FILE, join(dataDir, "embedded-models"), manifest.sha256)
    : WEIGHTS_FILE;
  return { ...manifest, files: { weights: weightsPath }, bytes: size, embedded: true };
}

/**
 * Copies an embedded file to `<dir>/<first 12 digits of its hash>.bin`. That name never shows half of the bytes.
 *
 * @param sha256 the hash that the bytes must have, lower-case hex
 * @returns the path of the copy
 */
export async function copyOut(source: string, dir: string, sha256: string): Promise<string> {
  const name = `${sha256.slice(0, 12)}.bin`;
  const target = join(dir, name);
  const carried = Bun.file(source);
  const found = await stat(target).catch(() => undefined);
  // A copy that was damaged since is written again: the engine would refuse it.
  const isWhole = found?.isFile() && found.size === carried.size && (await sha256OfFile(target)) === sha256;
  if (isWhole) return target;
  const bytes = new Uint8Array(await carried.arrayBuffer());
  if (sha256Hex(bytes) !== sha256)
    throw new Error("the executable is damaged: its demonstration model differs");
  makeFolder(dir, 0o700);
  await writeDurably(target, bytes, 0o600);
  // Copies of other versions are not needed: a program that runs with one has it in memory.
  for (const other of await readdir(dir)) {
    if (other !== name && /^[0-9a-f]{12}\.bin$/.test(other)) await rm(join(dir, other), { force: true });
  }
  return target;
}
