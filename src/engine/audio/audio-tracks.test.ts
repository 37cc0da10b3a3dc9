import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import type { Reading } from "../../domain/reading.ts";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { countAudio, decodeAudio } from "./decode.ts";

/** Which audio track of a file with several is read. Each track has a tone of its own. */

const ffmpeg = Bun.which("ffmpeg");
const LIMITS = { maxDurationMs: 600_000, timeoutMs: 60_000 };

let folder: string;
let nativeFiles: NativeFiles;
let made = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-tracks-"));
  nativeFiles = await extractNativeFiles(folder);
  if (ffmpeg === null)
    console.warn("audio-tracks.test.ts: tests are left out, because ffmpeg is not installed");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A track: a tone, or silence, for some seconds. `level` is its largest sample. */
type Sound = { hertz?: number; seconds: number; level?: number };

const LOW: Sound = { hertz: 440, seconds: 2 };
const HIGH: Sound = { hertz: 1000, seconds: 3 };
const SILENT: Sound = { seconds: 4 };

function sourceOf({ hertz, seconds, level = 0.5 }: Sound): string[] {
  const samples = hertz === undefined ? "0" : `${level}*sin(2*PI*${hertz}*t)`;
  return ["-f", "lavfi", "-i", `aevalsrc='${samples}':s=48000:d=${seconds}`];
}

/** Makes a file whose audio tracks have these sounds. */
function fileOf(suffix: string, sounds: readonly Sound[], ...options: string[]): string {
  const path = join(folder, `${made++}.${suffix}`);
  const maps = sounds.flatMap((_, index) => ["-map", `${index}:a`]);
  const command = ["-v", "error", ...sounds.flatMap(sourceOf), ...maps, ...options, path];
  const done = Bun.spawnSync([ffmpeg ?? "", ...command], { stdin: "ignore", stderr: "pipe" });
  if (done.exitCode !== 0) throw new Error(`${command.join(" ")}:\n${done.stderr}`);
  return path;
}

/** Writes a file again with other bytes in the place of the first `from`. */
function replaced(path: string, from: string, to: string): string {
  const bytes = readFileSync(path);
  const at = bytes.indexOf(from, 0, "latin1");
  if (at < 0 || from.length !== to.length) throw new Error(`${from} is not in the file`);
  bytes.write(to, at, "latin1");
  const other = `${path}.other`;
  writeFileSync(other, bytes);
  return other;
}

/** Makes the codec of the first track of an MP4 file that has one unknown. */
const withUnknownTrack = (path: string) => replaced(replaced(path, "mp4a", "apac"), "esds", "xxxx");

/** Returns the frequency of a decoded tone, by its zero crossings in the middle half of the sound, to the next 10 Hz. */
async function hertzOf(file: string): Promise<number> {
  const samples = new Int16Array(await Bun.file(file).arrayBuffer());
  const from = Math.floor(samples.length / 4);
  const to = Math.floor((samples.length * 3) / 4);
  let crossings = 0;
  for (let n = from; n < to; n++) if ((samples[n] ?? 0) < 0 && (samples[n + 1] ?? 0) >= 0) crossings++;
  return 10 * Math.round((crossings * SAMPLE_RATE_HZ) / (to - from) / 10);
}

/** Returns when the sound of a decoded file begins and ends. */
async function edgesOf(file: string | undefined): Promise<{ startMs: number; endMs: number }> {
  const samples = new Int16Array(await Bun.file(file ?? "").arrayBuffer());
  const isLoud = (sample: number) => Math.abs(sample) > 1000;
  const toMs = (sample: number) => (sample * 1000) / SAMPLE_RATE_HZ;
  return { startMs: toMs(samples.findIndex(isLoud)), endMs: toMs(samples.findLastIndex(isLoud)) };
}

/** Decodes and counts a file, and returns what both say. */
async function heard(path: string, reading?: Reading) {
  const output = join(folder, `out-${made++}.pcm`);
  const counted = await countAudio(nativeFiles, path, { ...LIMITS, reading });
  const decoded = await decodeAudio(nativeFiles, path, { ...LIMITS, reading, output });
  expect(decoded.durationMs).toBe(counted.durationMs);
  expect(decoded.reading).toEqual(counted.reading);
  const again = await countAudio(nativeFiles, path, { ...LIMITS, reading: counted.reading });
  expect(again).toEqual(counted);
  return { ...decoded, hertz: await hertzOf(output) };
}

const DEFAULT_SECOND = ["-disposition:a:0", "0", "-disposition:a:1", "default"];
const AAC = ["-c:a", "aac"];

/** Containers that hold several audio tracks, with a codec that each takes. */
const CONTAINERS: [suffix: string, ...options: string[]][] = [
  ["mkv", ...AAC],
  ["mka", "-c:a", "flac"],
  ["webm", "-c:a", "libopus"],
  ["mp4", ...AAC],
  ["mov", "-c:a", "pcm_s16le"],
  ["ts", ...AAC],
  ["mpg", "-c:a", "mp2"],
  ["avi", "-c:a", "libmp3lame"],
  ["wma", "-c:a", "wmav2"],
  ["ogg", "-c:a", "libvorbis"],
];

