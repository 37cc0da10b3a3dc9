import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RawFormat, rawFormatOfMediaType, rawFormatOfName } from "../../domain/raw-formats.ts";
import { samplePath } from "../../e2e/samples.ts";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { countAudio, decodeAudio } from "./decode.ts";
import { playAudio } from "./play.ts";

/** Recordings without a header, which are read in the format that their sender names. */

const ffmpeg = Bun.which("ffmpeg");
const LIMITS = { maxDurationMs: 600_000, timeoutMs: 60_000 };

let folder: string;
let nativeFiles: NativeFiles;
let made = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-raw-"));
  nativeFiles = await extractNativeFiles(folder);
  if (ffmpeg === null)
    console.warn("raw-formats.test.ts: tests are left out, because ffmpeg is not installed");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function encoded(suffix: string, ...options: string[]): string {
  const path = join(folder, `${made++}.${suffix}`);
  const command = ["-v", "error", "-i", samplePath("04-en"), ...options, path];
  const done = Bun.spawnSync([ffmpeg ?? "", ...command], { stdin: "ignore", stderr: "pipe" });
  if (done.exitCode !== 0) throw new Error(`${command.join(" ")}:\n${done.stderr}`);
  return path;
}

async function samplesOf(path: string, format?: RawFormat): Promise<Int16Array> {
  const output = join(folder, `out-${made++}.pcm`);
  const reading = format && { format };
  const { reading: found } = await decodeAudio(nativeFiles, path, { ...LIMITS, output, reading });
  expect(found).toEqual(reading ?? {});
  return new Int16Array(await Bun.file(output).arrayBuffer());
}

/** Returns how alike two sounds are, 1 for the same, where the second may be late: codecs have delays up to 40 ms. */
function likeness(first: Int16Array, second: Int16Array): number {
  const product = (shift: number) => {
    let [both, one, other] = [0, 0, 0];
    for (let n = 0; n + shift < Math.min(first.length, second.length); n++) {
      const [a, b] = [first[n] ?? 0, second[n + shift] ?? 0];
      both += a * b;
      one += a * a;
      other += b * b;
    }
    return both / Math.sqrt(one * other);
  };
  return Math.max(...Array.from({ length: 640 / 4 }, (_, step) => product(4 * step)));
}

const NARROW = ["-ar", "8000", "-ac", "1"];

/** How files are made, by the names that they get. */
const FILES: [suffix: string, ...options: string[]][] = [
  ["ulaw", ...NARROW, "-f", "mulaw"],
  ["alaw", ...NARROW, "-f", "alaw"],
  ["g722", "-ar", "16000", "-f", "g722"],
  ["g726", ...NARROW, "-c:a", "g726", "-b:a", "32k", "-f", "g726"],
  ["g726-16", ...NARROW, "-c:a", "g726le", "-b:a", "16k", "-f", "g726le"],
  ["g726-24", ...NARROW, "-c:a", "g726le", "-b:a", "24k", "-f", "g726le"],
  ["g726-32", ...NARROW, "-c:a", "g726le", "-b:a", "32k", "-f", "g726le"],
  ["g726-40", ...NARROW, "-c:a", "g726le", "-b:a", "40k", "-f", "g726le"],
  ["g723", ...NARROW, "-c:a", "g723_1", "-b:a", "6300", "-f", "g723_1"],
  ["sln", ...NARROW, "-f", "s16le"],
  ["sln16", "-ar", "16000", "-f", "s16le"],
  ["sln44", "-ar", "44100", "-f", "s16le"],
  ["sln192", "-ar", "192000", "-f", "s16le"],
];

const MEDIA_TYPES: [mediaType: string, ...options: string[]][] = [
  ["audio/PCMU", ...NARROW, "-f", "mulaw"],
  ["audio/PCMA;rate=16000", "-ar", "16000", "-f", "alaw"],
  ["audio/basic", ...NARROW, "-f", "mulaw"],
  ["audio/L16;rate=8000;channels=1", ...NARROW, "-f", "s16be"],
  ["audio/L16;rate=48000;channels=2", "-ar", "48000", "-ac", "2", "-f", "s16be"],
  ["audio/L16;rate=16000;endianness=little-endian", "-ar", "16000", "-f", "s16le"],
  ["audio/AAL2-G726-40", ...NARROW, "-c:a", "g726", "-b:a", "40k", "-f", "g726"],
];

/** Files that show themselves what they are. */
const SIGNED: [suffix: string, ...options: string[]][] = [
  ["wav", "-c:a", "pcm_s16le"],
  ["mp3", "-c:a", "libmp3lame", "-id3v2_version", "0", "-write_xing", "0"],
  ["ogg", "-c:a", "libvorbis"],
  ["m4a", "-c:a", "aac"],
  ["au", "-c:a", "pcm_mulaw", "-ar", "8000"],
  ["ts", "-c:a", "aac"],
  ["aac", "-c:a", "aac"],
];

