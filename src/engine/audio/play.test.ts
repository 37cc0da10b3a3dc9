import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { decodeAudio, outlineAudio } from "./decode.ts";
import { playAudio } from "./play.ts";

/** A stretch that is decoded from a point has the samples that decoding from the beginning gives. */

const ffmpeg = Bun.which("ffmpeg");
const sox = Bun.which("sox");
const RATE = 16_000;
const SECONDS = 40;
const LIMITS = { maxDurationMs: 3_600_000, timeoutMs: 60_000 };

let folder: string;
let nativeFiles: NativeFiles;
let master: string;
let made = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-play-"));
  nativeFiles = await extractNativeFiles(folder);
  master = join(folder, "master.wav");
  if (sox === null) return;
  run([
    sox,
    "-n",
    "-r",
    "44100",
    "-c",
    "2",
    "-b",
    "16",
    master,
    "synth",
    String(SECONDS),
    "sine",
    "200:3000",
    "brownnoise",
  ]);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function run(command: string[]): void {
  const done = Bun.spawnSync(command, { stdin: "ignore", stdout: "ignore", stderr: "pipe" });
  if (done.exitCode !== 0) throw new Error(`${command.join(" ")}:\n${done.stderr}`);
}

function encode(suffix: string, ...options: string[]): string {
  const path = join(folder, `${made++}.${suffix}`);
  run([ffmpeg ?? "", "-v", "error", "-y", "-i", master, ...options, path]);
  return path;
}

async function decoded(path: string, channels: "mix" | "separate") {
  const directory = mkdtempSync(join(folder, "out-"));
  const { files, outline, samples } = await decodeAudio(nativeFiles, path, {
    ...LIMITS,
    output: { directory, channels },
  });
  const tracks = files.map((file) => {
    const { buffer, byteOffset, length } = readFileSync(file);
    return new Int16Array(buffer, byteOffset, length / 2);
  });
  return { tracks, outline, samples };
}

async function play(
  path: string,
  channels: "mix" | "separate",
  lanes: number,
  from: number,
  samples: number,
  points?: Uint8Array,
) {
  const job = { path, channels, lanes, fromSample: from, samples, points };
  const bytes = await playAudio(nativeFiles, job, {
    signal: new AbortController().signal,
    timeoutMs: 60_000,
  });
  return new Int16Array(bytes.buffer);
}

const hasEncoder = (name: string) =>
  ffmpeg !== null &&
  Bun.spawnSync([ffmpeg, "-hide_banner", "-encoders"]).stdout.toString().includes(` ${name} `);
const canTest = sox !== null && ffmpeg !== null;

/** `tolerance`: the codec fills bands with noise of its own, which differs by the frame at which decoding began. */
const FORMATS: [string, string[], string, number][] = [
  ["wav", [], "pcm_s16le", 0],
  ["wav", ["-c:a", "adpcm_ima_wav"], "adpcm_ima_wav", 0],
  ["wav", ["-ar", "8000", "-ac", "1", "-c:a", "pcm_mulaw"], "pcm_mulaw", 0],
  ["mp3", ["-b:a", "64k"], "libmp3lame", 0],
  ["mp3", ["-q:a", "4"], "libmp3lame", 0],
  ["mp3", ["-ar", "22050"], "libmp3lame", 0],
  ["m4a", [], "aac", 4000],
  ["aac", [], "aac", 4000],
  ["ts", ["-c:a", "aac"], "aac", 4000],
  ["opus", [], "libopus", 0],
  ["ogg", ["-c:a", "libvorbis"], "libvorbis", 0],
  ["webm", ["-c:a", "libvorbis"], "libvorbis", 0],
  ["mka", ["-c:a", "libopus"], "libopus", 0],
  ["flac", [], "flac", 0],
  ["wma", [], "wmav2", 0],
  ["caf", [], "pcm_s16be", 0],
  ["tta", [], "tta", 0],
];

