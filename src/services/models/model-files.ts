import { createHash } from "node:crypto";
import { constants, readdirSync, type Stats, statSync } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { InstalledModel, ModelFiles, ModelManifest, ModelPart } from "../../domain/model.ts";
import { fileKeyOf } from "../../domain/model-hash.ts";
import type { GivenFile, ModelFamily } from "../../families/contract.ts";
import { FAMILIES, type Families } from "../../families/families.ts";
import {
  createFile,
  isUnfinishedName,
  syncPath,
  unfinishedPath,
  writeDurably,
} from "../../lib/durable-files.ts";
import { giveToOwner, makeFolder } from "../../lib/give-to-owner.ts";
import { readRegularFile, statRegularFile } from "../../lib/regular-file.ts";
import { asUser, decisionOn } from "../../lib/rights.ts";
import {
  MAX_MANIFEST_BYTES,
  ManifestError,
  MODEL_ID_PATTERN,
  parseManifest,
  renderManifest,
} from "./model-manifest.ts";

/**
 * Installed models as files of a directory: `<id>.toml` beside `<id>.bin`, or beside the folder `<id>` of a model with
 * several files.
 */

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

/** Returns the folder of a model with several files. */
export function folderPathOf(directory: string, id: string): string {
  return pathOfModel(directory, id, "");
}

/** @throws Error for a text that is not a valid id, because it could name a file elsewhere */
function pathOfModel(directory: string, id: string, ending: ".bin" | ".toml" | ""): string {
  if (!MODEL_ID_PATTERN.test(id)) throw new Error(`${JSON.stringify(id)} is not a valid model id`);
  return join(directory, id + ending);
}

/** What the directory holds: models that can be used, and for each that cannot be used a sentence that says why. */
export type ModelScan = { models: InstalledModel[]; problems: string[] };

/**
 * Creates a function that scans the directory. It reads the manifests again only when inode, time or size of a file has
 * changed since the last call. Otherwise a call costs one listing and a `stat` for each file.
 */
