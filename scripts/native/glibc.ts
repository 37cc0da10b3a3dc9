import { readdirSync } from "node:fs";
import { join } from "node:path";
import { run } from "./run.ts";

const ELF_MAGIC = "\x7fELF";

/**
 * Finds the newest version of glibc that a program or library directly in a folder requires, as listed by `objdump -p`.
 * Statically linked programs require none.
 *
 * @returns a version such as `2.34`; `undefined` when no file requires one
 * @throws when objdump (binutils) is missing
 */
export async function newestGlibc(dir: string): Promise<string | undefined> {
  let newest: number[] | undefined;
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(dir, entry.name);
    if ((await Bun.file(path).slice(0, 4).text()) !== ELF_MAGIC) continue;
    for (const match of (await run(["objdump", "-p", path])).matchAll(/GLIBC_(\d+(?:\.\d+)+)/g)) {
      const version = (match[1] ?? "").split(".").map(Number);
      if (newest === undefined || isNewer(version, newest)) newest = version;
    }
  }
  return newest?.join(".");
}

function isNewer(version: number[], than: number[]): boolean {
  for (let i = 0; i < Math.max(version.length, than.length); i++) {
    const difference = (version[i] ?? 0) - (than[i] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
}
