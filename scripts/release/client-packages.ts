import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { run } from "../../src/native/build/run.ts";
import { packFolder } from "./tarball.ts";

/** The clients of docs/clients, as packages that package managers install without a network. */

const ROOT = join(import.meta.dirname, "../..");
const CLIENTS = join(ROOT, "docs/clients");

/** Packs all clients. @param work is made @param made receives the packages @param time of all files */
export async function packClients(work: string, made: string, time: Date): Promise<void> {
  await packNpmClient(work, made, time);
}

/**
 * Packs the TypeScript client as npm does: JavaScript with its types, in a folder `package`.
 *
 * @param work an empty folder
 * @param made receives the tarball
 * @param time of all files
 * @returns the name of the tarball
 */
export async function packNpmClient(work: string, made: string, time: Date): Promise<string> {
  const source = join(CLIENTS, "typescript");
  const folder = join(work, "package");
  mkdirSync(folder, { recursive: true });
  const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
  await run([process.execPath, compiler, "-p", source, "--outDir", join(folder, "dist")]);
  copyFileSync(join(source, "README.md"), join(folder, "README.md"));
  const description = JSON.parse(readFileSync(join(source, "package.json"), "utf8")) as object;
  const own = { ...description, version: packageJson.version };
  writeFileSync(join(folder, "package.json"), `${JSON.stringify(own, undefined, 2)}\n`);
  const name = `shruti-client-${packageJson.version}.tgz`;
  await packFolder(folder, join(made, name), time);
  return name;
}