describe.skipIf(!canTest)("a stretch from a point (needs ffmpeg)", () => {
  for (const [suffix, options, encoder, tolerance] of FORMATS) {
    test.skipIf(!hasEncoder(encoder))(
      `${suffix} ${options.join(" ")} (needs an ffmpeg with the encoder)`,
      async () => {
        const path = encode(suffix, ...options);
        for (const channels of ["mix", "separate"] as const) {
          const { tracks, outline, samples } = await decoded(path, channels);
          expect(outline.points.length / 64).toBeGreaterThan(5);
          const lanes = tracks.length;
          for (const from of [0, 77, 4 * RATE, 11 * RATE + 7, 25 * RATE + 3333]) {
            const sound = await play(path, channels, lanes, from, 2 * RATE, outline.points);
            let worst = 0;
            let sum = 0;
            for (let index = 0; index < sound.length; index++) {
              const wanted = tracks[index % lanes]?.[from + Math.floor(index / lanes)] ?? 0;
              worst = Math.max(worst, Math.abs(wanted - (sound[index] ?? 0)));
              sum += Math.abs(wanted);
            }
            expect(sum / sound.length).toBeGreaterThan(1000);
            expect(worst, `from ${from} in ${channels}`).toBeLessThanOrEqual(tolerance);
          }
          expect(samples).toBeGreaterThanOrEqual(SECONDS * RATE);
        }
      },
    );
  }

  test("that reaches over the end is silent there, and one behind it as a whole", async () => {
    const path = encode("flac");
    const { outline, samples, tracks } = await decoded(path, "mix");
    const sound = await play(path, "mix", 1, samples - 100, 300, outline.points);
    expect([...sound.subarray(0, 100)]).toEqual([...(tracks[0] ?? new Int16Array()).subarray(-100)]);
    expect(sound.subarray(100).every((value) => value === 0)).toBe(true);
    expect(
      (await play(path, "mix", 1, samples + RATE, 100, outline.points)).every((value) => value === 0),
    ).toBe(true);
  });

  test("crosses into the next part of a joined recording", async () => {
    const [one, two] = [
      encode("ogg", "-t", "20", "-c:a", "libvorbis"),
      encode("ogg", "-ss", "20", "-c:a", "libvorbis"),
    ];
    const path = join(folder, "joined.ogg");
    writeFileSync(path, Buffer.concat([readFileSync(one), readFileSync(two)]));
    const { tracks, outline } = await decoded(path, "mix");
    for (const from of [18 * RATE, 21 * RATE, 32 * RATE]) {
      const sound = await play(path, "mix", 1, from, 4 * RATE, outline.points);
      expect([...sound]).toEqual([...(tracks[0] ?? new Int16Array()).subarray(from, from + 4 * RATE)]);
    }
  });

  test.each([
    ["aiff", "pcm_s16be", 4],
    ["aiff", "pcm_s24be", 6],
    ["au", "pcm_s16be", 4],
    ["caf", "pcm_s24le", 6],
    ["w64", "pcm_s16le", 4],
  ])("that an older version has noted in %s, %s", async (suffix, encoder, sampleBytes) => {
    const path = encode(suffix, "-c:a", encoder);
    const bytes = readFileSync(path).length;
    const { tracks } = await decoded(path, "separate");
    // A packet had 1,024 samples, and a base that is 0 in the first part. The sound is at the end of the file.
    const [hertz, atSamples] = [44_100, 221_184];
    const soundAt = bytes - SECONDS * hertz * sampleBytes;
    const points = new DataView(new ArrayBuffer(128));
    const none = -(2n ** 63n);
    for (const [at, position, time, samples] of [
      [0, -1n, none, 0],
      [64, BigInt(soundAt + (atSamples - 1024) * sampleBytes), BigInt(atSamples - 1024), atSamples],
    ] as const) {
      const whole = [0n, BigInt(bytes), position, time];
      for (const [index, value] of whole.entries()) points.setBigInt64(at + 8 * index, value, true);
      points.setFloat64(at + 32, samples / hertz, true);
      points.setFloat64(at + 40, 0, true);
      points.setBigInt64(at + 56, BigInt(samples), true);
    }
    const from = 6 * RATE + 77;
    const sound = await play(path, "separate", 2, from, RATE, new Uint8Array(points.buffer));
    const wanted = Array.from({ length: 2 * RATE }, (_, n) => tracks[n % 2]?.[from + (n >> 1)]);
    expect([...sound]).toEqual(wanted as number[]);
  });

  test("is the same without points", async () => {
    const path = encode("mp3");
    const { tracks } = await decoded(path, "mix");
    expect([...(await play(path, "mix", 1, 12_345, 500))]).toEqual([
      ...(tracks[0] ?? new Int16Array()).subarray(12_345, 12_845),
    ]);
  });

  test("can be aborted, and points of another file are refused", async () => {
    const path = encode("flac");
    const job = { path, channels: "mix", lanes: 1, fromSample: 0, samples: 100 } as const;
    const options = { signal: AbortSignal.abort(), timeoutMs: 1000 };
    await expect(playAudio(nativeFiles, job, options)).rejects.toMatchObject({ reason: "aborted" });
    const { outline } = await decoded(encode("m4a"), "mix");
    await expect(play(path, "mix", 1, 20 * RATE, 100, outline.points)).rejects.toMatchObject({
      reason: "undecodable",
    });
  });
});

