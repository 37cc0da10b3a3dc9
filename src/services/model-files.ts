import { createHash, randomBytes } from "node:crypto";
import { constants, readdirSync, type Stats, statSync } from "node:fs";
import { type FileHandle, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { InstalledModel, ModelManifest } from "../domain/model.ts";
import { giveToOwner, makeFolder } from "../lib/give-to-owner.ts";
import { readRegularFile, statRegularFile } from "../lib/regular-file.ts";
import { syncDirectory } from "../store/audio-files.ts";
import {
  MAX_MANIFEST_BYTES,
  ManifestError,
  MODEL_ID_PATTERN,
  parseManifest,
  renderManifest,
} from "./model-manifest.ts";

/** Installed models as they lie in their directory: `<id>.toml` beside `<id>.bin`. */

/** Large enough for few system calls, small enough that hashing one delays nothing else noticeably. */
const COPY_BYTES = 1024 * 1024;
/** Weights are no secret, and `models.dir` may be a folder of root's; the data directory itself is closed to others. */
const FILE_MODE = 0o644;
const FOLDER_MODE = 0o755;
/** Rests of a copy that was killed are removed after this time. */
const ABANDONED_AFTER_MS = 24 * 3_600_000;

export function weightsPathOf(directory: string, id: string): string {
  return pathOfModel(directory, id, ".bin");
}

export function manifestPathOf(directory: string, id: string): string {
  return pathOfModel(directory, id, ".toml");
}

/** @throws Error for an id of another form, which could name a file elsewhere */
function pathOfModel(directory: string, id: string, ending: ".bin" | ".toml"): string {
  if (!MODEL_ID_PATTERN.test(id)) throw new Error(`${JSON.stringify(id)} is no model's id`);
  return join(directory, id + ending);
}

/** What lies in the directory: models that can be used, and for each that cannot, why. */
export type ModelScan = { models: InstalledModel[]; problems: string[] };

/**
 * Reads the directory anew only where something changed since the last call: a directory's time of change tells of
 * names, each file's time and size of its content. With nothing changed a call costs a few `stat`s.
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

/** A new file that the server's user can read, whoever makes it and whatever the umask. */
async function openNew(path: string): Promise<FileHandle> {
  const file = await open(path, "wx", FILE_MODE);
  await file.chmod(FILE_MODE);
  giveToOwner(path);
  return file;
}

/** A copy of weights under a temporary name in the models' directory. */
export type StagedWeights = { path: string; sha256: string; bytes: number };

/**
 * Copies weights into the models' directory under a temporary name, hashed on the way and brought to the disk.
 *
 * @throws the file system's error; the copy is removed then
 */
export async function stageWeights(source: string, directory: string): Promise<StagedWeights> {
  makeFolder(directory, FOLDER_MODE);
  await removeAbandoned(directory);
  const path = join(directory, `.${randomBytes(6).toString("hex")}.unfinished`);
  const hash = createHash("sha256");
  let bytes = 0;
  statRegularFile(source);
  const from = await open(source, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const to = await openNew(path);
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

/** Gives staged weights their name, and then writes the manifest: a model is there once its manifest is. */
export async function placeModel(
  directory: string,
  staged: StagedWeights,
  manifest: ModelManifest,
): Promise<void> {
  await rename(staged.path, weightsPathOf(directory, manifest.id));
  await writeManifest(directory, manifest);
}

/** Removes staged weights that did not get their name. */
export async function discardStaged(staged: StagedWeights): Promise<void> {
  await rm(staged.path, { force: true });
}

/** Writes a manifest whole or not at all. */
async function writeManifest(directory: string, manifest: ModelManifest): Promise<void> {
  const unfinished = join(directory, `.${randomBytes(6).toString("hex")}.unfinished`);
  try {
    const file = await openNew(unfinished);
    try {
      await file.writeFile(renderManifest(manifest));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(unfinished, manifestPathOf(directory, manifest.id));
  } finally {
    await rm(unfinished, { force: true });
  }
  await syncDirectory(directory);
}

/** Removes a model: the manifest first, so that nobody finds a manifest without weights. */
export async function deleteModel(directory: string, id: string): Promise<void> {
  await rm(manifestPathOf(directory, id), { force: true });
  await rm(weightsPathOf(directory, id), { force: true });
  await syncDirectory(directory);
}

async function removeAbandoned(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!/^\.[0-9a-f]{12}\.unfinished$/.test(name)) continue;
    const path = join(directory, name);
    const found = await stat(path).catch(() => undefined);
    if (found && Date.now() - found.mtimeMs > ABANDONED_AFTER_MS) await rm(path, { force: true });
  }
}
