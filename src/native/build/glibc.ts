import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const ELF_HEADER_BYTES = 64;
const SECTION_HEADER_BYTES = 64;
/** `sh_type` of the section that lists the versions of symbols which a file needs (SHT_GNU_verneed). */
const VERSION_NEEDS = 0x6ffffffe;

/** An ELF file of 64 bits, or a part of a file that contains one. */
export type ElfFile = { offset: number; needs: { library: string; version: string }[] };

/**
 * Finds ELF files in a file's contents, such as the libraries inside an executable of Bun. Parts that only begin like
 * an ELF file are left out.
 *
 * @returns with the versions of symbols that each needs, in the order of their offsets
 */
export function elfFilesIn(bytes: Buffer): ElfFile[] {
  const found: ElfFile[] = [];
  for (let at = bytes.indexOf(ELF_START); at !== -1; at = bytes.indexOf(ELF_START, at + 1)) {
    const needs = versionNeeds(bytes.subarray(at));
    if (needs !== undefined) found.push({ offset: at, needs });
  }
  return found;
}

/** The magic number; 64 bits, little-endian, version 1. */
const ELF_START = Buffer.from("\x7fELF\x02\x01\x01", "latin1");

/** A section of an ELF file: `sh_type`, where it is, and two fields whose meaning depends on the type. */
export type ElfSection = { type: number; offset: number; bytes: number; link: number; info: number };

/** Returns the sections of the ELF file at the start of some bytes; undefined: its headers are none of such a file. */
export function elfSections(file: Buffer): ElfSection[] | undefined {
  if (file.length < ELF_HEADER_BYTES || !file.subarray(0, ELF_START.length).equals(ELF_START))
    return undefined;
  if (file.readUInt16LE(52) !== ELF_HEADER_BYTES || file.readUInt32LE(20) !== 1) return undefined;
  const table = Number(file.readBigUInt64LE(40));
  const count = file.readUInt16LE(60);
  if (table + count * SECTION_HEADER_BYTES > file.length) return undefined;
  return Array.from({ length: count }, (_, index) => {
    const header = file.subarray(table + index * SECTION_HEADER_BYTES);
    return {
      type: header.readUInt32LE(4),
      offset: Number(header.readBigUInt64LE(24)),
      bytes: Number(header.readBigUInt64LE(32)),
      link: header.readUInt32LE(40),
      info: header.readUInt32LE(44),
    };
  });
}

/** `e_type` of programs and of libraries. */
const LOADED = [2, 3];

function versionNeeds(file: Buffer): ElfFile["needs"] | undefined {
  const sections = elfSections(file);
  if (sections === undefined || !LOADED.includes(file.readUInt16LE(16))) return undefined;
  if (sections.length === 0) throw new Error("an ELF file has no sections: its needs cannot be read");
  const found = sections.find(({ type }) => type === VERSION_NEEDS);
  return found ? readNeeds(file, found.offset, found.info, sections[found.link]?.offset ?? 0) : [];
}

/** Reads a list of `Elf64_Verneed`, each with its list of `Elf64_Vernaux`. */
function readNeeds(file: Buffer, start: number, count: number, strings: number): ElfFile["needs"] {
  const text = (offset: number) => {
    const from = strings + offset;
    return file.toString("latin1", from, file.indexOf(0, from));
  };
  const needs: ElfFile["needs"] = [];
  let at = start;
  for (let library = 0; library < count; library++) {
    let version = at + file.readUInt32LE(at + 8);
    for (let n = 0; n < file.readUInt16LE(at + 2); n++) {
      needs.push({ library: text(file.readUInt32LE(at + 4)), version: text(file.readUInt32LE(version + 8)) });
      version += file.readUInt32LE(version + 12);
    }
    at += file.readUInt32LE(at + 12);
  }
  return needs;
}

/** Returns the newest version of glibc among needs, such as `2.34`; undefined: none is needed. */
export function newestGlibcOf(files: ElfFile[]): string | undefined {
  let newest: string | undefined;
  for (const { version } of files.flatMap(({ needs }) => needs)) {
    const glibc = /^GLIBC_(\d+(?:\.\d+)+)$/.exec(version)?.[1];
    if (glibc !== undefined && (newest === undefined || isNewerVersion(glibc, newest))) newest = glibc;
  }
  return newest;
}

/**
 * Finds the newest version of glibc that a program or library directly in a folder requires. Statically linked programs
 * require none.
 *
 * @returns a version such as `2.34`; `undefined` when no file requires one
 */
export function newestGlibc(dir: string): string | undefined {
  const files = readdirSync(dir, { withFileTypes: true }).filter((entry) => entry.isFile());
  return newestGlibcOf(
    files.flatMap(({ name }) => {
      const needs = versionNeeds(readFileSync(join(dir, name)));
      return needs === undefined ? [] : [{ offset: 0, needs }];
    }),
  );
}

export function isNewerVersion(version: string, than: string): boolean {
  const [a, b] = [version, than].map((each) => each.split(".").map(Number));
  for (let i = 0; i < Math.max(a?.length ?? 0, b?.length ?? 0); i++) {
    const difference = (a?.[i] ?? 0) - (b?.[i] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
}
