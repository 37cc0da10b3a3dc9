import partsFile from "#shruti-parts" with { type: "file" };

/** What the executable is made of: written by scripts/release/parts.ts at every build, and embedded. */
export type PartList = {
  build: BuildFacts;
  /** The licence of the product itself: null while none is chosen. */
  licence: { name: string; text: string } | null;
  parts: Part[];
  /** Licence texts by the first digits of their SHA-256; many parts share one. */
  texts: Record<string, string>;
};

export type BuildFacts = {
  version: string;
  /** The commit that was built, 40 hex digits; null outside a repository. */
  commit: string | null;
  /** True when files differed from the commit. */
  dirty: boolean;
  /** The commit's time. The time of the build is not recorded, so that two builds give the same bytes. */
  committed_at: string | null;
  platform: string;
  /** Compiler of the native parts. */
  compiler: string;
  /** The newest glibc that a part needs; null for none. */
  glibc: string | null;
  /** Names of whisper's code for families of processors, such as `haswell`. A build for one machine lacks some. */
  processor_code: { names: string[]; complete: boolean };
  bun: string;
  bun_revision: string;
};

export type Part = {
  name: string;
  version: string;
  kind: "npm" | "native" | "runtime" | "model";
  /** SPDX expression. */
  licence: string;
  /** Where its source is. */
  source: string;
  purl?: string;
  /** Name of the part that contains it. */
  within?: string;
  note?: string;
  /** Hash of the published package. */
  sha512?: string;
  /** Embedded files that are made of it. */
  files?: { name: string; sha256: string }[];
  /** Keys of `texts`. */
  texts: string[];
};

/** Reads the list of this executable's parts. */
export async function readParts(): Promise<PartList> {
  return (await Bun.file(partsFile).json()) as PartList;
}

/** Returns the commit of this executable, with `-dirty` where files differed from it; null: not known. */
export async function commitOf(): Promise<string | null> {
  const { commit, dirty } = (await readParts()).build;
  return commit === null || !dirty ? commit : `${commit}-dirty`;
}
