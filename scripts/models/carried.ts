import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { findWhisperBase, type WhisperBase } from "./whisper-base/weights.ts";

const ROOT = join(import.meta.dirname, "../..");
const FOLDER = join(ROOT, "build/models");
const MANIFEST = join(ROOT, "models/whisper-base.toml");
const STAMP = "stamp";
/** Names in the folder. */
const NAMES = { manifest: "whisper-base.toml", weights: "whisper-base.bin", origin: "whisper-base.json" };

/**
 * Lays out the models that the executable carries beside the demonstration model, with a module (`assets.ts`) that
 * imports each file, so that `bun build --compile` embeds them. If nothing has changed, it only compares a stamp. Without
 * the weights of Whisper base, the executable carries the demonstration model alone.
 */
export async function buildCarriedModels(): Promise<void> {
  const base = await findWhisperBase();
  const manifest = base && manifestOf(base);
  const stamp = JSON.stringify([readFileSync(import.meta.path, "utf8"), manifest]);
  const path = join(FOLDER, STAMP);
  if (!existsSync(path) || readFileSync(path, "utf8") !== stamp) layOut(base, manifest, stamp);
}

/** Returns what the last build has laid out; undefined: nothing beside the demonstration model. */
export function carriedWhisperBase(): Omit<WhisperBase, "path"> | undefined {
  const path = join(FOLDER, NAMES.origin);
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : undefined;
}

/** Adds the hash, which depends on where the build has found the weights. Tables of the file must stay behind it. */
function manifestOf({ sha256 }: WhisperBase): string {
  return readFileSync(MANIFEST, "utf8").replace(/^version = .*$/m, (line) => `${line}\nsha256 = "${sha256}"`);
}

function layOut(base: WhisperBase | undefined, manifest: string | undefined, stamp: string): void {
  const unfinished = `${FOLDER}.${process.pid}`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  if (base && manifest !== undefined) {
    const { path, ...origin } = base;
    copyFileSync(path, join(unfinished, NAMES.weights));
    writeFileSync(join(unfinished, NAMES.manifest), manifest);
    writeFileSync(join(unfinished, NAMES.origin), JSON.stringify(origin));
  }
  writeFileSync(join(unfinished, "assets.ts"), assetsModule(base !== undefined));
  writeFileSync(join(unfinished, STAMP), stamp);
  rmSync(FOLDER, { recursive: true, force: true });
  renameSync(unfinished, FOLDER);
}

function assetsModule(hasBase: boolean): string {
  const lines = [
    "// @ts-nocheck",
    "// Written by scripts/models/carried.ts. Imports of type file have no declarations, hence the line above.",
    ...(hasBase
      ? [
          `import manifest from "./${NAMES.manifest}" with { type: "file" };`,
          `import weights from "./${NAMES.weights}" with { type: "file" };`,
        ]
      : []),
    "",
    "export const CARRIED_MODELS: { name: string; manifest: string; weights: string }[] = [",
    ...(hasBase ? [`  { name: "whisper-base", manifest, weights },`] : []),
    "];",
    "",
  ];
  return lines.join("\n");
}
