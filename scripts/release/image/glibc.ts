import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { cachedBuild, cacheRoot } from "../../../src/native/build/cache.ts";
import { run } from "../../../src/native/build/run.ts";
import { standardText } from "../licence-texts.ts";
import type { PartWithTexts } from "../npm-parts.ts";
import type { TarEntry } from "./tar-stream.ts";

/**
 * The C library of an image: files of Debian's package libc6, by version and checksum. It is the only part of an image that
 * is not in the executable. The checksums are those of Debian's signed list of packages.
 */

export const ARCHITECTURES = ["amd64", "arm64"] as const;
/** Names of architectures as Debian and OCI have them. */
export type Architecture = (typeof ARCHITECTURES)[number];

const VERSION = "2.36-9+deb12u14";

type Package = {
  sha256: string;
  /** Debian's archive of all versions names files by it. */
  sha1: string;
  /** Where the package has its libraries. */
  folder: string;
  loader: string;
};

const PACKAGES: Readonly<Record<Architecture, Package>> = {
  amd64: {
    sha256: "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf",
    sha1: "c534c6c7f912b61ca26b7cf4082235a0343b8751",
    folder: "lib/x86_64-linux-gnu",
    loader: "lib64/ld-linux-x86-64.so.2",
  },
  arm64: {
    sha256: "01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4",
    sha1: "85af57bf1f9fa075163e51c99d9536154c21ab7e",
    folder: "lib/aarch64-linux-gnu",
    loader: "lib/ld-linux-aarch64.so.1",
  },
};

/** The libraries that executable, native parts and name resolution load. The loader finds them without a cache of its own. */
const LIBRARIES = [
  "libc.so.6",
  "libdl.so.2",
  "libm.so.6",
  "libnss_dns.so.2",
  "libnss_files.so.2",
  "libpthread.so.0",
  "libresolv.so.2",
  "librt.so.1",
];
const COPYRIGHT = "usr/share/doc/libc6/copyright";
/** What `dpkg-deb` says of the package, in the folder of the unpacked one. */
const CONTROL = "control";
const fileName = (architecture: Architecture) => `libc6_${VERSION}_${architecture}.deb`;

/** Fetches an address. The answer of `fetch` is one. */
export type Fetch = (address: string) => Promise<Pick<Response, "ok" | "status" | "arrayBuffer">>;

/**
 * Returns the folder with the unpacked package, from the cache or from Debian.
 *
 * @param load is used where the package is neither unpacked nor in `packages/` of the cache
 * @throws Error when no source has the package with its checksum; it names the place for a file that was fetched by hand
 */
export async function unpackedGlibc(architecture: Architecture, load: Fetch = fetch): Promise<string> {
  const { sha256 } = PACKAGES[architecture];
  return cachedBuild(`libc6-${architecture}`, [{ literal: sha256 }], async (folder) => {
    const archive = await packageFile(architecture, load);
    await run(["dpkg-deb", "--extract", archive, folder]);
    writeFileSync(join(folder, CONTROL), await run(["dpkg-deb", "--field", archive]));
  });
}

async function packageFile(architecture: Architecture, load: Fetch): Promise<string> {
  const { sha256, sha1 } = PACKAGES[architecture];
  const folder = join(cacheRoot(), "packages");
  const path = join(folder, fileName(architecture));
  const isRight = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex") === sha256;
  if (existsSync(path) && isRight(readFileSync(path))) return path;
  mkdirSync(folder, { recursive: true });
  const tried: string[] = [];
  for (const address of [
    `https://deb.debian.org/debian/pool/main/g/glibc/${fileName(architecture)}`,
    // A version that a newer one has replaced is only there.
    `https://snapshot.debian.org/file/${sha1}`,
  ]) {
    try {
      const answer = await load(address);
      const bytes = answer.ok ? new Uint8Array(await answer.arrayBuffer()) : new Uint8Array();
      if (isRight(bytes)) {
        writeFileSync(`${path}.unfinished`, bytes);
        renameSync(`${path}.unfinished`, path);
        return path;
      }
      tried.push(answer.ok ? `${address}: wrong checksum` : `${address}: status ${answer.status}`);
    } catch (error) {
      tried.push(`${address}: ${error instanceof Error ? error.message : error}`);
    }
  }
  throw new Error(`${fileName(architecture)} is not to be had; put it into ${folder}\n${tried.join("\n")}`);
}

/** Returns the entries of an image for the C library: loader, libraries, licence, and what scanners for faults look for. */
export function glibcEntries(unpacked: string, architecture: Architecture): TarEntry[] {
  const { folder, loader } = PACKAGES[architecture];
  const file = (path: string, from: string, mode: number): TarEntry => ({
    path,
    mode,
    content: readFileSync(join(unpacked, from)),
  });
  const libraries = LIBRARIES.map((name) => `${folder}/${name}`);
  return [
    // The package has a link there.
    file(loader, `${folder}/${basename(loader)}`, 0o755),
    ...libraries.map((path) => file(path, path, 0o755)),
    file(COPYRIGHT, COPYRIGHT, 0o644),
    // Scanners read versions of Debian's packages there, in images without dpkg.
    file("var/lib/dpkg/status.d/libc6", CONTROL, 0o644),
  ];
}

/** Describes the C library for the bill of materials and the licences of an image. */
export function glibcPart(unpacked: string, architecture: Architecture): PartWithTexts {
  const copyright = readFileSync(join(unpacked, COPYRIGHT), "utf8");
  const { sha256 } = PACKAGES[architecture];
  return {
    name: "GNU C Library (Debian's package libc6)",
    version: VERSION,
    kind: "native",
    licence: "LGPL-2.1-or-later",
    source: `https://snapshot.debian.org/package/glibc/${VERSION}/`,
    purl: `pkg:deb/debian/libc6@${VERSION.replace("+", "%2B")}?arch=${architecture}&distro=debian-12`,
    note: "files of Debian's package, unchanged; in the image, not in the executable. Debian has its source",
    files: [{ name: fileName(architecture), sha256 }],
    texts: [standardText("LGPL-2.1-or-later", copyright)],
  };
}
