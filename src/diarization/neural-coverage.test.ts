import { expect, test } from "bun:test";
import { coverSpeech } from "./neural-coverage.ts";

const region = (startMs: number, endMs: number) => ({ startSample: startMs * 16, endSample: endMs * 16 });
const turn = (speaker: number, startMs: number, endMs: number) => ({ speaker, startMs, endMs });

type Row = [
  what: string,
  turns: ReturnType<typeof turn>[],
  regions: ReturnType<typeof region>[],
  expected: string[],
];
const ROWS: Row[] = [
  ["no regions", [turn(0, 500, 900)], [], ["0: 500-900"]],
  ["a turn is longer than its speech", [turn(0, 0, 3_000)], [region(900, 2_000)], ["0: 0-3000"]],
  ["a soft beginning and end", [turn(0, 1_000, 2_000)], [region(500, 2_600)], ["0: 600-2500"]],
  ["padding alone adds nothing", [turn(0, 1_000, 2_000)], [region(900, 2_100)], ["0: 1000-2000"]],
  [
    "a stretch between two people is halved",
    [turn(0, 0, 1_000), turn(1, 2_000, 3_000)],
    [region(0, 3_000)],
    ["0: 0-1500", "1: 1500-3000"],
  ],
  [
    "a stretch between turns of one person is filled",
    [turn(0, 0, 1_000), turn(0, 2_000, 3_000)],
    [region(0, 3_000)],
    ["0: 0-3000"],
  ],
  [
    "a region of its own belongs to the nearest turn",
    [turn(0, 0, 1_000), turn(1, 9_000, 10_000)],
    [region(0, 1_000), region(6_900, 8_100), region(9_000, 10_000)],
    ["0: 0-1000", "1: 7000-8000", "1: 9000-10000"],
  ],
  [
    "an interjection does not end the turn around it",
    [turn(0, 0, 5_000), turn(1, 1_000, 1_500)],
    [region(0, 5_900)],
    ["0: 0-5800", "1: 1000-1500"],
  ],
  [
    "a back-channel in another's pause stays as short as it is, and the pause is the other's",
    [turn(0, 0, 1_000), turn(1, 1_300, 1_700), turn(0, 2_100, 4_000)],
    [region(0, 1_200), region(1_200, 4_000)],
    ["0: 0-1300", "1: 1300-1700", "0: 1700-4000"],
  ],
  [
    "a back-channel far from others has its soft edges",
    [turn(0, 0, 1_000), turn(1, 2_000, 2_400), turn(0, 3_500, 4_000)],
    [region(0, 1_100), region(1_800, 2_700), region(3_400, 4_000)],
    ["0: 0-1000", "1: 1900-2600", "0: 3500-4000"],
  ],
  [
    "a stretch between two back-channels is halved",
    [turn(0, 0, 400), turn(1, 800, 1_200)],
    [region(0, 1_200)],
    ["0: 0-600", "1: 600-1200"],
  ],
  [
    "edges at which speech was cut have no padding",
    [turn(0, 0, 1_000)],
    [region(0, 2_000), region(2_000, 3_100)],
    ["0: 0-3000"],
  ],
  ["nobody was heard", [], [region(0, 1_000)], []],
];

test.each(ROWS)("%s", (_what, turns, regions, expected) => {
  const covered = coverSpeech(turns, regions);
  expect(covered.map(({ speaker, startMs, endMs }) => `${speaker}: ${startMs}-${endMs}`)).toEqual(expected);
});

test("all speech has a turn, and no turn is lost", () => {
  let state = 7;
  const random = (most: number) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % most;
  };
  for (let round = 0; round < 200; round++) {
    const turns = Array.from({ length: 1 + random(12) }, () => {
      const startMs = random(20_000);
      return turn(random(3), startMs, startMs + 300 + random(3_000));
    }).sort((a, b) => a.startMs - b.startMs);
    const regions: ReturnType<typeof region>[] = [];
    for (let at = random(500); at < 22_000; at += random(2) * random(1_500)) {
      const endMs = at + 400 + random(2_500);
      regions.push(region(at, endMs));
      at = endMs;
    }
    const covered = coverSpeech(turns, regions);
    const isCovered = (ms: number, speaker?: number) =>
      covered.some((t) => t.startMs <= ms && ms < t.endMs && (speaker ?? t.speaker) === t.speaker);
    for (const { startMs, endMs, speaker } of turns) {
      for (let ms = startMs; ms < endMs; ms += 50) expect(isCovered(ms, speaker)).toBeTrue();
    }
    for (const { startSample, endSample } of regions) {
      for (let ms = startSample / 16 + 100; ms < endSample / 16 - 100; ms += 50) {
        expect(isCovered(ms)).toBeTrue();
      }
    }
    for (const [index, { startMs }] of covered.entries()) {
      expect(startMs).toBeGreaterThanOrEqual(covered[index - 1]?.startMs ?? 0);
    }
  }
});
