import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { extractNativeFiles, type NativeFiles } from "../../native/native-files.ts";
import {
  CONTAINERS,
  type Container,
  endTags,
  longTag,
  makeRecording,
} from "../../testing/makers/containers.ts";
import { countAudio, DecodeError } from "./decode.ts";

/** Every container with every trick: how long the recording is, and whether it is said to break off. */

const SECONDS = 6;
const LIMITS = { maxDurationMs: 12 * 3_600_000, timeoutMs: 60_000 };
let folder: string;
let nativeFiles: NativeFiles;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-containers-"));
  nativeFiles = await extractNativeFiles(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type CountedAudio = Awaited<ReturnType<typeof countAudio>>;

function count(bytes: Uint8Array): Promise<CountedAudio> {
  const path = join(folder, "recording");
  writeFileSync(path, bytes);
  return countAudio(nativeFiles, path, LIMITS);
}

type Expected = { leastMs: number; mostMs: number; warns: boolean };
type Trick = {
  name: string;
  /** Undefined: the container has no such thing. */
  apply: (whole: Buffer, container: Container) => Buffer | undefined;
  expected: (container: Container) => Partial<Expected>;
};

const cut = (whole: Buffer) => whole.subarray(0, Math.floor(whole.length * 0.6) - 13);

function withLength(to: "zero" | "third" | "double") {
  return (whole: Buffer, { setLength, isGrowing }: Container) => {
    if (!setLength || (to === "third" && !isGrowing)) return undefined;
    const bytes = Buffer.from(whole);
    setLength(bytes, to);
    return bytes;
  };
}

const TRICKS: readonly Trick[] = [
  { name: "whole", apply: (whole) => whole, expected: () => ({}) },
  {
    name: "cut at 60 %",
    apply: (whole, { isLostWhenCut }) => (isLostWhenCut ? undefined : cut(whole)),
    // A frame of Vorbis or WavPack may be long, and heads take a part of the bytes.
    expected: ({ frameMs, hasNoEnd }) => ({
      leastMs: frameMs === undefined ? 3_560 : 1_990,
      mostMs: frameMs === undefined ? 3_600 : 4_100,
      warns: !hasNoEnd,
    }),
  },
  {
    name: "seven bytes missing at the end",
    apply: (whole) => whole.subarray(0, -7),
    expected: ({ hasNoEnd, isPadded, frameMs }) => ({
      leastMs: SECONDS * 1000 - Math.max(1, frameMs ?? 0),
      warns: !hasNoEnd && !isPadded,
    }),
  },
  { name: "a length of 0", apply: withLength("zero"), expected: () => ({}) },
  { name: "a length of the past", apply: withLength("third"), expected: () => ({}) },
  { name: "a length of twice as much", apply: withLength("double"), expected: () => ({ warns: true }) },
  {
    name: "a tag behind",
    apply: (whole, { isStream, hasNoEnd }) =>
      Buffer.concat([whole, isStream || hasNoEnd ? endTags() : longTag()]),
    expected: () => ({}),
  },
];

async function expectTricks(container: Container): Promise<void> {
  const whole = makeRecording(folder, container, SECONDS);
  for (const { name, apply, expected } of TRICKS) {
    const bytes = apply(whole, container);
    if (bytes === undefined) continue;
    const wanted: Expected = {
      leastMs: SECONDS * 1000,
      mostMs: SECONDS * 1000 + (container.frameMs ?? 0),
      warns: false,
      ...expected(container),
    };
    const { durationMs, truncated } = await count(bytes);
    const isAsLong = durationMs >= wanted.leastMs && durationMs <= wanted.mostMs;
    expect({ name, durationMs, isAsLong, truncated }).toEqual({
      name,
      durationMs,
      isAsLong: true,
      truncated: wanted.warns,
    });
  }
}

/** A clock that begins at ten hours changes nothing. */
async function expectLateClock(container: Container): Promise<void> {
  const late = makeRecording(folder, container, SECONDS, "-output_ts_offset", "36000");
  const { durationMs, truncated } = await count(late);
  expect(truncated).toBe(false);
  expect(Math.abs(durationMs - SECONDS * 1000)).toBeLessThanOrEqual(container.frameMs ?? 1);
}

/** A recording of a few samples is as short, or too short to be one. */
async function expectShort(container: Container, seconds: number): Promise<void> {
  const outcome: CountedAudio | DecodeError = await count(makeRecording(folder, container, seconds)).catch(
    (error) => error,
  );
  if (outcome instanceof DecodeError) {
    expect([outcome.reason, seconds]).toEqual(["undecodable", 0.002]);
    return;
  }
  expect(outcome.truncated).toBe(false);
  expect(outcome.durationMs).toBeLessThanOrEqual(50 + (container.frameMs ?? 0));
}

describe.skipIf(Bun.which("ffmpeg") === null)("containers (needs ffmpeg)", () => {
  for (const container of CONTAINERS) {
    test(container.name, async () => {
      await expectTricks(container);
      if (container.hasClock) await expectLateClock(container);
      for (const seconds of [0.05, 0.002]) await expectShort(container, seconds);
    }, 30_000);
  }

  test("an index at the end that is missing is a file that cannot be decoded", async () => {
    for (const container of CONTAINERS.filter(({ isLostWhenCut }) => isLostWhenCut)) {
      const bytes = cut(makeRecording(folder, container, SECONDS));
      await expect(count(bytes)).rejects.toMatchObject({ reason: "undecodable" });
    }
  });
});
