import { createHash } from "node:crypto";
import { appendFileSync, createReadStream, createWriteStream, rmSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { pipeline } from "node:stream/promises";
import { padding } from "./deb.ts";
import type { PackageFacts } from "./package-facts.ts";
import { bytesOf, hashOf, inOrder, type PackageFile, sizeOf } from "./package-file.ts";
import { type Packed, writePacked } from "./packed-stream.ts";
import { renderHeader, type Tagged } from "./rpm-header.ts";
import { scriptText } from "./shell-texts.ts";

/**
 * Writes packages for Red Hat's systems and others with rpm 4.12 or newer: a lead, a header of checksums, the main header and
 * a cpio archive packed by gzip. The format is that of the "RPM V4 package format" in rpm's documentation.
 */

const REGION = { signatures: 62, main: 63 };
const SIGNATURE = { sha1: 269, sha256: 273, bytes: 1000, plainBytes: 1007 };
/** Kinds of a dependency, as bits. */
const SENSE = {
  less: 2,
  equal: 8,
  atPost: 1 << 10,
  atPreun: 1 << 11,
  atPre: 1 << 9,
  atPostun: 1 << 12,
  rpmlib: 1 << 24,
};
const CONFIG_THAT_STAYS = 1 | 16;
const DOCUMENT = 2;
/** `rpm --verify` compares everything but the group of the config, which belongs to the service's group. */
const VERIFY_ALL = -1;
const VERIFY_GROUP = 1 << 4;
const MODE_BITS = { folder: 0o040000, file: 0o100000 };
const SHA256_NUMBER = 8;
/** How many bytes, and on which boundary, of a signature and of files in the archive. */
const SIGNATURE_UNIT = 8;
const CPIO_UNIT = 4;

/**
 * @param files what the package installs
 * @param path of the package, which is made
 */
export async function writeRpm(
  facts: PackageFacts,
  files: readonly PackageFile[],
  path: string,
): Promise<void> {
  const sorted = inOrder(files);
  const payload = `${path}.payload`;
  try {
    const packed = await writePacked(cpioPieces(sorted, facts.time), payload, facts.compression);
    const header = renderHeader(REGION.main, [
      ...describe(facts, packed),
      ...scripts(),
      ...dependencies(facts),
      ...(await fileTable(sorted, facts.time)),
    ]);
    writeFileSync(path, lead(facts));
    appendFileSync(path, checksums(header, packed));
    appendFileSync(path, header);
    await pipeline(createReadStream(payload), createWriteStream(path, { flags: "a" }));
  } finally {
    rmSync(payload, { force: true });
  }
}

/** The first 96 bytes, by which `file` and old programs know a package. */
function lead({ version, revision, architecture }: PackageFacts): Buffer {
  const bytes = Buffer.alloc(96);
  bytes.set([0xed, 0xab, 0xee, 0xdb, 3, 0]);
  bytes.writeUInt16BE(architecture.rpm === "aarch64" ? 19 : 1, 8);
  bytes.write(`shruti-${version}-${revision}`, 10, 65, "ascii");
  bytes.writeUInt16BE(1, 76);
  bytes.writeUInt16BE(5, 78);
  return bytes;
}

/** Checksums of what follows, in the place where `rpmsign` adds a signature. */
function checksums(header: Buffer, { packedBytes, plainBytes }: Packed): Buffer {
  const sum = (algorithm: string) => createHash(algorithm).update(header).digest("hex");
  const rendered = renderHeader(REGION.signatures, [
    { tag: SIGNATURE.sha1, type: "text", value: sum("sha1") },
    { tag: SIGNATURE.sha256, type: "text", value: sum("sha256") },
    { tag: SIGNATURE.bytes, type: "int32", value: [header.length + packedBytes] },
    { tag: SIGNATURE.plainBytes, type: "int32", value: [plainBytes] },
  ]);
  return Buffer.concat([rendered, Buffer.alloc(padding(rendered.length, SIGNATURE_UNIT))]);
}

function describe(facts: PackageFacts, { sha256 }: Packed): Tagged[] {
  const { version, revision, architecture, time } = facts;
  const seconds = Math.floor(time.getTime() / 1000);
  return [
    { tag: 100, type: "texts", value: ["C"] },
    { tag: 1000, type: "text", value: "shruti" },
    { tag: 1001, type: "text", value: version },
    { tag: 1002, type: "text", value: String(revision) },
    { tag: 1004, type: "translated", value: facts.summary },
    { tag: 1005, type: "translated", value: facts.description },
    { tag: 1006, type: "int32", value: [seconds] },
    { tag: 1007, type: "text", value: "localhost" },
    { tag: 1014, type: "text", value: facts.licence },
    { tag: 1015, type: "text", value: facts.maintainer },
    { tag: 1016, type: "translated", value: "Applications/Multimedia" },
    { tag: 1021, type: "text", value: "linux" },
    { tag: 1022, type: "text", value: architecture.rpm },
    // Without the name of a source package, rpm takes this one for a source package.
    { tag: 1044, type: "text", value: `shruti-${version}-${revision}.src.rpm` },
    { tag: 1080, type: "int32", value: [seconds] },
    { tag: 1081, type: "texts", value: [`${facts.maintainer} - ${version}-${revision}`] },
    { tag: 1082, type: "texts", value: [`- Version ${version}, commit ${facts.commit}.`] },
    { tag: 1124, type: "text", value: "cpio" },
    { tag: 1125, type: "text", value: "gzip" },
    { tag: 1126, type: "text", value: String(facts.compression) },
    { tag: 1132, type: "text", value: `${architecture.rpm}-linux` },
    { tag: 5062, type: "text", value: "utf-8" },
    { tag: 5092, type: "texts", value: [sha256] },
    { tag: 5093, type: "int32", value: [SHA256_NUMBER] },
  ];
}

/** The scripts with the tags of their text and their interpreter. */
const SCRIPTS = [
  ["rpm/pre", 1023, 1085],
  ["rpm/post", 1024, 1086],
  ["rpm/preun", 1025, 1087],
  ["rpm/postun", 1026, 1088],
] as const;

function scripts(): Tagged[] {
  return SCRIPTS.flatMap(([name, text, program]): Tagged[] => [
    { tag: text, type: "text", value: scriptText(name) },
    { tag: program, type: "text", value: "/bin/sh" },
  ]);
}

function dependencies({ version, revision, architecture, glibc }: PackageFacts): Tagged[] {
  const own = `${version}-${revision}`;
  const provided = ["shruti", `shruti(${architecture.rpm === "aarch64" ? "aarch-64" : "x86-64"})`];
  const atScripts = SENSE.atPost | SENSE.atPreun;
  const rpmlib = SENSE.rpmlib | SENSE.less | SENSE.equal;
  const required: [name: string, flags: number, version: string][] = [
    ["/bin/sh", atScripts | SENSE.atPre | SENSE.atPostun, ""],
    ["(shadow-utils or shadow)", SENSE.atPost, ""],
    // The script before the files looks into the unit of another installation.
    ["grep", atScripts | SENSE.atPre, ""],
    ...["coreutils", "diffutils", "findutils", "gawk", "sed", "util-linux"].map(
      (name): [string, number, string] => [name, atScripts, ""],
    ),
    [`libc.so.6(${glibc === null ? "" : `GLIBC_${glibc}`})(64bit)`, 0, ""],
    ["rpmlib(CompressedFileNames)", rpmlib, "3.0.4-1"],
    ["rpmlib(FileDigests)", rpmlib, "4.6.0-1"],
    ["rpmlib(PayloadFilesHavePrefix)", rpmlib, "4.0-1"],
    ["rpmlib(RichDependencies)", rpmlib, "4.12.0-1"],
    ["rpmlib(TildeInVersions)", rpmlib, "4.10.0-1"],
  ];
  return [
    { tag: 1047, type: "texts", value: provided },
    { tag: 1112, type: "int32", value: provided.map(() => SENSE.equal) },
    { tag: 1113, type: "texts", value: provided.map(() => own) },
    { tag: 1049, type: "texts", value: required.map(([name]) => name) },
    { tag: 1048, type: "int32", value: required.map(([, flags]) => flags) },
    { tag: 1050, type: "texts", value: required.map(([, , at]) => at) },
  ];
}

async function fileTable(files: readonly PackageFile[], time: Date): Promise<Tagged[]> {
  const seconds = Math.floor(time.getTime() / 1000);
  const folderOf = ({ path }: PackageFile) => `${dirname(path)}/`;
  const folders = [...new Set(files.map(folderOf))];
  const digests: string[] = [];
  for (const file of files) digests.push(file.content === undefined ? "" : await hashOf(file, "sha256"));
  const numbers = (tag: number, of: (file: PackageFile, at: number) => number): Tagged => ({
    tag,
    type: "int32",
    value: files.map(of),
  });
  const texts = (tag: number, of: (file: PackageFile) => string): Tagged => ({
    tag,
    type: "texts",
    value: files.map(of),
  });
  return [
    { tag: 1009, type: "int32", value: [files.reduce((sum, file) => sum + sizeOf(file), 0)] },
    numbers(1028, sizeOf),
    { tag: 1030, type: "int16", value: files.map(modeOf) },
    { tag: 1033, type: "int16", value: files.map(() => 0) },
    numbers(1034, () => seconds),
    { tag: 1035, type: "texts", value: digests },
    texts(1036, () => ""),
    numbers(1037, ({ isConfig, isDocument }) => (isConfig ? CONFIG_THAT_STAYS : isDocument ? DOCUMENT : 0)),
    texts(1039, () => "root"),
    texts(1040, () => "root"),
    numbers(1045, ({ isConfig }) => (isConfig ? VERIFY_ALL & ~VERIFY_GROUP : VERIFY_ALL)),
    numbers(1095, () => 1),
    numbers(1096, (_, at) => at + 1),
    texts(1097, () => ""),
    numbers(1116, (file) => folders.indexOf(folderOf(file))),
    texts(1117, ({ path }) => basename(path)),
    { tag: 1118, type: "texts", value: folders },
    { tag: 5011, type: "int32", value: [SHA256_NUMBER] },
  ];
}

function modeOf({ mode, content }: PackageFile): number {
  return (content === undefined ? MODE_BITS.folder : MODE_BITS.file) | mode;
}

/** Writes files as a cpio archive ("newc"), in which everything belongs to root. */
async function* cpioPieces(files: readonly PackageFile[], time: Date): AsyncGenerator<Uint8Array> {
  const seconds = Math.floor(time.getTime() / 1000);
  for (const [at, file] of files.entries()) {
    const links = file.content === undefined ? 2 : 1;
    const size = sizeOf(file);
    yield cpioHead(`.${file.path}`, [at + 1, modeOf(file), 0, 0, links, seconds, size, 0, 1, 0, 0]);
    yield* bytesOf(file);
    yield new Uint8Array(padding(size, CPIO_UNIT));
  }
  yield cpioHead("TRAILER!!!", [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
}

/** @param numbers inode, mode, owner, group, links, time, length, device and number of a device, each in two parts */
function cpioHead(name: string, numbers: readonly number[]): Buffer {
  const text = Buffer.from(`${name}\0`);
  const fields = [...numbers, text.length, 0].map((number) => number.toString(16).padStart(8, "0"));
  const head = Buffer.concat([Buffer.from(`070701${fields.join("")}`), text]);
  return Buffer.concat([head, Buffer.alloc(padding(head.length, CPIO_UNIT))]);
}