describe.skipIf(ffmpeg === null)("audio tracks (needs ffmpeg)", () => {
  test.each(CONTAINERS)("%s: a silent first track is passed over", async (suffix, ...options) => {
    const { hertz, durationMs, reading } = await heard(fileOf(suffix, [SILENT, LOW], ...options));
    expect({ hertz, reading }).toEqual({ hertz: 440, reading: { track: 1, leftOut: [] } });
    expect(Math.abs(durationMs - 2000)).toBeLessThan(150);
  });

  test.each(CONTAINERS)("%s: of two tracks with sound the other is named", async (suffix, ...options) => {
    const { hertz, durationMs, reading } = await heard(fileOf(suffix, [LOW, SILENT, HIGH], ...options));
    expect({ hertz, reading }).toEqual({ hertz: 440, reading: { track: 0, leftOut: [2] } });
    expect(Math.abs(durationMs - 2000)).toBeLessThan(150);
  });

  test.each([
    ["mkv", ...AAC],
    ["webm", "-c:a", "libopus"],
    ["mp4", ...AAC],
    ["mov", ...AAC],
  ])("%s: the track that the file marks is taken", async (suffix, ...options) => {
    const path = fileOf(suffix, [LOW, HIGH], ...options, ...DEFAULT_SECOND);
    const { hertz, durationMs, reading } = await heard(path);
    expect({ hertz, reading }).toEqual({ hertz: 1000, reading: { track: 1, leftOut: [0] } });
    expect(Math.abs(durationMs - 3000)).toBeLessThan(150);
  });

  test("a marked track without sound gives way to one with sound", async () => {
    const { hertz, reading } = await heard(fileOf("mkv", [LOW, SILENT], ...AAC, ...DEFAULT_SECOND));
    expect({ hertz, reading }).toEqual({ hertz: 440, reading: { track: 0, leftOut: [] } });
  });

  test("a commentary comes after other tracks", async () => {
    const options = ["-disposition:a:0", "comment", "-disposition:a:1", "0"];
    const { hertz, reading } = await heard(fileOf("mkv", [LOW, HIGH], ...AAC, ...options));
    expect({ hertz, reading }).toEqual({ hertz: 1000, reading: { track: 1, leftOut: [0] } });
  });

  test.each([
    ["1", "2", 440, { track: 0, leftOut: [1] }],
    ["2", "1", 440, { track: 0, leftOut: [1] }],
  ])("MPEG-TS with the programs %s and %s: the first program", async (first, second, expected, reading) => {
    const programs = [first, second].flatMap((number, st) => ["-program", `program_num=${number}:st=${st}`]);
    const found = await heard(fileOf("ts", [LOW, HIGH], ...AAC, ...programs));
    expect({ hertz: found.hertz, reading: found.reading }).toEqual({ hertz: expected, reading });
  });

  test("a first track that cannot be decoded does not hide the second", async () => {
    const mp4 = withUnknownTrack(fileOf("mp4", [LOW, HIGH], ...AAC));
    expect(await heard(mp4)).toMatchObject({ hertz: 1000, reading: { track: 1, leftOut: [] } });
    const mkv = replaced(fileOf("mkv", [LOW, HIGH], ...AAC), "A_AAC", "A_XYZ");
    expect(await heard(mkv)).toMatchObject({ hertz: 1000, reading: { track: 1, leftOut: [] } });
  });

  test("a file whose tracks are all unknown is undecodable", async () => {
    const path = withUnknownTrack(withUnknownTrack(fileOf("mp4", [LOW, HIGH], ...AAC)));
    await expect(heard(path)).rejects.toMatchObject({ reason: "undecodable" });
  });

  test("tracks that are all silent: the first", async () => {
    const { durationMs, reading } = await heard(fileOf("mkv", [SILENT, { seconds: 1 }], ...AAC));
    expect(reading).toEqual({ track: 0, leftOut: [] });
    expect(Math.abs(durationMs - 4000)).toBeLessThan(150);
  });

  test("a very quiet track is not silent", async () => {
    const quiet = { hertz: 440, seconds: 2, level: 0.002 };
    expect((await heard(fileOf("mov", [quiet, HIGH], "-c:a", "pcm_s16le"))).reading).toEqual({
      ...{ track: 0, leftOut: [1] },
    });
  });

  test("a file with one track needs no choice", async () => {
    expect((await heard(fileOf("mp4", [LOW], ...AAC))).reading).toEqual({});
  });

  test("the choice is one for all files that were joined", async () => {
    const begins = readFileSync(fileOf("mkv", [SILENT, SILENT], ...AAC));
    const ends = readFileSync(fileOf("mkv", [SILENT, LOW], ...AAC));
    const path = join(folder, "joined.mkv");
    writeFileSync(path, Buffer.concat([begins, ends]));
    const { durationMs, reading } = await heard(path);
    expect(reading).toEqual({ track: 1, leftOut: [] });
    expect(Math.abs(durationMs - 6000)).toBeLessThan(300);
  });

  test("a reading that was found before is kept, also where the choice would be another one now", async () => {
    const path = fileOf("mkv", [LOW, HIGH], ...AAC);
    expect(await heard(path, { track: 1, leftOut: [0] })).toMatchObject({
      ...{ hertz: 1000, reading: { track: 1, leftOut: [0] } },
    });
    expect(await heard(path, { track: 0 })).toMatchObject({ hertz: 440, reading: { track: 0 } });
  });
});

