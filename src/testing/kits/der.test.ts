import { describe, expect, test } from "bun:test";
import { type LabelledSpan, parseRttm, scoreDiarization, sumScores } from "./der.ts";

const span = (speaker: string, startMs: number, endMs: number): LabelledSpan => ({ speaker, startMs, endMs });

describe("diarization error rate", () => {
  const reference = [span("A", 0, 10_000), span("B", 10_000, 20_000)];

  test("a perfect answer has none, whatever its labels", () => {
    const answer = [span("x", 10_000, 20_000), span("y", 0, 10_000)];
    expect(scoreDiarization(reference, answer)).toEqual({
      totalMs: 20_000,
      missedMs: 0,
      falseAlarmMs: 0,
      confusedMs: 0,
      errorRate: 0,
    });
  });

  test("missed, invented and confused time, computed by hand", () => {
    // 0–1 s missed; 1–10 s right; 10–12 s still "x" (confused); 12–20 s right; 20–23 s invented.
    const answer = [span("x", 1_000, 12_000), span("y", 12_000, 23_000)];
    const score = scoreDiarization(reference, answer);
    expect(score).toMatchObject({ missedMs: 1_000, confusedMs: 2_000, falseAlarmMs: 3_000, totalMs: 20_000 });
    expect(score.errorRate).toBeCloseTo(0.3, 12);
  });

  test("the collar leaves out a quarter of a second on both sides of each boundary of the reference", () => {
    // Scored: 0.25–9.75 and 10.25–19.75 of the reference, and what comes after 20.25.
    const answer = [span("x", 1_000, 12_000), span("y", 12_000, 23_000)];
    expect(scoreDiarization(reference, answer, { collarMs: 250 })).toMatchObject({
      totalMs: 19_000,
      missedMs: 750,
      confusedMs: 1_750,
      falseAlarmMs: 2_750,
    });
  });

  test("overlapped speech counts once for each speaker", () => {
    const both = [span("A", 0, 10_000), span("B", 6_000, 10_000)];
    const one = scoreDiarization(both, [span("x", 0, 10_000)]);
    expect(one).toMatchObject({ totalMs: 14_000, missedMs: 4_000, confusedMs: 0, falseAlarmMs: 0 });
    expect(one.errorRate).toBeCloseTo(4 / 14, 12);
    const invented = scoreDiarization([span("A", 0, 10_000)], [span("x", 0, 10_000), span("y", 0, 5_000)]);
    expect(invented).toMatchObject({ falseAlarmMs: 5_000, missedMs: 0, confusedMs: 0 });
  });

  test("the mapping is the best one as a whole, not the best for each speaker in turn", () => {
    // x shares 6 s with A and 5 s with B, y shares 4 s with A only: x → B, y → A gives 9 s; x → A gives 6 s.
    const said = [span("A", 0, 10_000), span("B", 10_000, 15_000)];
    const heard = [span("x", 0, 6_000), span("y", 6_000, 10_000), span("x", 10_000, 15_000)];
    expect(scoreDiarization(said, heard).confusedMs).toBe(6_000);
  });

  test("one label for two speakers: the smaller one's time is confused; a label too many, too", () => {
    const merged = scoreDiarization([span("A", 0, 7_000), span("B", 7_000, 10_000)], [span("x", 0, 10_000)]);
    expect(merged).toMatchObject({ confusedMs: 3_000, errorRate: 0.3 });
    const split = scoreDiarization([span("A", 0, 10_000)], [span("x", 0, 6_000), span("y", 6_000, 10_000)]);
    expect(split).toMatchObject({ confusedMs: 4_000, errorRate: 0.4 });
  });

  test("one speaker's overlapping spans are one, and only the evaluated part counts", () => {
    const doubled = [span("A", 0, 6_000), span("A", 4_000, 10_000), span("A", 40_000, 50_000)];
    const score = scoreDiarization(doubled, [span("x", 0, 10_000)], {
      evaluatedMs: { startMs: 0, endMs: 30_000 },
    });
    expect(score).toMatchObject({ totalMs: 10_000, errorRate: 0 });
  });

  test("nothing said and nothing heard is right; something heard in silence is not", () => {
    expect(scoreDiarization([], []).errorRate).toBe(0);
    expect(scoreDiarization([], [span("x", 0, 1_000)]).errorRate).toBe(Number.POSITIVE_INFINITY);
  });

  test("scores of several recordings add up by time", () => {
    const bad = scoreDiarization([span("A", 0, 1_000)], []);
    const good = scoreDiarization([span("A", 0, 3_000)], [span("A", 0, 3_000)]);
    expect(sumScores([bad, good])).toMatchObject({ totalMs: 4_000, missedMs: 1_000, errorRate: 0.25 });
  });
});

test("RTTM is read by file; other lines are left out, broken ones named", () => {
  const files = parseRttm(
    "SPKR-INFO a 1 <NA> <NA> <NA> unknown A <NA>\nSPEAKER a 1 0.5 1.25 <NA> <NA> A <NA> <NA>\nSPEAKER b 1 2 1 <NA> <NA> C <NA> <NA>\n",
  );
  expect([...files.keys()]).toEqual(["a", "b"]);
  expect(files.get("a")).toEqual([span("A", 500, 1_750)]);
  expect(() => parseRttm("SPEAKER a 1 x 1 <NA> <NA> A <NA> <NA>")).toThrow("line 1");
});
