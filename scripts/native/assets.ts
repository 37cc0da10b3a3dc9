import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { buildCtc } from "./ctc.ts";
import { buildDecoder } from "./decoder.ts";
import { collectSherpa } from "./sherpa.ts";
import { buildSilero } from "./silero.ts";
import { buildWhisper } from "./whisper.ts";

/** The folder of the carried native files and of the generated module that imports them; git-ignored. */
export const ASSETS_DIR = join(import.meta.dirname, "../../build/native");
const STAMP = "stamp";

/**
 * Builds all native parts and copies them into one flat folder, with a module (`assets.ts`) that imports each file, so
 * that `bun build --compile` embeds them. If nothing has changed, it only compares a stamp.
 *
 * @returns the folder
 */
export async function buildAssets(): Promise<string> {
  const folders = [
    await buildDecoder(),
    await collectSherpa(),
    await buildCtc(),
    await buildSilero(),
    await buildWhisper(),
  ];
  const stamp = `${generatorHash()}\n${folders.join("\n")}\n`;
  if (!isCurrent(stamp)) layOut(folders, stamp);
  return ASSETS_DIR;
}

/** Returns the hash of this file, so that a change of this script writes the folder again. */
function generatorHash(): string {
  return createHash("sha256")
    .update(readFileSync(import.meta.path))
    .digest("hex");
}

function isCurrent(stamp: string): boolean {
  const path = join(ASSETS_DIR, STAMP);
  return existsSync(path) && readFileSync(path, "utf8") === stamp;
}

function layOut(folders: string[], stamp: string): void {
  const unfinished = `${ASSETS_DIR}.${process.pid}`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  const names: string[] = [];
  for (const folder of folders) {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const name = embeddable(entry.name);
      if (names.includes(name)) throw new Error(`two native builds have a file named ${name}`);
      copyFileSync(join(folder, entry.name), join(unfinished, name));
      names.push(name);
    }
  }
  writeFileSync(join(unfinished, "assets.ts"), assetsModule(unfinished, names.sort()));
  writeFileSync(join(unfinished, STAMP), stamp);
  rmSync(ASSETS_DIR, { recursive: true, force: true });
  renameSync(unfinished, ASSETS_DIR);
}

/** Returns a name that Bun can import: it refuses `.node` files, while `process.dlopen` accepts any name. */
function embeddable(name: string): string {
  return name.replace(/\.node$/, ".addon");
}

function assetsModule(folder: string, names: string[]): string {
  const files = names.map((name) => {
    const path = join(folder, name);
    const sha256 = createHash("sha256").update(readFileSync(path)).digest("hex");
    return { name, bytes: statSync(path).size, sha256, executable: isProgram(path) };
  });
  const all = createHash("sha256");
  for (const file of files) all.update(`${file.name} ${file.sha256} ${file.executable}\n`);
  const lines = [
    "// @ts-nocheck",
    "// Written by scripts/native/assets.ts. Imports of type file have no declarations, hence the line above.",
    ...names.map((name, index) => `import file${index} from "./${name}" with { type: "file" };`),
    "",
    "export const NATIVE_HASH: string =",
    `  "${all.digest("hex")}";`,
    "",
    "export const NATIVE_FILES: {",
    "  name: string; path: string; bytes: number; sha256: string; executable: boolean",
    "}[] = [",
    ...files.map(
      (file, index) =>
        `  { name: "${file.name}", path: file${index}, bytes: ${file.bytes}, sha256: "${file.sha256}", executable: ${file.executable} },`,
    ),
    "];",
    "",
  ];
  return lines.join("\n");
}

/** Reports whether a file is a program, which needs its execute bit. Libraries are only mapped. */
function isProgram(path: string): boolean {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return !name.includes(".") && (statSync(path).mode & 0o111) !== 0;
}
