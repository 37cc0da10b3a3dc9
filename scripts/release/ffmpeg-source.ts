import { chmodSync, copyFileSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { DECODER } from "../native/decoder.ts";
import { FFMPEG } from "../native/ffmpeg.ts";
import { standardText } from "./licence-texts.ts";

/** zlib's release, which the decoder is linked with as well. */
const ZLIB_TARBALL = /^zlib-.*\.tar\.gz$/;

/**
 * Fills a folder with all that makes the decoder: the sources of FFmpeg and zlib, the program's own source, and a script
 * that builds it. It is what FFmpeg's licence (LGPL 2.1, section 6) asks for.
 */
export function layOutFfmpegSource(folder: string, licences: string): void {
  mkdirSync(join(folder, "decoder"), { recursive: true });
  copyFileSync(FFMPEG.tarball, join(folder, basename(FFMPEG.tarball)));
  const sources = join(FFMPEG.tarball, "..");
  for (const name of readdirSync(sources).filter((entry) => ZLIB_TARBALL.test(entry))) {
    copyFileSync(join(sources, name), join(folder, name));
  }
  for (const name of readdirSync(DECODER.sources)) {
    copyFileSync(join(DECODER.sources, name), join(folder, "decoder", name));
  }
  writeFileSync(join(folder, "COPYING.LGPLv2.1"), standardText("LGPL-2.1-or-later", ""));
  writeFileSync(join(folder, "LICENCES.txt"), licences);
  writeFileSync(join(folder, "README.txt"), README);
  writeFileSync(join(folder, "build-decoder.sh"), buildScript());
  chmodSync(join(folder, "build-decoder.sh"), 0o755);
}

const quoted = (words: readonly string[]) =>
  words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" \\\n  ");

/** The same flags as our build: scripts/native/ffmpeg.ts and decoder.ts. */
function buildScript(): string {
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
  tar -xJf "$here/${basename(FFMPEG.tarball)}" -C "$work"
  source="$work/ffmpeg-${FFMPEG.version}"
fi
mkdir -p "$work/build"
cd "$work/build"
"$source/configure" --prefix="$work/installed" --cc="$CC" \\
  ${quoted(FFMPEG.flags)}
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

const README = `The source of Shruti's decoder, and of the FFmpeg in it

Shruti reads recordings with a program of its own, the decoder. FFmpeg's libraries (LGPL 2.1 or later) are linked into
that program, and into nothing else of Shruti. Here is all that it is made of:

  ffmpeg-${FFMPEG.version}.tar.xz   FFmpeg's release, unchanged
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
