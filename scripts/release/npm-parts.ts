import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import lock from "../../bun.lock";
import type { Part } from "../../src/executable/parts.ts";
import { run } from "../../src/native/build/run.ts";
import { buildConsole } from "../console.ts";
import { licenceFilesIn, standardText } from "./licence-texts.ts";

const ROOT = join(import.meta.dirname, "../..");

/** A part with its licence texts. */
export type PartWithTexts = Omit<Part, "texts"> & { texts: string[] };

type Manifest = {
  name: string;
  version: string;
  license?: string | { type: string };
  homepage?: string;
  repository?: string | { url: string };
  dependencies?: Record<string, string>;
};

/**
 * Packages whose published files lack the licence text, with the notice of their repositories. Texts are standard ones.
 */
const NOTICES: Record<string, string> = {
  "@headlessui/vue": "Copyright (c) 2020 Tailwind Labs",
  "@replit/codemirror-css-color-picker": "Copyright (c) 2021 Replit",
  "@scalar/api-reference": "Copyright (c) 2023-present Scalar",
  "@scalar/openapi-types": "Copyright (c) 2023-present Scalar",
  "@scalar/schemas": "Copyright (c) 2023-present Scalar",
  "@scalar/workspace-store": "Copyright (c) 2023-present Scalar",
  "@tus/utils": "Copyright (c) 2015 tus - Resumable File Uploads",
  "drizzle-orm": "Copyright the Drizzle Team and contributors",
};

/** Packages that offer several licences, and the one that we use them under. */
const CHOSEN_LICENCES: Record<string, string> = { "node-forge": "BSD-3-Clause" };

/** The one package that is embedded as a finished bundle. It does not list which dependencies it contains. */
const PUBLISHED_BUNDLE = "@scalar/api-reference";

/**
 * Lists the npm packages in the executable: those that the bundler takes, by its own list, and what a published bundle
 * may contain. The console is a bundle of its own.
 *
 * @param flags further flags of the bundler
 */
export async function npmParts(entries: string[], flags: string[]): Promise<PartWithTexts[]> {
  const { packages } = await buildConsole();
  const inConsole = packages.map((folder) => join(ROOT, folder));
  const folders = new Set([...(await bundledFolders(entries, flags)), ...inConsole]);
  const parts = [...folders].map((folder) => npmPart(folder));
  const bundle = [...folders].find((folder) => nameOf(folder) === PUBLISHED_BUNDLE);
  if (bundle === undefined) return parts;
  const inside = [...closureOf(bundle)].filter((folder) => !folders.has(folder));
  const note = `a dependency of ${PUBLISHED_BUNDLE}, whose published bundle may contain it`;
  return [...parts, ...inside.map((folder) => ({ ...npmPart(folder), within: PUBLISHED_BUNDLE, note }))];
}

/** Bundles once without making an executable, and returns the folders of packages of which something is used. */
async function bundledFolders(entries: string[], flags: string[]): Promise<Set<string>> {
  const work = mkdtempSync(join(tmpdir(), "shruti-metafile-"));
  try {
    const metafile = join(work, "meta.json");
    const bundle = ["build", "--target=bun", "--format=esm", `--outdir=${work}`, `--metafile=${metafile}`];
    await run([process.execPath, ...bundle, ...flags, ...entries], { cwd: ROOT });
    const { inputs } = JSON.parse(readFileSync(metafile, "utf8")) as { inputs: Record<string, unknown> };
    const folders = Object.keys(inputs).flatMap((path) => packageFolder(path) ?? []);
    return new Set(folders.map((folder) => join(ROOT, folder)));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** @returns the folder of the package that a file belongs to; undefined for our own files */
export function packageFolder(path: string): string | undefined {
  return /^.*(?:^|\/)node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
}

const manifestOf = (folder: string) =>
  JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
const nameOf = (folder: string) => manifestOf(folder).name;

/**
 * Describes an installed package.
 *
 * @throws Error when it has no licence or no licence text
 */
export function npmPart(folder: string, notices: Record<string, string> = NOTICES): PartWithTexts {
  const { name, version, license, homepage, repository } = manifestOf(folder);
  const licence = CHOSEN_LICENCES[name] ?? (typeof license === "string" ? license : license?.type);
  if (licence === undefined) throw new Error(`${name} ${version} has no licence in its package.json`);
  const found = licenceFilesIn(folder);
  const notice = notices[name];
  const texts = found.length === 0 && notice !== undefined ? [standardText(licence, notice)] : found;
  if (texts.length === 0) {
    throw new Error(
      `${name} ${version} (${licence}) has no licence text: find its notice, and add it to NOTICES`,
    );
  }
  const url = typeof repository === "string" ? repository : repository?.url;
  const sha512 = publishedHash(folder);
  return {
    name,
    version,
    kind: "npm",
    licence,
    source: url === undefined ? (homepage ?? `https://www.npmjs.com/package/${name}`) : webAddress(url),
    purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
    ...(sha512 === undefined ? {} : { sha512 }),
    texts,
  };
}

function webAddress(url: string): string {
  const path = url
    .replace(/^git\+/, "")
    .replace(/^git:\/\//, "https://")
    .replace(/\.git$/, "");
  if (/^https?:/.test(path)) return path;
  return `https://github.com/${path.replace(/^(github:|ssh:\/\/git@github\.com\/|git@github\.com:)/, "")}`;
}

/** @returns the SHA-512 of the package as it was published, hex */
function publishedHash(folder: string): string | undefined {
  const key = relative(join(ROOT, "node_modules"), folder).replaceAll("/node_modules/", "/");
  const entry = (lock as { packages: Record<string, unknown[]> }).packages[key];
  const integrity = entry?.find((value) => typeof value === "string" && value.startsWith("sha512-"));
  if (typeof integrity !== "string") return undefined;
  return Buffer.from(integrity.slice("sha512-".length), "base64").toString("hex");
}

/** @returns the folders of a package's dependencies, and of theirs */
function closureOf(folder: string): Set<string> {
  const found = new Set<string>([folder]);
  for (const current of found) {
    for (const name of Object.keys(manifestOf(current).dependencies ?? {})) {
      const dependency = installedFor(current, name);
      if (dependency !== undefined) found.add(dependency);
    }
  }
  found.delete(folder);
  return found;
}

function installedFor(folder: string, name: string): string | undefined {
  for (let at = folder; at.startsWith(ROOT); at = dirname(at)) {
    const candidate = join(at, "node_modules", name);
    if (existsSync(join(candidate, "package.json"))) return candidate;
  }
  return undefined;
}
