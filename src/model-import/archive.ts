import { closeSync, openSync, writeSync } from "node:fs";
import { join, posix } from "node:path";
import { crc32 } from "node:zlib";
import { errorMessage } from "../lib/error-message.ts";
import { isWeightsName } from "./checkpoint.ts";
import { ImportError } from "./import-error.ts";
import type { CheckpointFolder, SourceFile } from "./source-file.ts";
import { listZip, type ZipEntry } from "./zip-entries.ts";

const CONFIG = "config.json";
/** Files of a checkpoint besides its weights. No others are unpacked. */
const SMALL_FILES = [
  CONFIG,
  "added_tokens.json",
  "adapter_config.json",
  "generation_config.json",
  "model.safetensors.index.json",
  "preprocessor_config.json",
  "pytorch_model.bin.index.json",
  "tokenizer.json",
  "vocab.json",
  "vocabulary.json",
  "vocabulary.txt",
];
const MAX_SMALL_BYTES = 64 * 1024 * 1024;
/** Whisper large in 64-bit values has 12.4 GB. */
const MAX_BYTES = 16 * 1024 ** 3;
/** Weights are nearly random: real ones shrink by a few per cent, rarely to a half. */
const MAX_RATIO = 50;

export type Unpacking = {
  /** An empty folder that receives the files. */
  into: string;
  /** Receives the number of bytes before anything is written, and throws when they have no space. */
  requireSpace: (bytes: number) => void;
  onProgress: (done: number) => void;
};

/**
 * Unpacks the one checkpoint that a ZIP holds, wherever in it its folder is. Nothing outside of `into` is written, names of
 * the archive do not become paths, and each file has exactly the length and the CRC-32 that the archive gives.
 *
 * @returns the folder
 * @throws ImportError
 */
export async function unpackCheckpoint(archive: SourceFile, unpacking: Unpacking): Promise<CheckpointFolder> {
  const entries = await listZip(archive);
  const folder = findCheckpoint(archive, entries);
  const wanted = entries.filter(
    ({ name }) => posix.dirname(name) === folder && isWanted(posix.basename(name)),
  );
  const total = wanted.reduce((sum, entry) => sum + checkedBytes(archive, entry), 0);
  if (total > MAX_BYTES)
    throw new ImportError(archive.name, `it unpacks to ${total} bytes; at most ${MAX_BYTES} are possible`);
  unpacking.requireSpace(total);
  let done = 0;
  for (const entry of wanted) {
    await unpack(archive, entry, join(unpacking.into, posix.basename(entry.name)), (bytes) => {
      done += bytes;
      unpacking.onProgress(done / total);
    });
  }
  return { path: unpacking.into };
}

const isWanted = (name: string): boolean => SMALL_FILES.includes(name) || isWeightsName(name);

/** Finds the folder with `config.json` and weights. Training runs leave further ones below it, so the topmost counts. */
function findCheckpoint(archive: SourceFile, entries: readonly ZipEntry[]): string {
  const names = new Set(entries.map(({ name }) => name));
  const withWeights = new Set(
    entries.filter(({ name }) => isWeightsName(posix.basename(name))).map(({ name }) => posix.dirname(name)),
  );
  const found = [...withWeights].filter((folder) => names.has(posix.join(folder, CONFIG)));
  const depthOf = (folder: string) => (folder === "." ? 0 : folder.split("/").length);
  const top = Math.min(...found.map(depthOf));
  const [folder, ...others] = found.filter((one) => depthOf(one) === top);
  if (folder === undefined) {
    throw new ImportError(
      archive.name,
      `it holds no folder with ${CONFIG} and weights of transformers or CTranslate2`,
    );
  }
  if (others.length > 0) {
    const list = [folder, ...others].slice(0, 3).join(", ");
    throw new ImportError(archive.name, `it holds several models (${list}): unpack it and add one folder`);
  }
  return folder;
}

function checkedBytes(archive: SourceFile, { name, bytes, packedBytes }: ZipEntry): number {
  const refuse = (reason: string) => new ImportError(archive.name, `its entry ${name} ${reason}`);
  if (!isWeightsName(posix.basename(name)) && bytes > MAX_SMALL_BYTES) {
    throw refuse(`has ${bytes} bytes; at most ${MAX_SMALL_BYTES} are possible`);
  }
  if (bytes > 1024 * 1024 && bytes > packedBytes * MAX_RATIO) {
    throw refuse("is packed more tightly than real weights can be");
  }
  return bytes;
}

async function unpack(
  archive: SourceFile,
  entry: ZipEntry,
  path: string,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const refuse = (reason: string) => new ImportError(archive.name, `its entry ${entry.name} ${reason}`);
  // An existing file is an error: two entries cannot write to one place.
  const file = openSync(path, "wx", 0o600);
  let bytes = 0;
  let sum = 0;
  try {
    for await (const part of await entry.stream()) {
      bytes += part.length;
      if (bytes > entry.bytes) throw refuse("holds more bytes than the archive says");
      sum = crc32(part, sum);
      for (let done = 0; done < part.length; ) done += writeSync(file, part, done, part.length - done);
      onBytes(part.length);
    }
  } catch (error) {
    if (error instanceof ImportError || (error as NodeJS.ErrnoException).code === "ENOSPC") throw error;
    throw refuse(`cannot be unpacked: ${errorMessage(error)}`);
  } finally {
    closeSync(file);
  }
  if (bytes !== entry.bytes) throw refuse("holds fewer bytes than the archive says");
  if (sum !== entry.crc32) throw refuse("is damaged: its CRC-32 differs");
}
