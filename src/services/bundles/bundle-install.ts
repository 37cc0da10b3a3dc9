import type { KeyObject } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, mkdir, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { type ReadEntry, Unpack } from "tar";
import type { InstalledModel } from "../../domain/model.ts";
import { freeBytesOf } from "../../lib/disk-space.ts";
import { syncPath, unfinishedPath } from "../../lib/durable-files.ts";
import { giveToOwner, makeFolder } from "../../lib/give-to-owner.ts";
import { asOwnerOf, asWriterOf } from "../../lib/rights.ts";
import { copyPrivately } from "../../store/backup.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import type { ModelService } from "../models/models.ts";
import type { PreparedModel } from "../models/prepared-models.ts";
import { createEntryCheck } from "../signed/folder-tar.ts";
import { feedTar, piecesOf, TarError } from "../signed/tar-pieces.ts";
import { type BundleContents, BundleError, EXECUTABLE, FOLDER } from "./bundle-format.ts";
import { BUNDLE_RULES, type VerifiedBundle, verifyBundle } from "./bundle-verify.ts";

export type InstallOptions = {
  key: KeyObject;
  models: ModelService;
  /** The folder of GPU backends of the data directory. */
  backendsDir: string;
  /** Where the executable is written; undefined: it is left in the bundle. */
  executable: string | undefined;
  reserveBytes: number;
};

/** What an installation has done. */
export type InstalledBundle = {
  verified: VerifiedBundle;
  installed: InstalledModel[];
  /** Models that were there already. */
  present: string[];
  backends: string[];
  executable: string | undefined;
};

const BACKEND_NAME = /^libggml-[a-z0-9-]{1,40}\.so$/;
const FOLDER_MODE = 0o755;
const PROGRAM_MODE = 0o755;

/**
 * Installs a bundle. Signature and hashes of everything are verified before anything is written, and all models are
 * checked and tried before the first one is installed.
 *
 * @throws BundleError; AppError `conflict` when another model has an id; AppError `invalid_request` for a model that cannot
 *   be used
 */
export async function installBundle(path: string, options: InstallOptions): Promise<InstalledBundle> {
  const { models, backendsDir } = options;
  const verified = await verifyBundle(path, options.key);
  const { contents } = verified;
  checkContents(contents, options);
  requireSpace(models.directory, verified.bytes + options.reserveBytes);
  makeFolder(models.directory, FOLDER_MODE);
  const staging = unfinishedPath(models.directory);
  await mkdir(staging, { mode: 0o700 });
  try {
    await unpack(path, staging, verified);
    const at = (name: string) => join(staging, FOLDER, name);
    const prepared: PreparedModel[] = [];
    for (const { id } of contents.models) prepared.push(await models.prepare(preparedFiles(id, at)));
    const installed: InstalledModel[] = [];
    for (const model of prepared) if (!model.isThere) installed.push(await models.addPrepared(model));
    for (const name of contents.backends)
      await asOwnerOf(backendsDir, () =>
        putInPlace(at(`backends/${name}`), join(backendsDir, name), FOLDER_MODE),
      );
    const { executable } = options;
    if (executable !== undefined)
      await asWriterOf(executable, () => putInPlace(at(EXECUTABLE), executable, PROGRAM_MODE));
    return {
      verified,
      installed,
      present: prepared.filter(({ isThere }) => isThere).map(({ manifest }) => manifest.id),
      backends: contents.backends,
      executable: options.executable,
    };
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

function preparedFiles(id: string, at: (name: string) => string) {
  const file = at(`models/${id}.bin`);
  return { manifestPath: at(`models/${id}.toml`), path: existsSync(file) ? file : at(`models/${id}`) };
}

function checkContents({ models, backends, executable }: BundleContents, options: InstallOptions): void {
  for (const { id } of models) {
    if (!/^[a-z0-9][a-z0-9._-]{0,63}$/.test(id))
      throw new BundleError(`${JSON.stringify(id)} cannot be a model's id`);
  }
  for (const name of backends) {
    if (!BACKEND_NAME.test(name)) throw new BundleError(`${JSON.stringify(name)} cannot be a backend's name`);
  }
  if (options.executable !== undefined && !executable) throw new BundleError("it holds no executable");
}

function requireSpace(directory: string, bytes: number): void {
  let folder = directory;
  while (!existsSync(folder)) folder = dirname(folder);
  if (freeBytesOf(folder) < bytes) {
    throw new Error(`The disk of the models has not enough space: ${Math.ceil(bytes / 1e6)} MB are needed.`);
  }
}

/** Unpacks the verified files, and compares each again: the bundle may have changed since it was verified. */
async function unpack(path: string, staging: string, { hashes, bytes }: VerifiedBundle): Promise<void> {
  const check = createEntryCheck(BUNDLE_RULES);
  let left = bytes;
  const filter = (_path: string, entry: unknown): boolean => {
    const one = entry as ReadEntry;
    const checked = check(one);
    if (!("name" in checked)) return false;
    left -= one.size;
    return left >= 0 && hashes.has(checked.name);
  };
  const unpacking = new Unpack({ cwd: staging, strict: true, filter, preserveOwner: false });
  try {
    await feedTar(piecesOf(path), unpacking);
  } catch (error) {
    if (error instanceof TarError) throw new BundleError(error.message);
    throw error;
  }
  for (const [name, sha256] of hashes) {
    const file = join(staging, FOLDER, name);
    if (!existsSync(file) || (await sha256OfFile(file)) !== sha256) {
      throw new BundleError(`${name} has changed while the bundle was installed`);
    }
    await chmod(file, 0o644);
    giveToOwner(file);
  }
}

/** Puts a file in its place at once, on whatever disk that is. */
async function putInPlace(from: string, to: string, mode: number): Promise<void> {
  const target = resolve(to);
  makeFolder(dirname(target), FOLDER_MODE);
  const unfinished = unfinishedPath(dirname(target));
  try {
    copyPrivately(from, unfinished);
    await chmod(unfinished, mode);
    giveToOwner(unfinished);
    await syncPath(unfinished);
    await rename(unfinished, target);
    await syncPath(dirname(target));
  } finally {
    await rm(unfinished, { force: true });
  }
}
