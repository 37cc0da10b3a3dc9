import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { countAudio, decodeAudio } from "./decode.ts";
import { playAudio } from "./play.ts";

/**
 * AMR as phones write it: with pauses that are not transmitted, with frames that were lost or damaged on the way, and with
 * several channels. Each frame of any type has its 20 ms. The files are made by hand, because few systems have an encoder.
 */

const ffmpeg = Bun.which("ffmpeg");
const LIMITS = { maxDurationMs: 12 * 3_600_000, timeoutMs: 60_000 };
let folder: string;
let nativeFiles: NativeFiles;
let made = 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-amr-"));
  nativeFiles = await extractNativeFiles(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Standard = { name: string; magic: string; magicOfSeveral: string; payloads: number[]; speech: number };

/** Payload bytes of each frame type: 3GPP TS 26.101 and 26.201, tables 1a. `speech` is the highest mode. */
const NARROW: Standard = {
  name: "narrow-band",
  magic: "#!AMR\n",
  magicOfSeveral: "#!AMR_MC1.0\n",
  payloads: [12, 13, 15, 17, 19, 20, 26, 31, 5, 6, 5, 5, 0, 0, 0, 0],
  speech: 7,
};
const WIDE: Standard = {
  name: "wide-band",
  magic: "#!AMR-WB\n",
  magicOfSeveral: "#!AMR-WB_MC1.0\n",
  payloads: [17, 23, 32, 36, 40, 46, 50, 58, 60, 5, 0, 0, 0, 0, 0, 0],
  speech: 8,
};
const NO_DATA = 15;
const sidOf = ({ speech }: Standard) => speech + 1;

/** A frame in the format for files (RFC 4867 section 5.3). */
function frame({ payloads }: Standard, type: number, isGood = true): Buffer {
  return Buffer.concat([
    Buffer.from([(type << 3) | (isGood ? 4 : 0)]),
    Buffer.alloc(payloads[type] ?? 0, 0x5a),
  ]);
}

function times(count: number, bytes: Buffer): Buffer {
  return Buffer.concat(Array<Buffer>(count).fill(bytes));
}

function write(...bytes: (string | Buffer)[]): string {
  const path = join(folder, `made-${made++}`);
  writeFileSync(
    path,
    Buffer.concat(bytes.map((each) => (typeof each === "string" ? Buffer.from(each) : each))),
  );
  return path;
}

/** The head of a file with several channels (RFC 4867 section 5.2). */
function headOfSeveral({ magicOfSeveral }: Standard, channels: number): Buffer {
  return Buffer.concat([Buffer.from(magicOfSeveral), Buffer.from([0, 0, 0, channels])]);
}

async function decode(path: string, channels: "mix" | "separate" = "mix") {
  const output = { directory: mkdtempSync(join(folder, "out-")), channels };
  const decoded = await decodeAudio(nativeFiles, path, { output, ...LIMITS });
  const counted = await countAudio(nativeFiles, path, LIMITS);
  expect(counted).toMatchObject({ durationMs: decoded.durationMs, channels: decoded.channels });
  const tracks = decoded.files.map((file) => {
    const { buffer, byteOffset, length } = readFileSync(file);
    return new Int16Array(buffer, byteOffset, length / 2);
  });
  return { ...decoded, tracks };
}

/** Level of a stretch of 16 kHz sound. */
function rms(samples: Int16Array | undefined, startMs: number, endMs: number): number {
  const part = samples?.subarray(startMs * 16, endMs * 16) ?? new Int16Array();
  return Math.sqrt(part.reduce((sum, sample) => sum + sample * sample, 0) / part.length);
}

/** A second of speech, a second of something else, a second of speech: where is sound? */
async function expectMiddle(path: string, middle: "silent" | "sounding") {
  const { durationMs, measurements, tracks } = await decode(path);
  expect({ durationMs, truncated: measurements.truncated }).toEqual({ durationMs: 3_000, truncated: false });
  expect(rms(tracks[0], 200, 900)).toBeGreaterThan(300);
  expect(rms(tracks[0], 2_200, 2_900)).toBeGreaterThan(300);
  // The resampler's filter reaches a millisecond into a pause.
  if (middle === "silent") expect(rms(tracks[0], 1_010, 1_990)).toBe(0);
  else expect(rms(tracks[0], 1_010, 1_990)).toBeGreaterThan(100);
}

for (const standard of [NARROW, WIDE]) {
  const { name, magic, speech } = standard;
  const second = times(50, frame(standard, speech));
  const sid = frame(standard, sidOf(standard));
  const noData = frame(standard, NO_DATA);

  describe(name, () => {
    for (let type = 0; type < 16; type++) {
      test(`frames of type ${type} have their length, good or damaged`, async () => {
        for (const isGood of [true, false]) {
          const middle = times(50, frame(standard, type, isGood));
          await expectMiddle(write(magic, second, middle, second), type <= speech ? "sounding" : "silent");
        }
      });
    }

    const pause = Buffer.concat([
      sid,
      times(2, noData),
      times(5, Buffer.concat([sid, times(7, noData)])),
      times(7, sid),
    ]);
    // SID, two of no data, then a SID each eighth frame (3GPP TS 26.093 section 5.1.2).
    const middle = { pause, sid: times(50, sid), "no data": times(50, noData) };
    test.each(Object.entries(middle))("a pause: %s", async (_what, bytes) => {
      await expectMiddle(write(magic, second, bytes, second), "silent");
    });

    test("pauses at the beginning and at the end, and a recording that is a pause", async () => {
      const around = await decode(write(magic, times(25, noData), second, times(100, sid)));
      expect(around).toMatchObject({ durationMs: 3_500, measurements: { truncated: false } });
      expect(rms(around.tracks[0], 700, 1_400)).toBeGreaterThan(300);
      const silent = await decode(write(magic, times(250, noData)));
      expect(silent).toMatchObject({ durationMs: 5_000, measurements: { truncated: false, peakDb: -120 } });
    });

    test("a file of the head alone is refused, and the first part of a frame is a silent one", async () => {
      await expect(countAudio(nativeFiles, write(magic), LIMITS)).rejects.toMatchObject({
        reason: "undecodable",
      });
      const cut = await decode(write(magic, second, frame(standard, speech).subarray(0, 9)));
      expect(cut.durationMs).toBe(1_020);
      expect(rms(cut.tracks[0], 1_005, 1_020)).toBe(0);
    });

    test("channels pause each by itself", async () => {
      const both = (first: Buffer, other: Buffer) => times(50, Buffer.concat([first, other]));
      const talk = frame(standard, speech);
      const head = headOfSeveral(standard, 2);
      const path = write(head, both(talk, noData), both(sid, talk), both(noData, sid), both(talk, talk));
      const { durationMs, measurements, tracks } = await decode(path, "separate");
      expect({ durationMs, truncated: measurements.truncated }).toEqual({
        durationMs: 4_000,
        truncated: false,
      });
      const sounds = tracks.map((track) =>
        [0, 1_000, 2_000, 3_000].map((atMs) => rms(track, atMs + 200, atMs + 900) > 300),
      );
      expect(sounds).toEqual([
        [true, false, false, true],
        [false, true, false, true],
      ]);
    });

    test("six channels are decoded, and more are refused, as are none", async () => {
      const six = await decode(write(headOfSeveral(standard, 6), times(6, second)), "separate");
      expect({ durationMs: six.durationMs, channels: six.channels }).toEqual({
        durationMs: 1_000,
        channels: 6,
      });
      for (const track of six.tracks) expect(rms(track, 200, 900)).toBeGreaterThan(300);
      for (const channels of [0, 7, 15]) {
        const path = write(headOfSeveral(standard, channels), times(7, second));
        await expect(countAudio(nativeFiles, path, LIMITS)).rejects.toMatchObject({ reason: "undecodable" });
      }
    });

    const containers: [ending: string, standards: Standard[]][] = [
      ["3gp", [NARROW, WIDE]],
      ["mov", [NARROW, WIDE]],
      ["mkv", [NARROW, WIDE]],
      ["avi", [NARROW, WIDE]],
      ["wav", [NARROW, WIDE]],
      ["caf", [NARROW]],
    ];
    for (const [ending, standards] of containers) {
      test.skipIf(ffmpeg === null || !standards.includes(standard))(
        `pauses in a file .${ending} (needs an ffmpeg with the encoder)`,
        async () => {
          const inner = write(
            magic,
            times(10, noData),
            second.subarray(0, (second.length * 4) / 5),
            pause,
            second,
            pause,
          );
          const path = join(folder, `made-${made++}.${ending}`);
          const done = Bun.spawnSync([
            ffmpeg ?? "",
            "-v",
            "error",
            "-f",
            "amr",
            "-i",
            inner,
            "-c",
            "copy",
            path,
          ]);
          expect(done.exitCode).toBe(0);
          const { durationMs, measurements, tracks } = await decode(path);
          expect({ durationMs, truncated: measurements.truncated }).toEqual({
            durationMs: 4_000,
            truncated: false,
          });
          const sounds = [0, 300, 1_100, 2_200, 3_100].map(
            (atMs) => rms(tracks[0], atMs + 20, atMs + 90) > 300,
          );
          expect(sounds).toEqual([false, true, false, true, false]);
        },
      );
    }

    test("a stretch from a point in a long recording has its pauses at their times", async () => {
      const cycle = Buffer.concat([second, pause]);
      const path = write(magic, times(12, cycle));
      const { outline } = await decode(path);
      expect(outline.points.length / 64).toBeGreaterThan(3);
      const job = { path, channels: "mix" as const, lanes: 1, fromSample: 13 * 16_000, samples: 4 * 16_000 };
      const limits = { signal: new AbortController().signal, timeoutMs: 60_000 };
      const sound = new Int16Array(
        (await playAudio(nativeFiles, { ...job, points: outline.points }, limits)).buffer,
      );
      const sounds = [0, 1_000, 2_000, 3_000].map((atMs) => rms(sound, atMs + 200, atMs + 900) > 300);
      expect(sounds).toEqual([false, true, false, true]);
    });
  });
}
