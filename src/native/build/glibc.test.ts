import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { NATIVE_DIR } from "../../testing/kits/native-files.ts";
import { elfFilesIn, isNewerVersion, newestGlibc, newestGlibcOf } from "./glibc.ts";

/** Versions that binutils reads, sorted, each once. */
function versionsByObjdump(path: string): string[] {
  const { exitCode, stdout } = Bun.spawnSync(["objdump", "-p", path]);
  if (exitCode !== 0) return [];
  const [, needs = ""] = stdout.toString().split("Version References:");
  return [...new Set(needs.match(/\b[A-Z]+_[\d.]+$/gm))].sort();
}

test("the versions that each native part needs are those that binutils reads", () => {
  const paths = [process.execPath, ...readdirSync(NATIVE_DIR).map((name) => join(NATIVE_DIR, name))];
  let compared = 0;
  for (const path of paths) {
    const [file, ...more] = elfFilesIn(readFileSync(path));
    const found = [...new Set(file?.needs.map(({ version }) => version))].sort();
    expect({ path, found, more }).toEqual({ path, found: versionsByObjdump(path), more: [] });
    if (found.length > 0) compared++;
  }
  expect(compared).toBeGreaterThan(10);
});

test("files inside another are found, and parts of files are none", () => {
  const library = readFileSync(join(NATIVE_DIR, "libggml.so"));
  const half = library.subarray(0, library.length / 2);
  const bytes = Buffer.concat([Buffer.from("before"), library, Buffer.from("between"), library, half]);
  expect(elfFilesIn(bytes).map(({ offset }) => offset)).toEqual([6, 6 + library.length + 7]);
  expect(newestGlibcOf(elfFilesIn(bytes))).toBe(newestGlibcOf(elfFilesIn(library)));
  expect(newestGlibc(NATIVE_DIR)).toMatch(/^2\.\d+$/);
});

test.each([
  ["2.28", "2.28", false],
  ["2.4", "2.28", false],
  ["2.29", "2.28", true],
  ["2.3.4", "2.3", true],
])("%s newer than %s: %p", (version, than, isNewer) => {
  expect(isNewerVersion(version, than)).toBe(isNewer);
});