export function createModelScanner(directory: string, families: Families = FAMILIES): () => ModelScan {
  let last: { signature: string; scan: ModelScan } | undefined;
  return () => {
    const ids = listIds(directory);
    const signature = ids.map((id) => signatureOf(directory, id)).join("\n");
    if (last?.signature !== signature) last = { signature, scan: scanModels(directory, ids, families) };
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
  const paths = [manifestPathOf(directory, id), weightsPathOf(directory, id)];
  const folder = folderPathOf(directory, id);
  if (statSync(folder, options)?.isDirectory()) {
    paths.push(...readdirSync(folder).map((name) => join(folder, name)));
  }
  return [id, ...paths.map((path) => part(statSync(path, options)))].join(" ");
}

function scanModels(directory: string, ids: readonly string[], families: Families): ModelScan {
  const scan: ModelScan = { models: [], problems: [] };
  for (const id of ids) {
    try {
      scan.models.push(readModel(directory, id, families));
    } catch (error) {
      scan.problems.push((error as Error).message);
    }
  }
  return scan;
}

function readModel(directory: string, id: string, families: Families): InstalledModel {
  const path = manifestPathOf(directory, id);
  const manifest = parseManifest(readRegularFile(path, MAX_MANIFEST_BYTES), path, families);
  if (manifest.id !== id)
    throw new ManifestError(`${path}: the file must be called ${manifest.id}.toml, after the id in it`);
  const files = manifest.parts
    ? partPaths(folderPathOf(directory, id), manifest.parts)
    : { weights: weightsPathOf(directory, id) };
  let bytes = 0;
  for (const file of Object.values(files)) {
    const found = statSync(file, { throwIfNoEntry: false });
    if (!found?.isFile()) throw new ManifestError(`${path}: there are no weights ${file}`);
    bytes += found.size;
  }
  return { ...manifest, files, bytes, embedded: false };
}

/** Returns the paths of a model's files by their roles. Weights that the model itself names have the role `weights:NAME`. */
export function partPaths(folder: string, parts: readonly ModelPart[]): ModelFiles {
  return Object.fromEntries(parts.map((part) => [fileKeyOf(part), join(folder, part.name)]));
}

/** Returns the paths of files that an admin gives, by their roles as `partPaths` has them. */
export function filesOf({ roles }: Pick<ModelFamily, "roles">, given: readonly GivenFile[]): ModelFiles {
  return Object.fromEntries(given.map((file) => [roles ? fileKeyOf(file) : file.role, file.path]));
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
  try {
    return { path, ...(await copyAndHash(source, path)) };
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
}

/** A copy of a model's files in a folder with a temporary name. */
export type StagedFolder = { path: string; parts: ModelPart[]; bytes: number };

/**
 * Does the same as `stageWeights` for a model with several files, which come into one folder under their own names.
 *
 * @param sources the files by role and name, with their paths
 * @throws the file system's error; the copies are then removed
 */
export async function stageFolder(
  sources: readonly (Pick<ModelPart, "role" | "name"> & { path: string })[],
  directory: string,
): Promise<StagedFolder> {
  makeFolder(directory, FOLDER_MODE);
  await removeAbandoned(directory);
  const staged: StagedFolder = { path: unfinishedPath(directory), parts: [], bytes: 0 };
  try {
    await mkdir(staged.path, { mode: FOLDER_MODE });
    giveToOwner(staged.path);
    for (const { role, name, path } of sources) {
      const { sha256, bytes } = await copyAndHash(path, join(staged.path, name));
      staged.parts.push({ role, name, sha256 });
      staged.bytes += bytes;
    }
    await syncPath(staged.path);
    return staged;
  } catch (error) {
    await discardStaged(staged);
    throw error;
  }
}

async function copyAndHash(source: string, target: string): Promise<{ sha256: string; bytes: number }> {
  const hash = createHash("sha256");
  let bytes = 0;
  statRegularFile(source);
  const { user, path, flags } = decisionOn(source);
  const from = await asUser(user, () => open(path, constants.O_RDONLY | constants.O_NONBLOCK | flags));
  try {
    const to = await createFile(target, FILE_MODE);
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
  } finally {
    await from.close();
  }
  return { sha256: hash.digest("hex"), bytes };
}

/** Gives staged weights their name and then writes the manifest. A model is installed once its manifest exists. */
export async function placeModel(
  directory: string,
  staged: StagedWeights,
  manifest: ModelManifest,
  families: Families = FAMILIES,
): Promise<void> {
  await rename(staged.path, weightsPathOf(directory, manifest.id));
  await writeDurably(manifestPathOf(directory, manifest.id), renderManifest(manifest, families), FILE_MODE);
}

/** Does the same as `placeModel` for a model with several files. */
export async function placeModelFolder(
  directory: string,
  staged: StagedFolder,
  manifest: ModelManifest,
  families: Families = FAMILIES,
): Promise<void> {
  const folder = folderPathOf(directory, manifest.id);
  // A folder without a manifest is left of an installation or removal that was killed.
  await rm(folder, { recursive: true, force: true });
  await rename(staged.path, folder);
  await writeDurably(manifestPathOf(directory, manifest.id), renderManifest(manifest, families), FILE_MODE);
}

/** Removes staged files that have not been placed. */
export async function discardStaged(staged: Pick<StagedWeights, "path">): Promise<void> {
  await rm(staged.path, { recursive: true, force: true });
}

/** Removes a model. The manifest goes first, so that a scan never finds a manifest without weights. */
export async function deleteModel(directory: string, id: string): Promise<void> {
  await rm(manifestPathOf(directory, id), { force: true });
  await rm(weightsPathOf(directory, id), { force: true });
  await rm(folderPathOf(directory, id), { recursive: true, force: true });
  await syncPath(directory);
}

/** Removes what killed commands have left in the directory. */
export async function removeAbandoned(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!isUnfinishedName(name)) continue;
    const path = join(directory, name);
    const found = await stat(path).catch(() => undefined);
    if (found && Date.now() - found.mtimeMs > ABANDONED_AFTER_MS) {
      await rm(path, { recursive: true, force: true });
    }
  }
}
