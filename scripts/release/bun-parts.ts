import { standardText } from "./licence-texts.ts";
import type { PartWithTexts } from "./npm-parts.ts";

/**
 * Bun, and the libraries that it links statically, as its page of licences names them.
 * Versions are those that the running Bun reports; the others are those of its commit.
 */

type Library = {
  name: string;
  /** Name in `process.versions`. */
  version?: string;
  licence: string;
  copyright: string;
  source: string;
};

const LIBRARIES: Library[] = [
  library(
    "WebKit (JavaScriptCore)",
    "webkit",
    "LGPL-2.0-or-later",
    "Copyright (C) Apple Inc., the KDE project and the contributors of WebKit",
    "oven-sh/WebKit",
  ),
  library(
    "BoringSSL",
    "boringssl",
    "Apache-2.0 AND ISC AND OpenSSL",
    "Copyright The BoringSSL Authors, Google Inc. and The OpenSSL Project",
    "google/boringssl",
  ),
  library(
    "brotli",
    undefined,
    "MIT",
    "Copyright (c) 2009, 2010, 2013-2016 by the Brotli Authors.",
    "google/brotli",
  ),
  library(
    "libarchive",
    "libarchive",
    "BSD-2-Clause AND BSD-3-Clause",
    "Copyright (c) 2003-2018 Tim Kientzle and the contributors of libarchive; parts: The Regents of the University of California",
    "libarchive/libarchive",
  ),
  library(
    "lol-html",
    "lolhtml",
    "BSD-3-Clause",
    "Copyright (C) 2019, Cloudflare, Inc.\nCopyright (C) 2019, Ivan Nikulin",
    "cloudflare/lol-html",
  ),
  library(
    "ls-hpack",
    "lshpack",
    "MIT",
    "Copyright (c) 2018 LiteSpeed Technologies Inc",
    "litespeedtech/ls-hpack",
  ),
  library(
    "ls-qpack",
    undefined,
    "MIT",
    "Copyright (c) 2018 - 2021 LiteSpeed Technologies Inc",
    "litespeedtech/ls-qpack",
  ),
  library(
    "lsquic",
    undefined,
    "MIT AND BSD-3-Clause",
    "Copyright (c) 2017 - 2018 LiteSpeed Technologies Inc; parts: The Chromium Authors",
    "litespeedtech/lsquic",
  ),
  library(
    "mimalloc",
    "mimalloc",
    "MIT",
    "Copyright (c) 2018-2025 Microsoft Corporation, Daan Leijen",
    "microsoft/mimalloc",
  ),
  library(
    "picohttpparser",
    "picohttpparser",
    "MIT",
    "Copyright (c) 2009-2014 Kazuho Oku, Tokuhiro Matsuno, Daisuke Murase, Shigeo Mitsunari",
    "h2o/picohttpparser",
  ),
  library(
    "zstd",
    "zstd",
    "BSD-3-Clause",
    "Copyright (c) Meta Platforms, Inc. and affiliates. All rights reserved.",
    "facebook/zstd",
  ),
  library("simdutf", undefined, "MIT", "Copyright 2021 The simdutf authors", "simdutf/simdutf"),
  library(
    "TinyCC",
    "tinycc",
    "LGPL-2.1-or-later",
    "Copyright (C) 2001-2004 Fabrice Bellard and the contributors of TinyCC",
    "oven-sh/tinycc",
  ),
  library(
    "uSockets and uWebSockets",
    "uwebsockets",
    "Apache-2.0",
    "Copyright Alex Hultman and contributors",
    "uNetworking/uWebSockets",
  ),
  library(
    "zlib-ng",
    "zlib",
    "Zlib",
    "Copyright (C) 1995-2025 Jean-loup Gailly and Mark Adler",
    "zlib-ng/zlib-ng",
  ),
  library(
    "c-ares",
    "ares",
    "MIT",
    "Copyright (c) 2007 - 2023 Daniel Stenberg with many contributors, see AUTHORS file.",
    "c-ares/c-ares",
  ),
  library(
    "ICU",
    "icu",
    "Unicode-3.0",
    "Copyright (C) 1991 and later: Unicode, Inc. and others",
    "unicode-org/icu",
  ),
  library(
    "base64",
    undefined,
    "BSD-2-Clause",
    "Copyright (c) 2005-2007, Nick Galbreath\nCopyright (c) 2015-2017, Wojciech Mula\nCopyright (c) 2016-2017, Matthieu Darbois\nCopyright (c) 2013-2022, Alfred Klomp",
    "aklomp/base64",
  ),
  library(
    "libdeflate",
    "libdeflate",
    "MIT",
    "Copyright 2016 Eric Biggers\nCopyright 2024 Google LLC",
    "ebiggers/libdeflate",
  ),
  library(
    "libjpeg-turbo",
    undefined,
    "IJG AND BSD-3-Clause AND Zlib",
    "Copyright (C) 2009-2025 D. R. Commander and others. This software is based in part on the work of the Independent JPEG Group.",
    "libjpeg-turbo/libjpeg-turbo",
  ),
  library(
    "libspng",
    undefined,
    "BSD-2-Clause",
    "Copyright (c) 2018-2021, Randy <randy408@protonmail.com>",
    "randy408/libspng",
  ),
  library(
    "libwebp",
    undefined,
    "BSD-3-Clause",
    "Copyright (c) 2010, Google Inc. All rights reserved.",
    "webmproject/libwebp",
  ),
  library("highway", undefined, "Apache-2.0", "Copyright (c) The Highway Project Authors", "google/highway"),
  library("uucode", undefined, "MIT", "Copyright (c) Jacob Sandlund", "jacobsandlund/uucode"),
  library("llhttp", "llhttp", "MIT", "Copyright Fedor Indutny, 2018.", "nodejs/llhttp"),
  library("SQLite", "sqlite", "blessing", "SQLite is in the public domain.", "sqlite/sqlite"),
  library(
    "TigerBeetle (parts of its input and output)",
    undefined,
    "Apache-2.0",
    "Copyright TigerBeetle, Inc.",
    "tigerbeetle/tigerbeetle",
  ),
  library(
    "Node.js modules rewritten for Bun",
    undefined,
    "MIT",
    "Copyright the authors of acorn, acorn-walk, assert, browserify-zlib, buffer, constants-browserify, crypto-browserify, domain-browser, events, https-browserify, os-browserify, path-browserify, process, punycode, querystring-es3, stream-browserify, stream-http, string_decoder, timers-browserify, tty-browserify, url, util, vm-browserify",
    "oven-sh/bun",
  ),
];

