import { createHash } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { CARRIED_MODELS } from "#carried-models";
import demoWeights from "../../../models/demo.bin" with { type: "file" };
import demoManifest from "../../../models/demo.toml" with { type: "file" };
import type { InstalledModel, SpeakerWeights } from "../../domain/model.ts";
import { piecesOfBlob } from "../../lib/blob-pieces.ts";
import { writeDurably } from "../../lib/durable-files.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { makeFolder } from "../../lib/give-to-owner.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { CARRIED_NETS, type CarriedNet } from "./carried-nets.ts";
import { removeAbandoned } from "./model-files.ts";
import { parseManifest } from "./model-manifest.ts";

/** A model inside the executable: paths of its manifest and its weights. */
export type CarriedFiles = { name: string; manifest: string; weights: string };

const DEMO: CarriedFiles = { name: "demo", manifest: demoManifest, weights: demoWeights };

/** The files of all models inside the executable; the demonstration model is the last. */
export const CARRIED_FILES: readonly CarriedFiles[] = [...CARRIED_MODELS, DEMO];

/** The models inside the executable. */
export type CarriedModels = {
  /** The first is the default while no other model is installed. The last is the demonstration model. */
  models: InstalledModel[];
  /** The nets that distinguish speakers; left out: they are not wanted, or cannot be written. */
  speakerWeights?: SpeakerWeights;
  /** Says why a model is left out, one sentence each. */
  problems: string[];
};

/** `nets`: whether those that distinguish speakers are needed. */
type Wanted = { nets: boolean };

/**
 * Writes the models of the executable to the disk, because the libraries that run them read only files.
 *
 * A compiled executable copies the weights once to `<dataDir>/embedded-models/<hash>.bin`, and removes those of other
 * versions; a run from source uses the files of the build as they are.
 *
 * @throws Error when the executable is damaged or the demonstration model cannot be written. Larger models that cannot
 *   be written, such as on a full disk, are left out.
 */
export async function extractCarriedModels(
  dataDir: string,
  { nets }: Wanted = { nets: true },
): Promise<CarriedModels> {
  const folder = join(dataDir, "embedded-models");
  const demo = await extract(DEMO, folder, "hash");
  const models: InstalledModel[] = [];
  const problems: string[] = [];
  for (const carried of CARRIED_MODELS) {
    try {
      models.push(await extract(carried, folder, "size"));
    } catch (error) {
      problems.push(`the model ${carried.name} of the executable cannot be written: ${errorMessage(error)}`);
    }
  }
  models.push(demo);
  const speakerWeights = nets ? await extractNets(folder, problems) : undefined;
  if (Bun.isStandaloneExecutable) await removeOthers(folder, models);
  return { models, problems, ...(speakerWeights ? { speakerWeights } : {}) };
}

/** Adds to `problems` why the nets are left out. */
async function extractNets(folder: string, problems: string[]): Promise<SpeakerWeights | undefined> {
  const { segmentation, speaker } = CARRIED_NETS;
  try {
    return {
      segmentationPath: await pathOf(segmentation, folder, "size"),
      embeddingPath: await pathOf(speaker, folder, "size"),
      expected: { segmentation: segmentation.sha256, speaker: speaker.sha256 },
    };
  } catch (error) {
    problems.push(
      `the nets of the executable that distinguish speakers cannot be written: ${errorMessage(error)}`,
    );
    return undefined;
  }
}

/** Returns the path of a file that a library can read. */
function pathOf(
  carried: Pick<CarriedNet, "weights" | "sha256" | "name">,
  folder: string,
  known: KnownBy,
): Promise<string> | string {
  return Bun.isStandaloneExecutable ? copyOut(carried, folder, known) : carried.weights;
}

async function extract(
  { name, manifest: manifestPath, weights }: CarriedFiles,
  folder: string,
  known: KnownBy,
): Promise<InstalledModel> {
  const manifest = parseManifest(await Bun.file(manifestPath).text(), `models/${name}.toml`);
  const { size } = Bun.file(weights);
  const path = await pathOf({ weights, sha256: manifest.sha256, name }, folder, known);
  return { ...manifest, files: { weights: path }, bytes: size, embedded: true };
}

/**
 * How an earlier copy is recognized: by its hash, or by its size, where hashing would take as long as the start. The
 * engine hashes what it loads in any case.
 */
type KnownBy = "hash" | "size";

/**
 * Copies embedded weights to `<dir>/<first 12 digits of their hash>.bin`. That name never shows half of the bytes.
 *
 * @param carried `sha256`: the hash that the bytes must have, lower-case hex
 * @returns the path of the copy
 */
export async function copyOut(
  { weights, sha256, name }: { weights: string; sha256: string; name: string },
  dir: string,
  known: KnownBy,
): Promise<string> {
  const target = join(dir, fileNameOf(sha256));
  const carried = Bun.file(weights);
  const found = await stat(target).catch(() => undefined);
  const isWhole = found?.isFile() && found.size === carried.size;
  // A copy that was damaged since is written again: the engine would refuse it.
  if (isWhole && (known === "size" || (await sha256OfFile(target)) === sha256)) return target;
  makeFolder(dir, 0o700);
  await removeAbandoned(dir);
  await writeDurably(target, checkedPieces(carried, sha256, name), 0o600);
  return target;
}

/** Yields a file in pieces. @throws Error at the end for another hash */
async function* checkedPieces(file: Blob, sha256: string, name: string): AsyncGenerator<Uint8Array> {
  const hash = createHash("sha256");
  for await (const piece of piecesOfBlob(file)) {
    hash.update(piece);
    yield piece;
  }
  if (hash.digest("hex") !== sha256) {
    throw new Error(`the executable is damaged: its model ${name} differs`);
  }
}

const fileNameOf = (sha256: string) => `${sha256.slice(0, 12)}.bin`;

/**
 * Removes copies of other versions. The nets stay in any case: another process, such as the server, may want them where
 * this command does not.
 */
async function removeOthers(folder: string, models: readonly InstalledModel[]): Promise<void> {
  const kept = new Set([...models, ...Object.values(CARRIED_NETS)].map(({ sha256 }) => fileNameOf(sha256)));
  for (const name of await readdir(folder)) {
    if (!kept.has(name) && /^[0-9a-f]{12}\.bin$/.test(name)) await rm(join(folder, name), { force: true });
  }
}
