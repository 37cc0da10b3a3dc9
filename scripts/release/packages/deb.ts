import { appendFileSync, createReadStream, createWriteStream, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { pipeline } from "node:stream/promises";
import { gzipSync } from "node:zlib";
import { Header } from "tar";
import type { PackageFacts } from "./package-facts.ts";
import { bytesOf, hashOf, inOrder, type PackageFile, sizeOf } from "./package-file.ts";
import { writePacked } from "./packed-stream.ts";
import { scriptText } from "./shell-texts.ts";

/**
 * Writes packages for Debian and Ubuntu: an `ar` archive of `debian-binary`, `control.tar.gz` and `data.tar.gz` (deb(5)).
 * gzip, because dpkg of Debian 11 and Ubuntu 20.04 reads no zstd.
 */

const BLOCK = 512;

/**
 * @param files what the package installs
 * @param path of the package, which is made
 */
export async function writeDeb(
  facts: PackageFacts,
  files: readonly PackageFile[],
  path: string,
): Promise<void> {
  const sorted = inOrder(withParents(files));
  const data = `${path}.data`;
  try {
    const { packedBytes } = await writePacked(tarPieces(sorted, facts.time), data, facts.compression);
    const control = await packedControl(facts, sorted);
    writeFileSync(path, "!<arch>\n");
    appendFileSync(path, member("debian-binary", Buffer.from("2.0\n"), facts.time));
    appendFileSync(path, member("control.tar.gz", control, facts.time));
    appendFileSync(path, memberHead("data.tar.gz", packedBytes, facts.time));
    await pipeline(createReadStream(data), createWriteStream(path, { flags: "a" }));
    if (packedBytes % 2 === 1) appendFileSync(path, "\n");
  } finally {
    rmSync(data, { force: true });
  }
}

/** dpkg wants every folder above a file to be in the package, too. */
function withParents(files: readonly PackageFile[]): PackageFile[] {
  const known = new Map(files.map((file) => [file.path, file]));
  for (const { path } of files) {
    for (let above = dirname(path); above !== "/" && !known.has(above); above = dirname(above))
      known.set(above, { path: above, mode: 0o755, content: undefined });
  }
  return [...known.values()];
}

async function packedControl(facts: PackageFacts, files: readonly PackageFile[]): Promise<Buffer> {
  const script = (name: string, mode: number): PackageFile => ({
    path: `/${name}`,
    mode,
    content: Buffer.from(scriptText(`deb/${name}`)),
  });
  const text = (name: string, content: string): PackageFile => ({
    path: `/${name}`,
    mode: 0o644,
    content: Buffer.from(content),
  });
  const sums: string[] = [];
  for (const file of files) {
    if (file.content === undefined || file.isConfig) continue;
    sums.push(`${await hashOf(file, "md5")}  ${file.path.slice(1)}\n`);
  }
  const members = [
    text("control", renderControl(facts, files)),
    text("conffiles", files.map(({ path, isConfig }) => (isConfig ? `${path}\n` : "")).join("")),
    text("md5sums", sums.join("")),
    script("templates", 0o644),
    ...["preinst", "postinst", "prerm", "postrm"].map((name) => script(name, 0o755)),
  ];
  const pieces: Uint8Array[] = [];
  for await (const piece of tarPieces(inOrder(members), facts.time)) pieces.push(piece);
  return gzipSync(Buffer.concat(pieces), { level: 9 });
}

function renderControl(facts: PackageFacts, files: readonly PackageFile[]): string {
  const kib = files.reduce((sum, file) => sum + Math.max(1, Math.ceil(sizeOf(file) / 1024)), 0);
  const description = facts.description.split("\n").map((line) => ` ${line === "" ? "." : line}\n`);
  const { glibc } = facts;
  return `Package: shruti
Version: ${facts.version}-${facts.revision}
Architecture: ${facts.architecture.deb}
Maintainer: ${facts.maintainer}
Installed-Size: ${kib}
Depends: libc6${glibc === null ? "" : ` (>= ${glibc})`}, debconf (>= 0.5) | debconf-2.0, passwd
Section: sound
Priority: optional
Description: ${facts.summary}
${description.join("")}`;
}

/** Writes files as a tar archive in which everything belongs to root. */
async function* tarPieces(files: readonly PackageFile[], time: Date): AsyncGenerator<Uint8Array> {
  yield tarHead({ path: "/", mode: 0o755, content: undefined }, time);
  for (const file of files) {
    yield tarHead(file, time);
    yield* bytesOf(file);
    const size = sizeOf(file);
    yield new Uint8Array(padding(size, BLOCK));
  }
  yield new Uint8Array(2 * BLOCK);
}

function tarHead(file: PackageFile, time: Date): Uint8Array {
  const isFolder = file.content === undefined;
  const head = new Header({
    path: `.${file.path}${isFolder && file.path !== "/" ? "/" : ""}`,
    ...{ mode: file.mode, size: sizeOf(file), mtime: time, type: isFolder ? "Directory" : "File" },
    ...{ uid: 0, gid: 0, uname: "root", gname: "root" },
  });
  if (head.encode()) throw new Error(`a tar archive cannot hold ${file.path}`);
  return head.block as Uint8Array;
}

/** How many bytes are missing until a length is a multiple of a unit. */
export function padding(bytes: number, unit: number): number {
  return (unit - (bytes % unit)) % unit;
}

function member(name: string, content: Buffer, time: Date): Buffer {
  const end = content.length % 2 === 1 ? "\n" : "";
  return Buffer.concat([memberHead(name, content.length, time), content, Buffer.from(end)]);
}

/** The head of a file in an `ar` archive (ar(5)): name, time, owner, group, mode, length. */
function memberHead(name: string, bytes: number, time: Date): Buffer {
  const seconds = Math.floor(time.getTime() / 1000);
  const fields = [name.padEnd(16), String(seconds).padEnd(12), "0".padEnd(6), "0".padEnd(6)];
  return Buffer.from(`${fields.join("")}${"100644".padEnd(8)}${String(bytes).padEnd(10)}\`\n`);
}
