import { createHash } from "node:crypto";
import { constants, readdirSync, type Stats, statSync } from "node:fs";
import { type FileHandle, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { InstalledModel, ModelManifest } from "../../domain/model.ts";
import {
  createFile,
  isUnfinishedName,
  syncPath,
  unfinishedPath,
  writeDurably,
} from "../../lib/durable-files.ts";
import { makeFolder } from "../../lib/give-to-owner.ts";
import { readRegularFile, statRegularFile } from "../../lib/regular-file.ts";
import {
  MAX_MANIFEST_BYTES,
  ManifestError,
  MODEL_ID_PATTERN,
  parseManifest,
  renderManifest,
} from "./model-manifest.ts";

/** Installed models as files of a directory: `<id>.toml` beside `<id>.bin`. */

/** Bytes that are read, hashed and written at once: few system calls, and each hash blocks for about a millisecond. */
const COPY_BYTES = 1024 * 1024;
/** Weights are not secret, and `models.dir` may belong to root. Others cannot enter the data directory itself. */
const FILE_MODE = 0o644;
const FOLDER_MODE = 0o755;
/** Files of a copy that was killed are removed after this time. */
const ABANDONED_AFTER_MS = 24 * 3_600_000;

export function weightsPathOf(directory: string, id: string): string {
  return pathOfModel(directory, id, ".bin");
}

export function manifestPathOf(directory: string, id: string): string {
  return pathOfModel(directory, id, ".toml");
}

/** @throws Error for a text that is not a valid id, because it could name a file elsewhere */
function pathOfModel(directory: string, id: string, ending: ".bin" | ".toml"): string {
  if (!MODEL_ID_PATTERN.test(id)) throw new Error(`${JSON.stringify(id)} is not a valid model id`);
  return join(directory, id + ending);
}

/** What the directory holds: models that can be used, and for each that cannot be used a sentence that says why. */
export type ModelScan = { models: InstalledModel[]; problems: string[] };

/**
 * Creates a function that scans the directory. It reads the manifests again only when inode, time or size of a file has
 * changed since the last call. Otherwise a call costs one listing and a `stat` for each file.
 */
export function createModelScanner(directory: string): () => ModelScan {
  let last: { signature: string; scan: ModelScan } | undefined;
  return () => {
    const ids = listIds(directory);
    const signature = ids.map((id) => signatureOf(directory, id)).join("\n");
    if (last?.signature !== signature) last = { signature, scan: scanModels(directory, ids) };
    return last.scan;
  };
}

function listIds(directory: string): string[] {
  try {
    return readdirSync(directory)
      .filter((name) => name.endsWith(".toml"))
      .map((name) => name.slice(0, -".toml".length))
      .filter((id) => MODEL_ID_PATTERN.test(id))
      .sort();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

function signatureOf(directory: string, id: string): string {
  const part = (found: Stats | undefined) => (found ? `${found.ino} ${found.size} ${found.mtimeMs}` : "none");
  const options = { throwIfNoEntry: false } as const;
  const manifest = statSync(manifestPathOf(directory, id), options);
  return `${id} ${part(manifest)} ${part(statSync(weightsPathOf(directory, id), options))}`;
}

function scanModels(directory: string, ids: readonly string[]): ModelScan {
  const scan: ModelScan = { models: [], problems: [] };
  for (const id of ids) {
    try {
      scan.models.push(readModel(directory, id));
    } catch (error) {
      scan.problems.push((error as Error).message);
    }
  }
  return scan;
}

function readModel(directory: string, id: string): InstalledModel {
  const path = manifestPathOf(directory, id);
  const manifest = parseManifest(readRegularFile(path, MAX_MANIFEST_BYTES), path);
  if (manifest.id !== id)
    throw new ManifestError(`${path}: the file must be called ${manifest.id}.toml, after the id in it`);
  const weightsPath = weightsPathOf(directory, id);
  const weights = statSync(weightsPath, { throwIfNoEntry: false });
  if (!weights?.isFile()) throw new ManifestError(`${path}: there are no weights ${weightsPath}`);
  return { ...manifest, files: { weights: weightsPath }, bytes: weights.size, embedded: false };
}

async function* slices(file: FileHandle): AsyncGenerator<Uint8Array> {
  const buffer = new Uint8Array(COPY_BYTES);
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
  }
}

/** A copy of weights under a temporary name in the directory of models. `sha256` is lower-case hex. */
export type StagedWeights = { path: string; sha256: string; bytes: number };

/**
 * Copies weights into the directory of models under a temporary name, hashes them, and brings them to the disk.
 *
 * @throws the file system's error; the copy is then removed
 */
export async function stageWeights(source: string, directory: string): Promise<StagedWeights> {
  makeFolder(directory, FOLDER_MODE);
  await removeAbandoned(directory);
  const path = unfinishedPath(directory);
  const hash = createHash("sha256");
  let bytes = 0;
  statRegularFile(source);
  const from = await open(source, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const to = await createFile(path, FILE_MODE);
    try {
      for await (const slice of slices(from)) {
        hash.update(slice);
        await to.writeFile(slice);
        bytes += slice.length;
      }
      await to.sync();
    } finally {
      await to.close();
    }
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await from.close();
  }
  return { path, sha256: hash.digest("hex"), bytes };
}

/** Gives staged weights their name and then writes the manifest. A model is installed once its manifest exists. */
export async function placeModel(
  directory: string,
  staged: StagedWeights,
  manifest: ModelManifest,
): Promise<void> {
  await rename(staged.path, weightsPathOf(directory, manifest.id));
  await writeDurably(manifestPathOf(directory, manifest.id), renderManifest(manifest), FILE_MODE);
}

/** Removes staged weights that have not been placed. */
export async function discardStaged(staged: StagedWeights): Promise<void> {
  await rm(staged.path, { force: true });
}

/** Removes a model. The manifest goes first, so that a scan never finds a manifest without weights. */
export async function deleteModel(directory: string, id: string): Promise<void> {
  await rm(manifestPathOf(directory, id), { force: true });
  await rm(weightsPathOf(directory, id), { force: true });
  await syncPath(directory);
}

async function removeAbandoned(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!isUnfinishedName(name)) continue;
    const path = join(directory, name);
    const found = await stat(path).catch(() => undefined);
    if (found && Date.now() - found.mtimeMs > ABANDONED_AFTER_MS) await rm(path, { force: true });
  }
}
