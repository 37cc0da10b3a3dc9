import { statSync } from "node:fs";
import { dirname, join } from "node:path";
import { AppError } from "../../domain/errors.ts";
import type { InstalledModel, ModelManifest } from "../../domain/model.ts";
import { FAMILIES } from "../../families/families.ts";
import { giveToOwner } from "../../lib/give-to-owner.ts";
import { readRegularFile } from "../../lib/regular-file.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { invalidFile, keepDefault, type ModelAddingDeps, orInvalid, tryOut } from "./model-adding.ts";
import { partPaths, placeModel, placeModelFolder } from "./model-files.ts";
import { MAX_MANIFEST_BYTES, parseManifest } from "./model-manifest.ts";
import type { ModelRegistry } from "./model-registry.ts";

/** A model with its own manifest, whose files are under temporary names on the disk of the models. */
export type PreparedFiles = {
  manifestPath: string;
  /** The ggml file, or the folder of a model with several files. */
  path: string;
};

/** A prepared model that has been checked. `isThere`: the same model is installed already. */
export type PreparedModel = { manifest: ModelManifest; path: string; bytes: number; isThere: boolean };

/**
 * Checks a prepared model: the manifest, the hash of every file, and that the engine can use it.
 *
 * @throws AppError `invalid_request` (detail `file`); `conflict` when another model has the id
 */
export async function checkPrepared(
  deps: ModelAddingDeps,
  registry: ModelRegistry,
  { manifestPath, path }: PreparedFiles,
): Promise<PreparedModel> {
  const { families = FAMILIES } = deps;
  const manifest = orInvalid(() =>
    parseManifest(readRegularFile(manifestPath, MAX_MANIFEST_BYTES), manifestPath, families),
  );
  const existing = registry.find(manifest.id);
  if (existing && (existing.embedded || existing.sha256 !== manifest.sha256)) {
    throw new AppError("conflict", { message: `There is another model ${manifest.id} already.` });
  }
  const files = manifest.parts ? partPaths(path, manifest.parts) : { weights: path };
  const hashes = manifest.parts?.map((part) => [join(path, part.name), part.sha256] as const) ?? [
    [path, manifest.sha256] as const,
  ];
  for (const [file, sha256] of hashes) {
    if ((await sha256OfFile(file)) !== sha256)
      throw invalidFile(`${manifest.id}: ${file} is not the file of its manifest.`);
  }
  orInvalid(() => {
    families.of(manifest.family).check(files);
  });
  const bytes = Object.values(files).reduce((sum, file) => sum + statSync(file).size, 0);
  const isThere = existing !== undefined;
  if (!isThere) await tryOut(deps.tryOutModel, { ...manifest, files, bytes, embedded: false });
  return { manifest, path, bytes, isThere };
}

/** Installs a model that `checkPrepared` has accepted. */
export async function placePrepared(
  { families = FAMILIES }: Pick<ModelAddingDeps, "families">,
  registry: ModelRegistry,
  { manifest, path, bytes }: PreparedModel,
): Promise<InstalledModel> {
  const { directory } = registry;
  const { id, sha256, parts } = manifest;
  await keepDefault(registry, id, () =>
    parts
      ? placeModelFolder(directory, { path, parts, bytes }, manifest, families)
      : placeModel(directory, { path, sha256, bytes }, manifest, families),
  );
  const model = registry.requireInstalled(id);
  const files = Object.values(model.files);
  for (const file of parts ? [dirname(files[0] ?? ""), ...files] : files) giveToOwner(file);
  return model;
}