/** Decodes all tracks, each as a channel, and also mixed. Returns the frequency of each channel. */
async function sideBySide(path: string) {
  const all = { ...LIMITS, tracks: "all" } as const;
  const directory = mkdtempSync(join(folder, "all-"));
  const counted = await countAudio(nativeFiles, path, all);
  const decoded = await decodeAudio(nativeFiles, path, {
    ...all,
    output: { directory, channels: "separate" },
  });
  const mix = await decodeAudio(nativeFiles, path, { ...all, output: join(directory, "mix.pcm") });
  expect(mix).toMatchObject({ durationMs: decoded.durationMs, channels: decoded.channels });
  expect(counted).toMatchObject({ durationMs: decoded.durationMs, reading: decoded.reading });
  const given = await countAudio(nativeFiles, path, { ...LIMITS, reading: decoded.reading });
  expect(given).toEqual(counted);
  const hertz = await Promise.all(decoded.files.map(hertzOf));
  return { ...decoded, hertz };
}

const LATE = ["-itsoffset", "1.5"];

describe.skipIf(ffmpeg === null)("all audio tracks (needs ffmpeg)", () => {
  test.each(CONTAINERS)("%s: each with sound becomes a channel", async (suffix, ...options) => {
    const same = { ...HIGH, seconds: 2 };
    const { hertz, durationMs, reading, channels } = await sideBySide(
      fileOf(suffix, [LOW, { seconds: 2 }, same], ...options),
    );
    expect({ hertz, reading, channels }).toEqual({
      hertz: [440, 1000],
      reading: { mixed: [0, 2] },
      channels: 2,
    });
    expect(Math.abs(durationMs - 2000)).toBeLessThan(150);
  });

  test.each([
    ["mkv", ...AAC],
    ["mp4", ...AAC],
    ["ts", ...AAC],
    ["webm", "-c:a", "libopus"],
  ])(
    "%s: a track that begins late keeps its time, and the longest gives the length",
    async (suffix, ...options) => {
      const path = join(folder, `${made++}.${suffix}`);
      const inputs = [...sourceOf({ ...LOW, seconds: 3 }), ...LATE, ...sourceOf({ ...HIGH, seconds: 4 })];
      const maps = ["-map", "0:a", "-map", "1:a", ...options];
      expect(Bun.spawnSync([ffmpeg ?? "", "-v", "error", ...inputs, ...maps, path]).exitCode).toBe(0);
      const { durationMs, files } = await sideBySide(path);
      expect(Math.abs(durationMs - 5500)).toBeLessThan(150);
      expect(Math.abs((await edgesOf(files[0])).endMs - 3000)).toBeLessThan(120);
      expect(Math.abs((await edgesOf(files[1])).startMs - 1500)).toBeLessThan(120);
      expect(Math.abs((await edgesOf(files[1])).endMs - 5500)).toBeLessThan(120);
    },
  );

  test("a second track with a long pause keeps the time of what follows", async () => {
    const path = join(folder, "pause.mkv");
    const filter = "[1:a]asetpts=PTS+gte(T\\,1)*48/TB[late]";
    const inputs = [...sourceOf({ ...LOW, seconds: 50 }), ...sourceOf({ ...HIGH, seconds: 2 })];
    const options = ["-filter_complex", filter, "-map", "0:a", "-map", "[late]", "-c:a", "mp2", path];
    expect(Bun.spawnSync([ffmpeg ?? "", "-v", "error", ...inputs, ...options]).exitCode).toBe(0);
    const { durationMs, files, measurements } = await decodeAudio(nativeFiles, path, {
      ...LIMITS,
      tracks: "all",
      output: { directory: mkdtempSync(join(folder, "all-")), channels: "separate" },
    });
    expect(Math.abs(durationMs - 50_000)).toBeLessThan(150);
    expect(measurements.truncated).toBe(false);
    expect(Math.abs((await edgesOf(files[1])).endMs - 50_000)).toBeLessThan(150);
  }, 60_000);

  test("one track with sound is read as it is", async () => {
    const { hertz, reading } = await sideBySide(fileOf("mkv", [SILENT, LOW], ...AAC));
    expect({ hertz, reading }).toEqual({ hertz: [440], reading: { track: 1, leftOut: [] } });
  });

  test("joined files follow each other in step", async () => {
    const part = readFileSync(fileOf("mkv", [LOW, HIGH], ...AAC));
    const path = join(folder, "joined-all.mkv");
    writeFileSync(path, Buffer.concat([part, part]));
    const { hertz, durationMs } = await sideBySide(path);
    expect(Math.abs(durationMs - 6000)).toBeLessThan(300);
    expect(hertz[1]).toBeGreaterThan(950);
  });
});
