import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tone, wavOf } from "../../e2e/sounds.ts";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { countAudio, DecodeError, decodeAudio } from "./decode.ts";

/** Recordings of no or some milliseconds: a tap on the button, or a call that was hung up at once. */

const ffmpeg = Bun.which("ffmpeg");
const LIMITS = { maxDurationMs: 60_000, timeoutMs: 60_000 };
let folder: string;
let nativeFiles: NativeFiles;
let made = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-short-"));
  nativeFiles = await extractNativeFiles(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Writes a WAV file of a tone with this many samples in each channel. */
function wav(samples: number, rateHz: number, channelCount: number): string {
  const path = join(folder, `short-${made++}.wav`);
  const sound = tone(1, 440, -6).channels[0]?.subarray(0, samples) ?? new Float32Array();
  writeFileSync(path, wavOf({ rateHz, channels: Array<Float32Array>(channelCount).fill(sound) }));
  return path;
}

/** Decodes in both ways. Returns the length, and checks that all files and the waveform have it; undefined: refused. */
async function lengthOf(path: string, channelCount: number): Promise<number | undefined> {
  const counted = await countAudio(nativeFiles, path, LIMITS).catch((error) => error);
  let durationMs: number | undefined;
  for (const channels of ["mix", "separate"] as const) {
    const directory = mkdtempSync(join(folder, "out-"));
    const output = { directory, channels };
    const decoded = await decodeAudio(nativeFiles, path, { output, ...LIMITS }).catch((error) => error);
    if (counted instanceof Error) {
      expect(counted).toBeInstanceOf(DecodeError);
      expect(["undecodable", "no_audio"]).toContain((counted as DecodeError).reason);
      expect(decoded).toMatchObject({ reason: (counted as DecodeError).reason });
      expect(readdirSync(directory)).toEqual([]);
      continue;
    }
    durationMs = decoded.durationMs;
    expect(decoded).toMatchObject({ durationMs: counted.durationMs, channels: channelCount });
    const tracks = channels === "mix" ? 1 : channelCount;
    expect(decoded.files.map((file: string) => statSync(file).size)).toEqual(
      Array(tracks).fill(decoded.samples * 2),
    );
    expect(decoded.outline.lanes).toHaveLength(tracks);
    expect(decoded.measurements.tracks).toHaveLength(tracks);
  }
  return durationMs;
}

describe("WAV", () => {
  for (const rateHz of [8_000, 16_000, 44_100, 48_000]) {
    test(`at ${rateHz} Hz has its length from a millisecond on`, async () => {
      for (const channelCount of [1, 2]) {
        for (const ms of [1, 2, 5, 10, 50]) {
          const samples = Math.round((rateHz * ms) / 1000);
          expect(await lengthOf(wav(samples, rateHz, channelCount), channelCount)).toBe(ms);
        }
      }
    });

    test(`at ${rateHz} Hz of less than half a millisecond is refused`, async () => {
      for (const samples of [0, 1, 2, 3]) expect(await lengthOf(wav(samples, rateHz, 1), 1)).toBeUndefined();
    });
  }
});

describe.skipIf(ffmpeg === null)("containers (needs ffmpeg)", () => {
  const encoded: [ending: string, encoder: string, more?: string[]][] = [
    ["m4a", "aac"],
    ["m4a", "alac"],
    ["mp4", "libopus"],
    ["mov", "pcm_s16le"],
    ["mp3", "libmp3lame"],
    ["aac", "aac"],
    ["flac", "flac"],
    ["opus", "libopus"],
    ["ogg", "libvorbis"],
    ["oga", "flac"],
    ["spx", "libspeex", ["-ar", "16000"]],
    ["webm", "libopus"],
    ["mka", "flac"],
    ["wma", "wmav2"],
    ["ts", "aac"],
    ["mpg", "mp2"],
    ["flv", "aac"],
    ["avi", "pcm_s16le"],
    ["caf", "pcm_s16be"],
    ["aiff", "pcm_s16be"],
    ["au", "pcm_s16be"],
    ["w64", "pcm_s16le"],
    ["wv", "wavpack"],
    ["ac3", "ac3"],
    ["tta", "tta"],
  ];
  test.each(encoded)("%s, %s: decoded or refused", async (ending, encoder, more = []) => {
    for (const [ms, channelCount] of [
      [1, 2],
      [5, 1],
      [50, 2],
    ] as const) {
      const path = join(folder, `short-${made++}.${ending}`);
      const input = wav(48 * ms, 48_000, channelCount);
      const command = [
        ffmpeg ?? "",
        "-v",
        "fatal",
        "-y",
        "-i",
        input,
        "-c:a",
        encoder,
        "-strict",
        "-2",
        ...more,
        path,
      ];
      // Some encoders write nothing at all of one frame or less.
      if (Bun.spawnSync(command).exitCode !== 0 || readFileSync(path).length === 0) continue;
      expect((await lengthOf(path, channelCount)) ?? 0).toBeLessThanOrEqual(ms + 150);
    }
  });
});
