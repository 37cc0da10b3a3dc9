import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import type { BuildFacts, PartList } from "../../src/executable/parts.ts";
import type { NativeBuild } from "../../src/native/build/assets.ts";

const ROOT = join(import.meta.dirname, "../..");
/** The one place of the product's licence. package.json has its SPDX name. */
export const LICENCE_FILE = "docs/LICENSE.txt";

/** Runs git in the repository. Returns undefined where there is none. */
function git(...args: string[]): string | undefined {
  const child = Bun.spawnSync(["git", ...args], { cwd: ROOT, stdout: "pipe", stderr: "ignore" });
  return child.exitCode === 0 ? child.stdout.toString().trim() : undefined;
}

/**
 * Returns the facts of a build. They depend on the commit, the working tree and the tools alone.
 *
 * @param native the native files, with what their build wrote about itself
 */
export function buildFacts(native: string, platform: string): BuildFacts {
  const { compiler, glibc, processorCode } = JSON.parse(
    readFileSync(join(native, "toolchain.json"), "utf8"),
  ) as NativeBuild;
  const commit = git("rev-parse", "HEAD");
  const seconds = git("show", "-s", "--format=%ct", "HEAD");
  return {
    version: packageJson.version,
    commit: commit ?? null,
    dirty: commit !== undefined && git("status", "--porcelain") !== "",
    committed_at: seconds === undefined ? null : new Date(Number(seconds) * 1000).toISOString(),
    platform,
    compiler,
    glibc: glibc || null,
    processor_code: processorCode,
    bun: Bun.version,
    bun_revision: Bun.revision,
  };
}

/** @returns the product's licence; null while the owner has chosen none */
export function productLicence(): PartList["licence"] {
  const path = join(ROOT, LICENCE_FILE);
  if (!existsSync(path)) return null;
  const name = packageJson.license;
  if (name === "UNLICENSED") {
    throw new Error(
      `${LICENCE_FILE} exists, but package.json says UNLICENSED: put the licence's SPDX name there`,
    );
  }
  return { name, text: readFileSync(path, "utf8") };
}
