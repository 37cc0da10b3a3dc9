import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import { type Edit, edited } from "../../testing/makers/edit-lists.ts";
import { countAudio, decodeAudio } from "./decode.ts";
import { playAudio } from "./play.ts";

/**
 * Edit lists of MP4 and QuickTime files (ISO/IEC 14496-12 section 8.6.6), as programs write them that cut recordings
 * without encoding them again. Each second of the media has its own tone, which shows what is heard at which time.
 */

const ffmpeg = Bun.which("ffmpeg");
const LIMITS = { maxDurationMs: 12 * 3_600_000, timeoutMs: 60_000 };
const MEDIA_SECONDS = 16;
const RATE = 16_000;
/** A container or a codec works on whole frames, of which some sound is heard beside an edit. */
const TOLERANCE_MS = 50;
let folder: string;
let nativeFiles: NativeFiles;
let made = 0;
const media: Record<string, Buffer> = {};
const CONTAINERS = [
  ["m4a", "aac"],
  ["mov", "pcm_s16le"],
  ["mp4", "libopus"],
] as const;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-edits-"));
  nativeFiles = await extractNativeFiles(folder);
  if (ffmpeg === null) return;
  const tones = `aevalsrc='0.5*sin(2*PI*(500+100*floor(t))*t)':s=48000:d=${MEDIA_SECONDS}`;
  for (const [ending, encoder] of CONTAINERS) {
    const path = join(folder, `media.${ending}`);
    const done = Bun.spawnSync([ffmpeg, "-v", "error", "-f", "lavfi", "-i", tones, "-c:a", encoder, path]);
    if (done.exitCode !== 0) throw new Error(done.stderr.toString());
    media[ending] = readFileSync(path);
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function write(bytes: Buffer): string {
  const path = join(folder, `made-${made++}`);
  writeFileSync(path, bytes);
  return path;
}

/** Returns the second of the media that is heard in each half second, "silence" for none. */
function heard(samples: Int16Array): (number | "silence")[] {
  const seconds: (number | "silence")[] = [];
  // A quarter of a second in the middle of each half.
  for (let at = RATE / 8; at + RATE / 4 <= samples.length; at += RATE / 2) {
    const part = samples.subarray(at, at + RATE / 4);
    let turns = 0;
    let sum = 0;
    for (let index = 1; index < part.length; index++) {
      if ((part[index] ?? 0) >= 0 !== (part[index - 1] ?? 0) >= 0) turns++;
      sum += (part[index] ?? 0) ** 2;
    }
    // A tone crosses zero twice in a period.
    const hertz = (turns / 2 / part.length) * RATE;
    seconds.push(Math.sqrt(sum / part.length) < 300 ? "silence" : Math.round((hertz - 500) / 100));
  }
  return seconds;
}

/** Both halves of each second. */
const halves = (...seconds: (number | "silence")[]) => seconds.flatMap((second) => [second, second]);
const QUIET = "silence" as const;

const LISTS: { name: string; edits: Edit[]; expected: (number | "silence")[] }[] = [
  { name: "the whole", edits: [{ seconds: 4, from: 0 }], expected: halves(0, 1, 2, 3) },
  {
    name: "silence in the middle",
    edits: [
      { seconds: 3, from: 0 },
      { seconds: 2, from: "empty" },
      { seconds: 3, from: 3 },
    ],
    expected: halves(0, 1, 2, QUIET, QUIET, 3, 4, 5),
  },
  {
    name: "silence twice",
    edits: [
      { seconds: 2, from: 0 },
      { seconds: 1.5, from: "empty" },
      { seconds: 2, from: 2 },
      { seconds: 0.5, from: "empty" },
      { seconds: 2, from: 4 },
    ],
    expected: [...halves(0, 1), QUIET, QUIET, QUIET, ...halves(2, 3), QUIET, ...halves(4, 5)],
  },
  {
    name: "a moment that lasts: there is no sound in it",
    edits: [
      { seconds: 2, from: 0 },
      { seconds: 1, from: { dwell: 2 } },
      { seconds: 2, from: 2 },
    ],
    expected: halves(0, 1, QUIET, 2, 3),
  },
  {
    name: "a later beginning, which does not belong to the recording, and silence in the middle",
    edits: [
      { seconds: 1, from: "empty" },
      { seconds: 1, from: "empty" },
      { seconds: 2, from: 0 },
      { seconds: 1, from: "empty" },
      { seconds: 2, from: 2 },
    ],
    expected: halves(0, 1, QUIET, 2, 3),
  },
  {
    name: "a moment that lasts at the beginning",
    edits: [
      { seconds: 2, from: { dwell: 0 } },
      { seconds: 3, from: 1 },
    ],
    expected: halves(1, 2, 3),
  },
  {
    name: "silence behind the last sound, which only the list claims",
    edits: [
      { seconds: 3, from: 0 },
      { seconds: 3_600, from: "empty" },
    ],
    expected: halves(0, 1, 2),
  },
  {
    name: "a stretch that is left out",
    edits: [
      { seconds: 2, from: 0 },
      { seconds: 2, from: 5 },
    ],
    expected: halves(0, 1, 5, 6),
  },
  {
    name: "a stretch that is repeated, and an order that is changed",
    edits: [
      { seconds: 2, from: 4 },
      { seconds: 2, from: 4 },
      { seconds: 2, from: 0 },
    ],
    expected: halves(4, 5, 4, 5, 0, 1),
  },
  {
    name: "many short stretches with silence between",
    edits: Array.from({ length: 10 }, (_, index) => [
      { seconds: 1, from: index } satisfies Edit,
      { seconds: 0.5, from: "empty" } satisfies Edit,
    ])
      .flat()
      .slice(0, -1),
    expected: Array.from({ length: 10 }, (_, index) => [index, index, QUIET])
      .flat()
      .slice(0, -1) as (number | "silence")[],
  },
];

describe.skipIf(ffmpeg === null)("edit lists (needs ffmpeg)", () => {
  for (const [ending] of CONTAINERS) {
    test.each(LISTS)(`${ending}: $name`, async ({ edits, expected }) => {
      for (const version of [0, 1]) {
        const path = write(edited(media[ending] as Buffer, edits, version));
        const output = join(folder, `out-${made++}.pcm`);
        const decoded = await decodeAudio(nativeFiles, path, { output, ...LIMITS });
        const { buffer, byteOffset, length } = readFileSync(output);
        expect(heard(new Int16Array(buffer, byteOffset, length / 2)).slice(0, expected.length)).toEqual(
          expected,
        );
        expect(Math.abs(decoded.durationMs - expected.length * 500)).toBeLessThanOrEqual(TOLERANCE_MS);
        expect(decoded.measurements.truncated).toBe(false);
        expect((await countAudio(nativeFiles, path, LIMITS)).durationMs).toBe(decoded.durationMs);
      }
    });

    test(`${ending}: a stretch from a point behind silence`, async () => {
      const edits: Edit[] = [
        { seconds: 7, from: 0 },
        { seconds: 2, from: "empty" },
        { seconds: 8, from: 7 },
      ];
      const path = write(edited(media[ending] as Buffer, edits, 0));
      const options = { output: join(folder, `out-${made++}.pcm`), ...LIMITS };
      const { outline } = await decodeAudio(nativeFiles, path, options);
      expect(outline.points.length / 64).toBeGreaterThan(2);
      const limits = { signal: new AbortController().signal, timeoutMs: 60_000 };
      for (const [from, expected] of [
        [6, halves(6, QUIET, QUIET, 7)],
        [13, halves(11, 12, 13, 14)],
      ] as const) {
        const stretch = { fromSample: from * RATE, samples: 4 * RATE, points: outline.points };
        const job = { path, channels: "mix" as const, lanes: 1, ...stretch };
        expect(heard(new Int16Array((await playAudio(nativeFiles, job, limits)).buffer))).toEqual(expected);
      }
    });
  }
});
