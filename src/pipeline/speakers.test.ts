import { expect, test } from "bun:test";
import { joinSpeakers as joinByChannel, type Turn } from "./speakers.ts";
import type { LooseSegment } from "./stitch.ts";

const segment = (startMs: number, endMs: number, text = "a b c d"): LooseSegment => ({
  startMs,
  endMs,
  text,
  language: "en",
  confidence: 0.9,
});
const turn = (startMs: number, endMs: number, speaker: number): Turn => ({ startMs, endMs, speaker });
const joinSpeakers = (segments: LooseSegment[], turns: Turn[]) => joinByChannel(segments, [turns]);
const lines = (segments: LooseSegment[]) =>
  segments.map(({ startMs, endMs, text, speaker }) => [startMs, endMs, speaker, text]);

test("speakers are numbered in the order in which they appear, whatever their numbers in the diarizer", () => {
  const joined = joinSpeakers(
    [segment(0, 1_000), segment(1_200, 2_000), segment(2_500, 3_000)],
    [turn(0, 1_100, 7), turn(1_150, 2_100, 2), turn(2_400, 3_000, 7)],
  );
  expect(joined.map(({ speaker }) => speaker)).toEqual(["speaker_1", "speaker_2", "speaker_1"]);
});

test("a segment with two speakers is divided at the turn", () => {
  const joined = joinSpeakers(
    [segment(0, 4_000, "how are you? fine thanks")],
    [turn(0, 2_000, 0), turn(2_200, 4_000, 1)],
  );
  expect(lines(joined)).toEqual([
    [0, 2_100, "speaker_1", "how are you?"],
    [2_100, 4_000, "speaker_2", "fine thanks"],
  ]);
});

test("a back-channel of less than half a second does not cut a sentence in two, a longer answer does", () => {
  const said = (answerMs: number) =>
    joinSpeakers(
      [segment(0, 4_000)],
      [turn(0, 1_800, 0), turn(1_800, 1_800 + answerMs, 1), turn(2_500, 4_000, 0)],
    );
  expect(said(450)).toHaveLength(1);
  expect(said(650).map(({ speaker }) => speaker)).toEqual(["speaker_1", "speaker_2", "speaker_1"]);
});

test("very short turns and interjections do not divide a segment, and one word cannot be divided", () => {
  const turns = [turn(0, 3_000, 0), turn(1_000, 1_600, 1), turn(2_900, 4_000, 1)];
  expect(lines(joinSpeakers([segment(0, 3_100)], turns))).toEqual([[0, 3_100, "speaker_1", "a b c d"]]);
  const halves = [turn(0, 900, 0), turn(900, 2_000, 1)];
  expect(lines(joinSpeakers([segment(0, 2_000, "hello")], halves))).toEqual([
    [0, 2_000, "speaker_1", "hello"],
  ]);
  expect(joinSpeakers([segment(0, 2_000, "hello")], [...halves, turn(5_000, 6_000, 0)])).toHaveLength(1);
});

test("a segment outside all turns belongs to the nearest turn", () => {
  const joined = joinSpeakers(
    [segment(0, 500), segment(5_000, 5_500)],
    [turn(600, 1_000, 3), turn(4_000, 4_900, 4)],
  );
  expect(joined.map(({ speaker }) => speaker)).toEqual(["speaker_1", "speaker_2"]);
});

test("without turns no segment has a speaker", () => {
  expect(joinSpeakers([segment(0, 500)], [])).toEqual([segment(0, 500)]);
});

test("turns are looked up: those of a long recording are not read again for each segment", () => {
  let reads = 0;
  const turns = Array.from({ length: 4_000 }, (_, index): Turn => {
    const plain = turn(index * 2_000, index * 2_000 + 1_900, index % 3);
    return {
      ...plain,
      get startMs() {
        reads++;
        return plain.startMs;
      },
    };
  });
  const segments = Array.from({ length: 2_000 }, (_, index) => segment(index * 4_000, index * 4_000 + 3_900));
  expect(joinSpeakers(segments, turns)).toHaveLength(4_000);
  expect(reads).toBeLessThan(200_000);
});

test("a turn that is still going on is found behind shorter ones, and of two nearest turns the earlier one is taken", () => {
  const joined = joinSpeakers(
    [segment(5_000, 6_000), segment(20_000, 20_500)],
    [
      turn(0, 9_000, 5),
      turn(100, 300, 1),
      turn(400, 600, 2),
      turn(18_000, 19_900, 1),
      turn(20_600, 21_000, 2),
    ],
  );
  expect(joined.map(({ speaker }) => speaker)).toEqual(["speaker_1", "speaker_2"]);
  expect(
    lines(
      joinSpeakers(
        [segment(0, 1_000), segment(20_000, 20_500)],
        [turn(0, 900, 4), turn(18_000, 19_900, 1), turn(20_600, 21_000, 4)],
      ),
    ).map(([, , speaker]) => speaker),
  ).toEqual(["speaker_1", "speaker_2"]);
});
