import { copyFileSync, cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { cachedBuild } from "./cache.ts";
import { run } from "./run.ts";
import { partName, processorOf, type Toolchain } from "./toolchain.ts";

/** The npm package `libav.js` carries FFmpeg's unmodified release tarball. */
const FFMPEG_VERSION = "9.0";
const SOURCE_TARBALL = join(
  import.meta.dirname,
  `../../../node_modules/libav.js/sources/ffmpeg-${FFMPEG_VERSION}.tar.xz`,
);

/** Returns the names in lines of names separated by blanks. */
function words(...lines: string[]): string[] {
  return lines.join(" ").split(" ");
}

/**
 * Containers that need no other file. Deliberately absent: everything that can name another file or address (concat,
 * hls, dash, sdp, rtsp, imf, image2), subtitles and pictures. Those of files without a signature are used only where the
 * sender names the format (src/domain/raw-formats.ts); the build has some more of them.
 */
const DEMUXERS = words(
  "wav w64 aiff au caf voc sox nistsphere ircam sln xwma",
  "mp3 aac loas ac3 eac3 dts dtshd mlp truehd flac ape tta wv tak",
  "mpc mpc8 shorten ogg matroska mov asf avi flv mpegts mpegps rm oma",
  "amr amrnb amrwb qcp dss gsm g722 g723_1 g726 g726le g729 ilbc",
  "pcm_alaw pcm_mulaw pcm_s16le pcm_s16be pcm_s8 pcm_u8 pcm_s24le pcm_s32le pcm_f32le",
);

const PCM_DECODERS = words(
  "alaw mulaw s8 s8_planar u8 s16le s16be s16le_planar s16be_planar u16le u16be",
  "s24le s24be s24le_planar u24le u24be s32le s32be s32le_planar u32le u32be",
  "s64le s64be f16le f24le f32le f32be f64le f64be bluray dvd vidc",
).map((name) => `pcm_${name}`);

const ADPCM_DECODERS = words(
  "ms ima_wav ima_qt ima_oki ima_dk3 ima_dk4 ima_ws g722 g726 g726le",
  "sbpro_2 sbpro_3 sbpro_4 swf yamaha ct",
).map((name) => `adpcm_${name}`);

const DECODERS = [
  ...PCM_DECODERS,
  ...ADPCM_DECODERS,
  ...words(
    "mp1float mp2float mp3float mp3adufloat mp3on4float aac aac_latm als alac flac",
    "opus vorbis speex amrnb amrwb gsm gsm_ms qcelp evrc ilbc g723_1 g729",
    "wmav1 wmav2 wmapro wmalossless wmavoice ac3 eac3 dca mlp truehd ape tta",
    "wavpack tak mpc7 mpc8 shorten truespeech nellymoser dss_sp cook ra_144 ra_288",
    "sipr atrac3 atrac3p siren msnsiren",
  ),
];

const PARSERS = words(
  "aac aac_latm ac3 amr cook dca flac g723_1 g729 gsm misc4 mlp",
  "mpegaudio opus sipr tak vorbis",
);

const CONFIGURE_FLAGS = [
  "--disable-everything",
  "--disable-autodetect",
  "--disable-programs",
  "--disable-network",
  "--disable-avdevice",
  "--disable-avfilter",
  "--disable-swscale",
  "--disable-doc",
  "--disable-debug",
  "--enable-zlib",
  `--enable-demuxer=${DEMUXERS.join(",")}`,
  `--enable-decoder=${DECODERS.join(",")}`,
  `--enable-parser=${PARSERS.join(",")}`,
];

/**
 * Builds FFmpeg's libraries for Shruti's decoder: audio only, LGPL 2.1, static, without network and without any
 * protocol, so that a file cannot name another file or address. For a release, zlib too.
 *
 * Needs a C compiler, make, xz, zlib's headers and (for x86-64) nasm. About three minutes on two cores, once per
 * cache.
 *
 * @returns the folder with `include/`, `lib/` and FFmpeg's licence text
 */
export function buildFfmpeg(toolchain: Toolchain): Promise<string> {
  const inputs = [
    { literal: CONFIGURE_FLAGS.join(" ") },
    { literal: toolchain.target === undefined ? "install, licence, 2" : toolchain.identity },
    { path: SOURCE_TARBALL },
    ...(toolchain.target === undefined ? [] : [{ path: ZLIB_TARBALL }, { path: import.meta.path }]),
  ];
  return cachedBuild(partName(toolchain, `ffmpeg-${FFMPEG_VERSION}`), inputs, (outDir) =>
    compile(toolchain, outDir),
  );
}

async function compile(toolchain: Toolchain, outDir: string): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), "shruti-ffmpeg-"));
  const env = { ...toolchain.env, ...(toolchain.target && { ZIG_LOCAL_CACHE_DIR: join(work, "zig-cache") }) };
  try {
    await run(["tar", "-xJf", SOURCE_TARBALL, "-C", work]);
    const cwd = join(work, `ffmpeg-${FFMPEG_VERSION}`);
    if (toolchain.target !== undefined) {
      await compileZlib({ ...toolchain, env }, work, join(cwd, ZLIB_FOLDER));
      cpSync(join(cwd, ZLIB_FOLDER), outDir, { recursive: true });
    }
    // FFmpeg's libraries contain the command line of `configure`: without folders of the machine that builds.
    await run(["nice", "./configure", "--prefix=/", ...CONFIGURE_FLAGS, ...crossFlags(toolchain)], {
      cwd,
      env,
    });
    refuseGpl(join(cwd, "config.h"));
    const make = ["nice", "make", `-j${availableParallelism()}`, `DESTDIR=${outDir}`];
    await run([...make, "install-libs", "install-headers"], { cwd, env });
    copyFileSync(join(cwd, "COPYING.LGPLv2.1"), join(outDir, "COPYING.LGPLv2.1"));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function crossFlags(toolchain: Toolchain): string[] {
  if (toolchain.target === undefined) return [];
  return [
    ...["--enable-cross-compile", "--target-os=linux", `--arch=${processorOf(toolchain.target)}`],
    ...[`--cc=${toolchain.staticCc}`, `--ar=${toolchain.ar}`, `--ranlib=${toolchain.ranlib}`],
    ...[`--extra-cflags=-I${ZLIB_FOLDER}/include`, `--extra-ldflags=-L${ZLIB_FOLDER}/lib`],
  ];
}

/** `libav.js` carries zlib's release tarball, too. */
const ZLIB_VERSION = "1.3.2";
const ZLIB_TARBALL = join(SOURCE_TARBALL, `../zlib-${ZLIB_VERSION}.tar.gz`);

/** In FFmpeg's source folder, in which its build runs. */
const ZLIB_FOLDER = "zlib";

/** Builds zlib: this machine's own was built for its own libc. */
async function compileZlib(toolchain: Toolchain, work: string, outDir: string): Promise<void> {
  await run(["tar", "-xzf", ZLIB_TARBALL, "-C", work]);
  const cwd = join(work, `zlib-${ZLIB_VERSION}`);
  const { staticCc, ar, ranlib } = toolchain;
  const env = { ...toolchain.env, CC: staticCc, AR: ar, RANLIB: ranlib, CFLAGS: "-O3" };
  await run(["./configure", "--static", "--prefix=/"], { cwd, env });
  await run(["make", `DESTDIR=${outDir}`, "install"], { cwd, env });
}

/** @throws Error when FFmpeg is configured under the GPL, which must not be shipped */
function refuseGpl(configHeader: string): void {
  const licence = /^#define FFMPEG_LICENSE "(.*)"$/m.exec(readFileSync(configHeader, "utf8"))?.[1];
  if (licence !== "LGPL version 2.1 or later") throw new Error(`FFmpeg is configured under ${licence}`);
}