function library(
  name: string,
  version: string | undefined,
  licence: string,
  copyright: string,
  repository: string,
): Library {
  return {
    name,
    licence,
    copyright,
    source: `https://github.com/${repository}`,
    ...(version ? { version } : {}),
  };
}

/** Lists Bun and what it contains. */
export function bunParts(): PartWithTexts[] {
  const source = "https://github.com/oven-sh/bun";
  const bun: PartWithTexts = {
    name: "Bun",
    version: Bun.version,
    kind: "runtime",
    licence: "MIT",
    source: `${source}/tree/${Bun.revision}`,
    purl: `pkg:npm/bun@${Bun.version}`,
    note: "the libraries in it are named after its own page of licences",
    texts: [standardText("MIT", "Copyright (c) Oven and the contributors of Bun")],
  };
  return [bun, ...LIBRARIES.map((found) => libraryPart(found))];
}

function libraryPart({ name, version, licence, copyright, source }: Library): PartWithTexts {
  const versions: Record<string, string | undefined> = process.versions;
  const known = version === undefined ? undefined : versions[version];
  return {
    name,
    version: known ?? `that of Bun ${Bun.version}`,
    kind: "runtime",
    licence,
    source,
    purl: purlOf(source, known),
    within: "Bun",
    texts: licence.split(" AND ").map((id) => standardText(id, copyright)),
  };
}

/** @param version a version or a commit; undefined: not known, and then a scanner has to ask for Bun's */
function purlOf(source: string, version: string | undefined): string {
  return `pkg:github/${source.replace("https://github.com/", "").toLowerCase()}${version === undefined ? "" : `@${version}`}`;
}
