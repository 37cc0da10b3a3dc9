import { describe, expect, test } from "bun:test";
import { isPlace, type Row, rowAt, rowsOf, spokenOf } from "./rows.ts";
import { matchesIn, replaceIn } from "./search.ts";
import { silentStretches, unrecognizedStretches } from "./silent-stretches.ts";

const segment = (index: number, start: number, end: number, confidence = 0.9, channel?: number) => ({
  ...{ index, start, end, confidence, text: `text ${index}`, language: "hi" },
  ...(channel === undefined ? {} : { channel }),
});
const waveform = (...speech: (readonly (readonly number[])[] | undefined)[]) => ({
  seconds: 60,
  peaks: speech.map(() => new Float32Array(10)),
  speech,
});

describe("rows", () => {
  const rows = rowsOf(
    [segment(0, 1, 3), segment(1, 9, 12, 0.4)],
    [{ start: 4, end: 6, reason: "time_limit" }],
    [{ start: 14, end: 16 }],
  );

  test("are in the order of time", () => {
    expect(rows.map(({ kind, start }) => [kind, start])).toEqual([
      ["segment", 1],
      ["gap", 4],
      ["segment", 9],
      ["silent", 14],
    ]);
  });

  test("are found by the time that is heard", () => {
    const heard = [0, 1, 3.5, 4, 8.99, 9, 40].map((seconds) => rowAt(rows, seconds));
    expect(heard).toEqual([-1, 0, 0, 1, 1, 2, 3]);
  });

  test("need a look where words are missing or in doubt, until they are corrected", () => {
    const places = (isCorrected: (index: number) => boolean) =>
      rows.map((row: Row) => isPlace(row, isCorrected));
    expect(places(() => false)).toEqual([false, true, true, true]);
    expect(places((index) => index === 1)).toEqual([false, true, false, true]);
  });

  test("keep their order where segments have no times", () => {
    const plain = [0, 1].map((index) => ({ index, text: "t", language: "hi", confidence: 1 }));
    expect(rowsOf(plain, [], []).map(({ start }) => start)).toEqual([undefined, undefined]);
    expect(silentStretches(waveform([[0, 50]]), plain, [])).toEqual([]);
  });
});

describe("speech without words", () => {
  test("is what no segment and no gap covers, when it is long enough", () => {
    const speech = [
      [0, 10],
      [20, 21],
      [30, 34],
    ];
    const gaps = [{ start: 30, end: 34, reason: "time_limit" as const }];
    const found = silentStretches(waveform(speech), [segment(0, 0, 4), segment(1, 8, 10)], gaps);
    expect(found).toEqual([
      { start: 4.3, end: 7.7 },
      { start: 20, end: 21 },
    ]);
  });

  test("belongs to its channel, and is not guessed where speech was not looked for", () => {
    const found = silentStretches(waveform([[0, 5]], [[0, 5]]), [segment(0, 0, 5, 1, 0)], []);
    expect(found).toEqual([{ start: 0, end: 5, channel: 1 }]);
    expect(silentStretches(waveform(undefined), [segment(0, 0, 5)], [])).toEqual([]);
  });

  test("is also what the result calls unrecognized, however short, but not where it has the doubtful text", () => {
    const told = [
      { start: 3.9, end: 4.5 },
      { start: 5, end: 9 },
    ];
    const segments = [segment(0, 1, 4), segment(1, 5.1, 8.9, 0.2)];
    expect(unrecognizedStretches(segments, told)).toEqual([{ start: 3.9, end: 4.5 }]);
    expect(unrecognizedStretches([], told)).toEqual(told);
    const plain = segments.map(({ start: _, end: __, ...one }) => one);
    expect(unrecognizedStretches(plain, told)).toEqual([]);
    const own = { start: 1, end: 4, channel: 1 };
    expect(unrecognizedStretches([segment(0, 1, 4, 0.2, 0)], [own])).toEqual([own]);
    expect(unrecognizedStretches([segment(0, 1, 4, 0.2, 1)], [own])).toEqual([]);
  });
});

describe("search", () => {
  test("finds text in any case, also in Indic scripts", () => {
    expect(matchesIn("Abc abC", "ABC")).toEqual([
      { start: 0, end: 3 },
      { start: 4, end: 7 },
    ]);
    expect(matchesIn("आज मौसम अच्छा है", "मौसम")).toEqual([{ start: 3, end: 7 }]);
    expect(matchesIn("text", "")).toEqual([]);
  });

  test.each([
    ["फोन", "मेरा फ़ोन है", "फ़ोन"],
    ["फ़ोन", "मेरा फोन है", "फोन"],
    ["जीरो", "एक ज़ीरो", "ज़ीरो"],
    ["नंबर", "वह नम्बर", "नम्बर"],
    ["नम्बर", "वह नंबर", "नंबर"],
    ["हां", "जी हाँ", "हाँ"],
    ["ಅಂಕ", "ಅಙ್ಕ", "ಅಙ್ಕ"],
    ["ಯಾಂಕ್", "ರ\u200d್ಯಾಂಕ್", "ಯಾಂಕ್"],
    ["straße", "Die STRAßE", "STRAßE"],
    ["i", "İi", "i"],
  ])("finds %s in %s, as people write it", (query, text, match) => {
    expect(matchesIn(text, query).map(({ start, end }) => text.slice(start, end))).toContain(match);
  });

  test("does not find other words, and its places are those of the text", () => {
    expect(matchesIn("पन चक्की", "पं")).toEqual([]);
    expect(matchesIn("नमक", "नंक")).toEqual([]);
    expect(replaceIn("फ़ोन नम्बर और फोन नंबर", "फोन नंबर", "मोबाइल")).toBe("मोबाइल और मोबाइल");
  });

  test("replaces every match once, also by a text that contains it", () => {
    expect(replaceIn("a b a", "a", "aa")).toBe("aa b aa");
    // What is taken out leaves one space, and none at the ends.
    expect(replaceIn("um so um I um", "um", "")).toBe("so I");
    expect(replaceIn("umbrella", "um", "")).toBe("brella");
    expect(replaceIn("um", "um", "")).toBe("");
  });
});

describe("the words as they were said", () => {
  const money = { start: 5, end: 15, kind: "money", value: "125000000", spoken: "बारह लाख पचास हज़ार रुपये" };
  const inFigures = { ...segment(0, 0, 1), text: "मकान ₹12,50,000 का है", written: [money] };

  test.each([
    ["put back in the place of figures", inFigures, "मकान बारह लाख पचास हज़ार रुपये का है"],
    ["in the language's own script", { ...inFigures, text: "makan", native_text: "मकान" }, "मकान"],
    ["the text itself", segment(0, 0, 1), undefined],
  ])("%s", (_title, one, spoken) => {
    expect(spokenOf(one)).toBe(spoken);
  });
});