describe.skipIf(ffmpeg === null)("a recording without a header (needs ffmpeg)", () => {
  let original: Int16Array;
  beforeAll(async () => {
    // Telephone sound, because most of the formats carry no more.
    original = await samplesOf(encoded("wav", ...NARROW, "-c:a", "pcm_s16le"));
  });

  const expectSound = async (path: string, format: RawFormat | undefined) => {
    const samples = await samplesOf(path, format);
    // G.723.1 fills its last frame of 30 ms.
    expect(Math.abs(samples.length - original.length)).toBeLessThanOrEqual(480);
    return likeness(original, samples);
  };

  test.each(FILES)("is read by its name: .%s", async (suffix, ...options) => {
    const path = encoded(suffix, ...options);
    const like = await expectSound(path, rawFormatOfName(path));
    // G.723.1 and G.726 with two bits are the coarsest.
    expect(like).toBeGreaterThan(suffix === "g723" ? 0.6 : 0.75);
  });

  test.each(MEDIA_TYPES)("is read by its media type: %s", async (mediaType, ...options) => {
    const path = encoded("raw", ...options);
    expect(await expectSound(path, rawFormatOfMediaType(mediaType))).toBeGreaterThan(0.9);
  });

  test("of G.729, each ten bytes are 10 ms", async () => {
    const path = join(folder, "call.g729");
    writeFileSync(
      path,
      new Uint8Array(10 * 250).map((_, n) => (n * 37) % 251),
    );
    const counted = await countAudio(nativeFiles, path, {
      ...LIMITS,
      reading: { format: rawFormatOfName(path) as RawFormat },
    });
    expect(counted).toMatchObject({ durationMs: 2500, channels: 1, sampleRateHz: 8000, truncated: false });
  });

  test("is refused without a format, and the refusal says what helps", async () => {
    const path = encoded("ulaw", ...NARROW, "-f", "mulaw");
    const work = countAudio(nativeFiles, path, LIMITS);
    await expect(work).rejects.toMatchObject({
      reason: "undecodable",
      message: expect.stringContaining("call.ulaw"),
    });
  });

  test.each(SIGNED)(
    "a file that is a %s is read as that, whatever it is called",
    async (suffix, ...options) => {
      const path = encoded(suffix, ...options);
      const format = rawFormatOfName("call.ulaw") as RawFormat;
      const plain = await countAudio(nativeFiles, path, LIMITS);
      expect(await countAudio(nativeFiles, path, { ...LIMITS, reading: { format } })).toEqual(plain);
      expect(plain.reading).toEqual({});
    },
  );

  test("noise and silence are not taken for a format with a signature", async () => {
    const format = rawFormatOfName("call.ulaw") as RawFormat;
    for (const [name, value] of [
      ["silence", () => 0xff],
      ["zeros", () => 0],
      ["noise", () => Math.floor(Math.random() * 256)],
      ["soft noise", () => 0xf0 + Math.floor(Math.random() * 16)],
    ] as const) {
      const path = join(folder, `${name}.ulaw`);
      writeFileSync(path, new Uint8Array(80_000).map(value));
      const { durationMs, reading } = await countAudio(nativeFiles, path, { ...LIMITS, reading: { format } });
      expect({ name, durationMs, reading }).toEqual({ name, durationMs: 10_000, reading: { format } });
    }
  });

  test.each(["ulaw", "sln16", "g722", "g726-32"])(
    "players get a stretch of a .%s file from a point on",
    async (suffix) => {
      const options = FILES.find(([name]) => name === suffix)?.slice(1) ?? [];
      const path = encoded(suffix, ...options);
      const reading = { format: rawFormatOfName(path) as RawFormat };
      const output = join(folder, `out-${made++}.pcm`);
      const { outline, samples } = await decodeAudio(nativeFiles, path, { ...LIMITS, output, reading });
      const fromSample = Math.floor(samples * 0.7);
      const sound = await playAudio(
        nativeFiles,
        { path, reading, channels: "mix", lanes: 1, fromSample, samples: 16_000, points: outline.points },
        { signal: new AbortController().signal, timeoutMs: 30_000 },
      );
      const whole = new Int16Array(await Bun.file(output).arrayBuffer());
      const wanted = whole.subarray(fromSample, fromSample + 16_000);
      expect(likeness(wanted, new Int16Array(sound.buffer))).toBeGreaterThan(0.99);
    },
  );

  test("GSM frames are recognized, and named where there are few", async () => {
    const gsm = join(folder, "call.gsm");
    writeFileSync(
      gsm,
      new Uint8Array(33 * 10).map((_, n) => (n % 33 === 0 ? 0xd5 : (n * 31) % 256)),
    );
    const reading = { format: rawFormatOfName(gsm) as RawFormat };
    expect(await countAudio(nativeFiles, gsm, { ...LIMITS, reading })).toMatchObject({ durationMs: 200 });
    const renamed = join(folder, "call.bin");
    copyFileSync(gsm, renamed);
    await expect(countAudio(nativeFiles, renamed, LIMITS)).rejects.toMatchObject({ reason: "undecodable" });
  });
});
