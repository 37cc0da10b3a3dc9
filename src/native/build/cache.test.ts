import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cachedBuild, finishedBuild } from "./cache.ts";

const cacheBefore = process.env.XDG_CACHE_HOME;
let folder: string;
let sources: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "cache-"));
  process.env.XDG_CACHE_HOME = join(folder, "cache");
  sources = join(folder, "sources");
  mkdirSync(join(sources, "inner"), { recursive: true });
  writeFileSync(join(sources, "inner/part.c"), "int part;");
  await cachedBuild("part", [{ path: sources }], async (out) =>
    writeFileSync(join(out, "part.o"), "compiled"),
  );
});

afterAll(() => {
  if (cacheBefore === undefined) delete process.env.XDG_CACHE_HOME;
  else process.env.XDG_CACHE_HOME = cacheBefore;
  rmSync(folder, { recursive: true, force: true });
});

const isFinished = () => finishedBuild("part", [{ path: sources }]) !== undefined;

test.each([
  ["a file that a compiler reads", "inner/part.c", "int other;", false],
  ["the same file as before", "inner/part.c", "int part;", true],
  ["TypeScript beside it", "inner/part.ts", "export {};", true],
  ["a document", "README.md", "# Part", true],
  ["another header", "part.h", "int part;", false],
])("a build is made again where its sources have changed: %s", (_, name, text, finished) => {
  writeFileSync(join(sources, name), text);
  expect(isFinished()).toBe(finished);
});
