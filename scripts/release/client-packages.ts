import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Zippable, zipSync } from "fflate";
import packageJson from "../../package.json" with { type: "json" };
import { run } from "../../src/native/build/run.ts";
import { packFolder } from "./tarball.ts";

/** The clients of docs/clients, as packages that package managers install without a network. */

const ROOT = join(import.meta.dirname, "../..");
const CLIENTS = join(ROOT, "docs/clients");

/** Packs all clients. @param work is made @param made receives the packages @param time of all files */
export async function packClients(work: string, made: string, time: Date): Promise<void> {
  await packNpmClient(work, made, time);
  packWheel(made, time);
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

/** Modules that the wheel has, with the mark for type checkers. */
const OF_THE_WHEEL = /\.py$|^py\.typed$/;

/**
 * Packs the Python client as a wheel (PyPA's binary distribution format 1.0), without Python.
 *
 * @param made receives the wheel
 * @param time of all files, in even seconds
 * @returns the name of the wheel
 */
export function packWheel(made: string, time: Date): string {
  const { version } = packageJson;
  const source = join(CLIENTS, "python");
  const info = `shruti_client-${version}.dist-info`;
  const modules = readdirSync(join(source, "shruti_client")).filter((name) => OF_THE_WHEEL.test(name));
  const files = new Map<string, Buffer>(
    modules
      .sort()
      .map((name) => [`shruti_client/${name}`, readFileSync(join(source, "shruti_client", name))] as const),
  );
  files.set(
    `${info}/METADATA`,
    Buffer.from(metadata(version, readFileSync(join(source, "README.md"), "utf8"))),
  );
  files.set(
    `${info}/WHEEL`,
    Buffer.from("Wheel-Version: 1.0\nGenerator: shruti\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
  );
  const record = [...files].map(([path, bytes]) => {
    const sum = createHash("sha256").update(bytes).digest("base64url");
    return `${path},sha256=${sum},${bytes.length}\n`;
  });
  files.set(`${info}/RECORD`, Buffer.from(`${record.join("")}${info}/RECORD,,\n`));
  const name = `shruti_client-${version}-py3-none-any.whl`;
  const options = { level: 9, os: 3, attrs: FILE_MODE << 16, mtime: asZipTime(time) } as const;
  const entries: Zippable = Object.fromEntries([...files].map(([path, bytes]) => [path, [bytes, options]]));
  writeFileSync(join(made, name), zipSync(entries));
  return name;
}

/** A regular file that everybody may read. */
const FILE_MODE = 0o100644;

/** Returns the time whose local parts are the UTC ones: a ZIP has local times, and its bytes must not depend on the zone. */
function asZipTime(time: Date): Date {
  // A ZIP begins in 1980.
  const year = Math.max(1980, time.getUTCFullYear());
  return new Date(
    ...([year, time.getUTCMonth(), time.getUTCDate()] as const),
    ...([time.getUTCHours(), time.getUTCMinutes(), time.getUTCSeconds()] as const),
  );
}

function metadata(version: string, readme: string): string {
  const fields = {
    "Metadata-Version": "2.1",
    Name: "shruti-client",
    Version: version,
    Summary: "Client of Shruti, the self-hosted speech transcription server",
    "Requires-Python": ">=3.9",
    "Description-Content-Type": "text/markdown",
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\n`);
  return `${lines.join("")}\n${readme}`;
}
