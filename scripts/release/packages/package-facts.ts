import type { PartList } from "../../../src/executable/parts.ts";

/** What packages of both kinds say of themselves. */
export type PackageFacts = {
  /** As dpkg and rpm compare it: `1.0.0~rc.1` is older than `1.0.0`. */
  version: string;
  /** Counts the packages of one version of the program. */
  revision: number;
  architecture: { deb: string; rpm: string };
  summary: string;
  /** Lines of at most 79 characters. */
  description: string;
  /** Name and mail address. */
  maintainer: string;
  /** The time of all files is that of the commit, so that the bytes do not depend on the clock. */
  time: Date;
  /** The oldest glibc with which the executable runs; null: that of the machine that built it. */
  glibc: string | null;
  /** SPDX name of the product's licence. */
  licence: string;
  commit: string;
  /** Level of gzip. */
  compression: number;
};
/** What the maker of a release decides about its packages. */
export type PackageOptions = {
  formats: readonly Format[];
  /** Who answers for them: name and mail address. */
  maintainer: string;
  /** Level of gzip, from 1 (fast) to 9; 6 unless given. */
  compression?: number;
};

/** The kinds of packages. */
export const FORMATS = ["deb", "rpm"] as const;
export type Format = (typeof FORMATS)[number];

const ARCHITECTURES: Readonly<Record<string, PackageFacts["architecture"]>> = {
  "linux-x64": { deb: "amd64", rpm: "x86_64" },
  "linux-arm64": { deb: "arm64", rpm: "aarch64" },
};
/** SPDX has this form for a licence that it does not know. */
export const NO_LICENCE = "LicenseRef-none-chosen";
/** A name that ends like this reaches no machine (RFC 2606). */
export const NO_MAINTAINER = "Makers of this release <nobody@shruti.invalid>";

/**
 * @param parts of the executable that is packed
 * @throws Error when no package exists for the platform
 */
export function packageFacts(
  { build, licence }: PartList,
  { maintainer, compression = 6 }: PackageOptions,
  time: Date,
): PackageFacts {
  const architecture = ARCHITECTURES[build.platform];
  if (architecture === undefined) throw new Error(`there is no package for ${build.platform}`);
  return {
    version: build.version.replace("-", "~"),
    revision: 1,
    architecture,
    summary: "Self-hosted speech transcription, mainly for Indian languages",
    description: [
      "Shruti turns recordings of speech into text on this machine: a server with an",
      "HTTP API, a console for browsers and an audio layer like OpenAI's. The",
      "executable carries the recognizer, the decoder and its database.",
    ].join("\n"),
    maintainer,
    time,
    glibc: build.glibc,
    licence: licence?.name ?? NO_LICENCE,
    commit: build.commit ?? "unknown",
    compression,
  };
}
