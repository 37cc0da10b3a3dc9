import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { makeWav } from "../../testing/makers/audio-makers.ts";
import { countAudio, decodeAudio } from "./decode.ts";

/**
 * Texts in a recording (titles, field names, comments, chapters) change nothing: neither its duration, on which the
 * charge depends, nor whether it is accepted.
 */

const ffmpeg = Bun.which("ffmpeg");
const LIMITS = { maxDurationMs: 3_600_000, timeoutMs: 30_000 };
let folder: string;
let nativeFiles: NativeFiles;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-metadata-"));
  nativeFiles = await extractNativeFiles(folder);
  writeFileSync(join(folder, "sound.wav"), makeWav({ seconds: 6, channels: 2 }));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Texts that look like the output of a decoder, and texts that are difficult for parsers. */
const fragments = fc.constantFrom(
  "\n",
  "\r\n",
  '{"samples": 1000, "channels": 1, "sample_rate_hz": 16000, "lost_ms": 0, "broke_off": false}\n',
  '{"failed": "too_long"}\n',
  '{"done_ms": 1}',
  "[volumedetect@count @ 0x1] n_samples: -959000\n",
  "out_time_us=1\nprogress=end\n",
  "File too large",
  "Cannot allocate memory",
  "No space left on device",
  "Estimating duration from bitrate",
  "Duration: 00:00:00.06",
  "%n%s",
  "\u001b[2J",
  "\u202e",
  "=;#\\",
);
const hostile = fc
  .array(fc.oneof(fragments, fc.string({ maxLength: 20 })), { minLength: 1, maxLength: 6 })
  .map((parts) => parts.join("").replaceAll("\0", ""));
const metadata = fc.record({ name: hostile, value: hostile, title: hostile, chapter: hostile });

/** ffmpeg's own format for metadata (ffmpeg-formats, "Metadata"): `=`, `;`, `#`, `\` and line ends are escaped. */
function metadataFile({
  name,
  value,
  title,
  chapter,
}: Record<"name" | "value" | "title" | "chapter", string>): string {
  const escaped = (text: string) => text.replace(/[=;#\\\n]/g, "\\$&");
  const lines = [";FFMETADATA1", `title=${escaped(title)}`, `${escaped(name)}=${escaped(value)}`];
  const chapters = ["[CHAPTER]", "TIMEBASE=1/1000", "START=0", "END=3000", `title=${escaped(chapter)}`];
  return `${[...lines, ...chapters].join("\n")}\n`;
}

const CONTAINERS = [
  ["MP3", "mp3", ["-c:a", "libmp3lame"]],
  ["AIFF", "aiff", ["-write_id3v2", "1"]],
  ["WAV", "wav", []],
  ["M4A", "m4a", ["-c:a", "aac", "-movflags", "use_metadata_tags"]],
  ["MOV", "mov", ["-c:a", "aac"]],
  ["Ogg Opus", "ogg", ["-c:a", "libopus"]],
  ["Ogg Vorbis", "ogg", ["-c:a", "libvorbis"]],
  ["FLAC", "flac", []],
  ["Matroska", "mka", ["-c:a", "libopus"]],
  ["WebM", "webm", ["-c:a", "libopus"]],
  ["ASF", "wma", ["-c:a", "wmav2"]],
  ["CAF", "caf", []],
  ["MPEG-TS", "ts", ["-c:a", "aac"]],
  ["AAC with ID3", "aac", ["-c:a", "aac", "-write_id3v2", "1"]],
  ["AVI", "avi", ["-c:a", "libmp3lame"]],
  ["FLV", "flv", ["-c:a", "aac"]],
  ["3GP", "3gp", ["-c:a", "aac"]],
  ["AU", "au", []],
  ["W64", "w64", []],
  ["WavPack", "wv", []],
  ["TTA", "tta", []],
  ["Matroska video", "mkv", ["-c:a", "flac"]],
] as const;

describe.skipIf(ffmpeg === null)("hostile metadata (needs ffmpeg)", () => {
  test.each(CONTAINERS)("%s", async (_name, ending, options) => {
    const encode = (name: string, ...more: string[]): string => {
      const path = join(folder, `${name}.${ending}`);
      const input = ["-i", join(folder, "sound.wav"), ...more];
      const done = Bun.spawnSync([ffmpeg ?? "", "-v", "error", "-y", ...input, ...options, path]);
      if (done.exitCode !== 0) throw new Error(done.stderr.toString());
      return path;
    };
    const plain = await countAudio(nativeFiles, encode("plain"), LIMITS);
    expect(Math.abs(plain.durationMs - 6_000)).toBeLessThan(150);
    const unchanged = async (given: Parameters<typeof metadataFile>[0]) => {
      const tags = join(folder, "tags.txt");
      writeFileSync(tags, metadataFile(given));
      const mapped = [
        "-f",
        "ffmetadata",
        "-i",
        tags,
        "-map",
        "0:a",
        "-map_metadata",
        "1",
        "-map_chapters",
        "1",
      ];
      const path = encode("hostile", ...mapped);
      expect(await countAudio(nativeFiles, path, LIMITS)).toEqual(plain);
      const output = join(folder, "out.pcm");
      expect(await decodeAudio(nativeFiles, path, { output, ...LIMITS })).toMatchObject({
        durationMs: plain.durationMs,
      });
    };
    await fc.assert(fc.asyncProperty(metadata, unchanged), { numRuns: 5, seed: 7 });
  });
});
