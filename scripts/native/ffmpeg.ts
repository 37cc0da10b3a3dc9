import { copyFileSync, existsSync, mkdirSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { cachedBuild } from "./cache.ts";
import { run } from "./run.ts";

/** The npm package `libav.js` carries FFmpeg's unmodified release tarball. */
const FFMPEG_VERSION = "9.0";
const SOURCE_TARBALL = join(
  import.meta.dirname,
  `../../node_modules/libav.js/sources/ffmpeg-${FFMPEG_VERSION}.tar.xz`,
);

/** Names, parted by blanks. */
function words(...lines: string[]): string[] {
  return lines.join(" ").split(" ");
}

/**
 * Containers that stand on their own. Absent on purpose: everything that can name another file or address
 * (concat, hls, dash, sdp, rtsp, imf, image2), subtitles and pictures.
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

/** What decode.ts asks for, and the filters that FFmpeg inserts by itself (aresample, aformat, anull, atrim). */
const FILTERS = words(
  "aresample aformat anull atrim abuffer abuffersink asplit channelsplit pan",
  "volume astats volumedetect highpass asetpts ametadata anullsink apad",
);

const CONFIGURE_FLAGS = [
  "--disable-everything",
  "--disable-autodetect",
  "--disable-network",
  "--disable-swscale",
  "--disable-avdevice",
  "--disable-doc",
  "--disable-debug",
  "--disable-ffplay",
  "--enable-ffmpeg",
  "--enable-ffprobe",
  "--enable-zlib",
  "--enable-protocol=file,pipe,fd",
  `--enable-demuxer=${DEMUXERS.join(",")}`,
  `--enable-decoder=${DECODERS.join(",")}`,
  `--enable-parser=${PARSERS.join(",")}`,
  `--enable-filter=${FILTERS.join(",")}`,
  "--enable-encoder=pcm_s16le",
  "--enable-muxer=pcm_s16le,null",
  "--pkg-config-flags=--static",
];

/** glibc and zlib are linked in. macOS has no static libc; there only the FFmpeg libraries are. */
const STATIC_FLAGS =
  process.platform === "linux" ? ["--extra-ldflags=-static", "--extra-ldexeflags=-static"] : [];

/**
 * Builds FFmpeg for Shruti: audio only, LGPL 2.1, without network, fully static on Linux.
 *
 * Needs a C compiler, make, xz, zlib's headers and (on x86-64) nasm. About three minutes on two cores, once per
 * cache.
 *
 * @returns the folder that holds `ffmpeg`, `ffprobe` and FFmpeg's licence text
 */
export function buildFfmpeg(): Promise<string> {
  const inputs = [
    { literal: [...CONFIGURE_FLAGS, ...STATIC_FLAGS].join(" ") },
    { literal: "strip, licence, 1" },
    { path: SOURCE_TARBALL },
  ];
  return cachedBuild(`ffmpeg-${FFMPEG_VERSION}`, inputs, compile);
}

async function compile(outDir: string): Promise<void> {
  const workDir = join(tmpdir(), `shruti-ffmpeg-${process.pid}`);
  rmSync(workDir, { recursive: true, force: true });
  mkdirSync(workDir, { recursive: true });
  try {
    await run(["tar", "-xJf", SOURCE_TARBALL, "-C", workDir]);
    const sourceDir = join(workDir, `ffmpeg-${FFMPEG_VERSION}`);
    await run(["nice", "./configure", ...CONFIGURE_FLAGS, ...STATIC_FLAGS], { cwd: sourceDir });
    await run(["nice", "make", `-j${availableParallelism()}`, "ffmpeg", "ffprobe"], { cwd: sourceDir });
    for (const name of ["ffmpeg", "ffprobe"]) {
      copyFileSync(join(sourceDir, name), join(outDir, name));
      await run(["strip", join(outDir, name)]);
      await checkProgram(join(outDir, name));
    }
    copyFileSync(join(sourceDir, "COPYING.LGPLv2.1"), join(outDir, "COPYING.LGPLv2.1"));
  } finally {
    rmSync(workDir, { recursive: true, force: true });
  }
}

/** A GPL build must not be shipped, and a dynamic one would not start on a bare host. */
async function checkProgram(path: string): Promise<void> {
  const licence = await run([path, "-hide_banner", "-L"]);
  if (!licence.includes("GNU Lesser General Public")) {
    throw new Error(`${path} is not under the LGPL:\n${licence}`);
  }
  if (process.platform !== "linux" || !existsSync("/usr/bin/readelf")) return;
  const dynamic = await run(["readelf", "-d", path]);
  if (!dynamic.includes("no dynamic section")) throw new Error(`${path} is not static:\n${dynamic}`);
}