describe.skipIf(!canTest)("an outline (needs ffmpeg)", () => {
  test("has the loudness of each stretch, in each channel", async () => {
    const path = join(folder, "steps.wav");
    const step = (left: number, right: number) =>
      `|sox -n -r 16000 -c 2 -p synth 1 sine 1000 sine 1000 remix 1v${left} 2v${right}`;
    run([sox ?? "", step(0.5, 0), step(0, 0.25), step(0, 0), "-b", "16", path]);
    const { outline } = await decoded(path, "separate");
    expect(outline.peakSamples).toBe(320);
    const loudness = outline.lanes.map((lane) =>
      [25, 75, 125].map((peak) => Math.round((lane[peak] ?? 0) / 2.55)),
    );
    expect(loudness).toEqual([
      [50, 0, 0],
      [0, 25, 0],
    ]);
  });

  test("is the same whether or not the sound is kept, and its file is gone", async () => {
    const path = encode("mp3");
    const { outline } = await decoded(path, "separate");
    const directory = mkdtempSync(join(folder, "outline-"));
    const file = join(directory, "outline");
    expect(await outlineAudio(nativeFiles, path, { ...LIMITS, channels: "separate", file })).toEqual(outline);
    expect(readdirSync(directory)).toEqual([]);
  });

  test("of hours has bounded peaks and points", async () => {
    // Silence, as mu-law at 8 kHz; the file is a hole.
    const bytes = 5_760 * 8_000;
    const head = Buffer.alloc(44);
    head.write("RIFF", 0);
    head.writeUInt32LE(bytes + 36, 4);
    head.write("WAVEfmt ", 8);
    head.writeUInt32LE(16, 16);
    for (const [offset, value] of [
      [20, 7],
      [22, 1],
      [32, 1],
      [34, 8],
    ] as const) {
      head.writeUInt16LE(value, offset);
    }
    head.writeUInt32LE(8000, 24);
    head.writeUInt32LE(8000, 28);
    head.write("data", 36);
    head.writeUInt32LE(bytes, 40);
    const path = join(folder, "hours.wav");
    writeFileSync(path, head);
    truncateSync(path, 44 + bytes);
    const file = join(folder, "hours-outline");
    const options = { ...LIMITS, maxDurationMs: 9 * 3_600_000, channels: "mix", file } as const;
    const { lanes, peakSamples, points } = await outlineAudio(nativeFiles, path, options);
    expect(peakSamples).toBe(640);
    expect(lanes.map(({ length }) => length)).toEqual([144_000]);
    expect(points.length / 64).toBeGreaterThan(500);
  });
});
