import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeBuild } from "./assets.ts";
import { allProcessorCode } from "./processor-code.ts";
import { hostToolchain } from "./toolchain.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-assets-"));
afterAll(() => rmSync(folder, { recursive: true }));

const ALL = allProcessorCode("x64");

/** Makes a folder with the libraries of some processor code. */
function libraries(names: string[]): string {
  const dir = mkdtempSync(join(folder, "native-"));
  for (const name of [...names.map((name) => `cpu-${name}`), "base"])
    writeFileSync(join(dir, `libggml-${name}.so`), "");
  return dir;
}

test("a release refuses parts without the code for some processors, and another build says what it has", async () => {
  const host = { ...(await hostToolchain()), arch: "x64" };
  const release = { ...host, target: "linux-x64" as const };
  const some = libraries(["x64", "haswell"]);
  expect(describeBuild(some, host).processorCode).toEqual({ names: ["haswell", "x64"], complete: false });
  const allButOne = libraries(ALL.filter((name) => name !== "zen4"));
  expect(() => describeBuild(allButOne, release)).toThrow("is missing in a release: zen4");
  expect(describeBuild(libraries(ALL), release).processorCode).toEqual({
    names: ALL.toSorted(),
    complete: true,
  });
});
