import { createPublicKey, type KeyObject } from "node:crypto";
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { rename } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { create } from "tar";
import { AppError } from "../../domain/errors.ts";
import type { InstalledModel } from "../../domain/model.ts";
import { renderChecksums } from "../../lib/checksums.ts";
import { syncPath } from "../../lib/durable-files.ts";
import { asWriterOf } from "../../lib/rights.ts";
import { signMessage } from "../../lib/signatures.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { renderManifest } from "../models/model-manifest.ts";
import { requireFolderOf } from "../output-folder.ts";
import {
  type BundleContents,
  CHECKSUMS,
  CONTENTS,
  EXECUTABLE,
  FOLDER,
  FORMAT,
  LICENCES,
  SIGNATURE,
} from "./bundle-format.ts";
import { type VerifiedBundle, verifyBundle } from "./bundle-verify.ts";

export type BundleRequest = {
  models: readonly InstalledModel[];
  /** Path of the executable; undefined: it is left out. */
  executable: string | undefined;
  /** Paths of backends. */
  backends: readonly string[];
  /** Version of this program. */
  version: string;
  privateKey: KeyObject;
  createdAt: Date;
};

/**
 * Writes a bundle, and reads it again to verify it before it gets its name.
 *
 * @throws AppError `conflict` when there is such a file; BundleError when a model changes meanwhile; the system's errors
 */
export async function createBundle(path: string, request: BundleRequest): Promise<VerifiedBundle> {
  asWriterOf(path, () => {
    requireFolderOf(resolve(path));
    if (existsSync(path)) throw new AppError("conflict", { message: `There is a file ${path} already.` });
  });
  const staging = mkdtempSync(join(tmpdir(), "shruti-bundle-"));
  const unfinished = `${path}.part`;
  try {
    await stage(join(staging, FOLDER), request);
    // The list comes first, so that a reader has it before the large files.
    const first = [CHECKSUMS, SIGNATURE, CONTENTS, LICENCES].map((name) => `${FOLDER}/${name}`);
    const rest = namesOf(request).map(({ name }) => `${FOLDER}/${name}`);
    const names = [...first, ...rest];
    // What is packed is read with the rights of its place, and the bundle is written with those of another.
    const target = asWriterOf(path, () => openNew(unfinished));
    const packed = create({ cwd: staging, follow: true, portable: true, strict: true }, names);
    await pipeline(packed, createWriteStream("", { fd: target }));
    return await asWriterOf(path, async () => {
      const verified = await verifyBundle(unfinished, createPublicKey(request.privateKey));
      await syncPath(unfinished);
      await rename(unfinished, path);
      await syncPath(dirname(resolve(path)));
      return verified;
    });
  } finally {
    rmSync(staging, { recursive: true, force: true });
    asWriterOf(path, () => rmSync(unfinished, { force: true }));
  }
}

/** Opens a new file in the place of what an earlier command has left. */
function openNew(path: string): number {
  rmSync(path, { force: true });
  return openSync(path, "wx", 0o666);
}

type Source = { name: string; path?: string; text?: string };

/** Files of the bundle besides the signed list and the description. */
function namesOf({ models, executable, backends }: BundleRequest): Source[] {
  return [
    ...models.flatMap(modelFiles),
    ...(executable === undefined ? [] : [{ name: EXECUTABLE, path: executable }]),
    ...backends.map((path) => ({ name: `backends/${basename(path)}`, path })),
  ];
}

function modelFiles(model: InstalledModel): Source[] {
  const manifest = { name: `models/${model.id}.toml`, text: renderManifest(model) };
  const parts = Object.values(model.files).map((path) => ({
    name: model.parts ? `models/${model.id}/${basename(path)}` : `models/${model.id}.bin`,
    path,
  }));
  return [manifest, ...parts];
}

/** Fills a folder with links to the files, so that nothing large is copied, and with the signed list of their hashes. */
async function stage(folder: string, request: BundleRequest): Promise<void> {
  const { models, executable, backends, version, privateKey, createdAt } = request;
  const contents: BundleContents = {
    format: FORMAT,
    created_at: createdAt.toISOString(),
    version,
    models: models.map((model) => ({ id: model.id, files: modelFiles(model).map(({ name }) => name) })),
    executable: executable !== undefined,
    backends: backends.map((path) => basename(path)),
  };
  const sources: Source[] = [
    { name: CONTENTS, text: `${JSON.stringify(contents, null, 2)}\n` },
    { name: LICENCES, text: licencesOf(models) },
    ...namesOf(request),
  ];
  const checksums: { name: string; sha256: string }[] = [];
  for (const { name, path, text } of sources) {
    const target = join(folder, name);
    mkdirSync(dirname(target), { recursive: true });
    if (path === undefined) writeFileSync(target, text ?? "");
    else symlinkSync(resolve(path), target);
    checksums.push({ name, sha256: await sha256OfFile(target) });
  }
  const list = renderChecksums(checksums);
  writeFileSync(join(folder, CHECKSUMS), list);
  writeFileSync(join(folder, SIGNATURE), signMessage(Buffer.from(list), privateKey));
}

function licencesOf(models: readonly InstalledModel[]): string {
  const parts = models.map(
    ({ id, name, licence, source }) => `${id} (${name})\n  licence: ${licence}\n  source: ${source}\n`,
  );
  return `Licences of the models, as their manifests give them:\n\n${parts.join("\n")}`;
}
