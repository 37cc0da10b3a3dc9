import { chmodSync, copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { DECODER } from "../../src/native/build/decoder.ts";
import { standardText } from "./licence-texts.ts";

const SOURCES = join(import.meta.dirname, "../../node_modules/libav.js/sources");

/** The release of FFmpeg that the build unpacks. */
export function ffmpegRelease(): { version: string; tarball: string } {
  const found = readdirSync(SOURCES).flatMap((name) => /^ffmpeg-(\d[\w.]*)\.tar\.xz$/.exec(name)?.[1] ?? []);
  const [version, another] = found;
  if (version === undefined || another !== undefined) {
    throw new Error(`${SOURCES} has ${found.length} releases of FFmpeg`);
  }
  return { version, tarball: join(SOURCES, `ffmpeg-${version}.tar.xz`) };
}

/**
 * Reads the flags that FFmpeg was configured with out of its own library, so that the recipe cannot differ from the
 * build. Compilers and folders are left out.
 *
 * @param built folder of the built libraries
 */
export function configureFlags(built: string): string[] {
  const library = readFileSync(join(built, "lib/libavutil.a"), "latin1");
  const line = /--prefix=[^\0\n]*--disable-everything[^\0\n]*/.exec(library)?.[0];
  if (line === undefined) throw new Error(`${built} does not contain its configuration`);
  // It is written as for a shell.
  const flags = line.replaceAll("'", "").split(" ");
  return flags.filter((flag) => /^--(en|dis)able-/.test(flag) && flag !== "--enable-cross-compile");
}

/** zlib's release, which the decoder is linked with as well. */
const ZLIB_TARBALL = /^zlib-.*\.tar\.gz$/;

/**
 * Fills a folder with all that makes the decoder: the sources of FFmpeg and zlib, the program's own source, and a script
 * that builds it. It is what FFmpeg's licence (LGPL 2.1, section 6) asks for.
 *
 * @param flags of FFmpeg's `configure`
 * @param licences texts for the folder
 */
export function layOutFfmpegSource(folder: string, flags: string[], licences: string): void {
  const { version, tarball } = ffmpegRelease();
  mkdirSync(join(folder, "decoder"), { recursive: true });
  copyFileSync(tarball, join(folder, basename(tarball)));
  for (const name of readdirSync(SOURCES).filter((entry) => ZLIB_TARBALL.test(entry))) {
    copyFileSync(join(SOURCES, name), join(folder, name));
  }
  for (const name of readdirSync(DECODER.sources)) {
    copyFileSync(join(DECODER.sources, name), join(folder, "decoder", name));
  }
  writeFileSync(join(folder, "COPYING.LGPLv2.1"), standardText("LGPL-2.1-or-later", ""));
  writeFileSync(join(folder, "LICENCES.txt"), licences);
  writeFileSync(join(folder, "README.txt"), readme(version));
  writeFileSync(join(folder, "build-decoder.sh"), buildScript(version, flags));
  chmodSync(join(folder, "build-decoder.sh"), 0o755);
}

const quoted = (words: readonly string[]) =>
  words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" \\\n  ");

/** Renders the build as a shell script, with the flags of our own. */
function buildScript(version: string, flags: string[]): string {
  return `#!/bin/sh
# Builds Shruti's decoder with FFmpeg's libraries. Needs a C compiler, make, xz, zlib's headers, and on x86-64 nasm.
#
#   ./build-decoder.sh [FFMPEG_SOURCE]     a folder with another version or a changed FFmpeg; else the one beside this
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
work="$here/work"
: "\${CC:=cc}"
mkdir -p "$work"
if [ $# -gt 0 ]; then
  source="$(cd "$1" && pwd)"
else
  tar -xJf "$here/ffmpeg-${version}.tar.xz" -C "$work"
  source="$work/ffmpeg-${version}"
fi
mkdir -p "$work/build"
cd "$work/build"
"$source/configure" --prefix="$work/installed" --cc="$CC" \\
  ${quoted(flags)}
make -j"$(nproc)" install-libs install-headers
cd "$here/decoder"
"$CC" \\
  ${quoted(DECODER.flags)} \\
  -I"$work/installed/include" ${DECODER.files.map((name) => `${name}.c`).join(" ")} -o "$here/decoder-program" -static \\
  -L"$work/installed/lib" ${DECODER.libraries.join(" ")}
strip "$here/decoder-program"
echo "$here/decoder-program"
`;
}

const readme = (version: string) => `The source of Shruti's decoder, and of the FFmpeg in it

Shruti reads recordings with a program of its own, the decoder. FFmpeg's libraries (LGPL 2.1 or later) are linked into
that program, and into nothing else of Shruti. Here is all that it is made of:

  ffmpeg-${version}.tar.xz   FFmpeg's release, unchanged
  zlib-….tar.gz      zlib's release
  decoder/           the program's own source. It is here so that you can link it with another FFmpeg
  build-decoder.sh   builds both with the flags of Shruti's releases

To use another FFmpeg:

  ./build-decoder.sh /path/to/another/ffmpeg
  cp decoder-program /usr/local/lib/shruti-decoder
  # in shruti.toml:
  [engine]
  decoder = "/usr/local/lib/shruti-decoder"

Then restart Shruti. \`shruti doctor\` runs with that decoder.
`;
