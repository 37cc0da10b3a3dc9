import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Segment, TranscriptionResult } from "../domain/result.ts";
import { parseSrt, parseVtt } from "../testing/answers/subtitle-parsers.ts";
import { renderResult, resultBody } from "./render.ts";
import { normalizeText } from "./unicode.ts";

const segment = (index: number, startMs: number, endMs: number, text: string): Segment => ({
  index,
  startMs,
  endMs,
  text,
  language: "en",
  confidence: 0.87654,
});
const result = (segments: Segment[], more: Partial<TranscriptionResult> = {}): TranscriptionResult => ({
  status: "completed",
  durationMs: 12_345.6,
  channels: 1,
  languages: ["en"],
  text: segments.map(({ text }) => text).join(" "),
  segments,
  warnings: [],
  gaps: [],
  ...more,
});
const two = [segment(0, 0, 1_500, "turn on the fan"), segment(1, 3_723_004, 3_724_000, "a <b> & c --> d")];

test("SRT and VTT have the right times, also beyond an hour, and text is never syntax", () => {
  expect(renderResult(result(two), "srt")).toBe(
    "1\n00:00:00,000 --> 00:00:01,500\nturn on the fan\n\n" +
      "2\n01:02:03,004 --> 01:02:04,000\na <\u2060b> & c --\u2060> d\n",
  );
  expect(renderResult(result(two), "vtt")).toBe(
    "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nturn on the fan\n\n" +
      "01:02:03.004 --> 01:02:04.000\na &lt;b&gt; &amp; c --&gt; d\n",
  );
  expect(renderResult(result([]), "vtt")).toBe("WEBVTT\n");
  expect(renderResult(result([]), "srt")).toBe("");
});

test("speakers and channels are written in each format", () => {
  const spoken = [
    { ...segment(0, 0, 900, "hello"), speaker: "speaker_1" },
    { ...segment(1, 900, 1_500, "there"), speaker: "speaker_1" },
    { ...segment(2, 1_500, 2_000, "hi"), speaker: "speaker_2" },
  ];
  expect(renderResult(result(spoken), "txt")).toBe("speaker_1: hello there\nspeaker_2: hi\n");
  expect(renderResult(result(spoken), "srt")).toContain("\nspeaker_1: there\n");
  expect(renderResult(result(spoken), "vtt")).toContain("\n<v speaker_2>hi</v>\n");
  const apart = [{ ...segment(0, 0, 900, "hello"), channel: 1 }];
  const separate = result(apart, { text: "[channel 1] hello" });
  expect(renderResult(separate, "txt")).toBe("[channel 1] hello\n");
  expect(renderResult(separate, "srt")).toContain("\n[channel 1] hello\n");
  expect(renderResult(separate, "vtt")).toContain("\n[channel 1] hello\n");
});

test("plain text is the transcript, and is empty for an empty transcript", () => {
  expect(renderResult(result(two), "txt")).toBe("turn on the fan a <b> & c --> d\n");
  expect(renderResult(result([]), "txt")).toBe("");
});

/** Words with what is syntax somewhere, between any others. */
const anyWord = fc.oneof(
  fc.constantFrom(
    ...["नमस्ते", "क्षि".repeat(30), "ರ\u200D್ಯಾಂಕ್", "1", "a", "<", ">", "--", "{", "}", "\\", "\\N", "&"],
    ...["-->", "--->", "00:00:01,000 --> 00:00:02,000", "WEBVTT", "NOTE", "STYLE"],
    ...[
      "<v x>",
      "</v>",
      "<i>",
      "< i >",
      "<b",
      "<00:01.000>",
      "<font color='red'>",
      "&amp;",
      "&#60;",
      "&lt;b>",
    ],
    ...["{\\an8}", "{y:i}", "{", "[channel 1]", "speaker_1:", "\u2028", "\u0085", "\u0000"],
  ),
  fc.string({ minLength: 1, maxLength: 60, unit: "grapheme" }),
);
const letters = (text: string) => text.replace(/\s/gu, "");
const textOf = (cues: readonly { lines: string[] }[]) => letters(cues.flatMap(({ lines }) => lines).join(""));
/** The text that SRT has: it has no escape for braces. */
const inSrt = (text: string) => text.replaceAll("{", "(").replaceAll("}", ")");

test("any result gives a valid file in both formats, with the same text", () => {
  const said = fc.record({
    silenceMs: fc.integer({ min: 0, max: 4_000_000 }),
    lastsMs: fc.integer({ min: 1, max: 8_000 }),
    words: fc.array(anyWord, { minLength: 1, maxLength: 40 }),
    speaker: fc.option(fc.constantFrom("speaker_1", "speaker_20"), { nil: undefined }),
    channel: fc.option(fc.constantFrom(0, 1), { nil: undefined }),
  });
  fc.assert(
    fc.property(fc.array(said, { maxLength: 6 }), (list) => {
      let atMs = 0;
      const segments = list.flatMap(({ silenceMs, lastsMs, words, speaker, channel }, index) => {
        // Text as the wording stage leaves it: one line, in NFC, without control characters.
        const text = normalizeText(words.join(" "), "hi");
        if (text === "") return [];
        const startMs = atMs + silenceMs;
        atMs = startMs + lastsMs;
        const labels = { ...(speaker ? { speaker } : {}), ...(channel === undefined ? {} : { channel }) };
        return [{ ...segment(index, startMs, atMs, text), ...labels }];
      });
      const srt = parseSrt(renderResult(result(segments), "srt"));
      const vtt = parseVtt(renderResult(result(segments), "vtt"));
      const labelled = segments.map(({ text, speaker, channel }) => {
        const label = channel === undefined ? "" : `[channel ${channel}] `;
        return { srt: label + (speaker ? `${speaker}: ` : "") + text, vtt: label + text };
      });
      expect(textOf(srt)).toBe(inSrt(letters(labelled.map((label) => label.srt).join(""))));
      expect(textOf(vtt)).toBe(letters(labelled.map((label) => label.vtt).join("")));
      for (const cues of [srt, vtt]) {
        expect(cues.at(0)?.startMs).toBe(segments.at(0)?.startMs as number);
        expect(cues.at(-1)?.endMs).toBe(segments.at(-1)?.endMs as number);
      }
    }),
  );
});

test("cues of channels that speak at the same time come in the order of their starts, also across pieces", () => {
  const said = fc.record({
    startMs: fc.integer({ min: 0, max: 20_000 }),
    lastsMs: fc.integer({ min: 1, max: 30_000 }),
    words: fc.integer({ min: 1, max: 60 }),
  });
  fc.assert(
    fc.property(fc.array(said, { maxLength: 500, size: "max" }), (list) => {
      const segments = list
        .toSorted((a, b) => a.startMs - b.startMs)
        .map(({ startMs, lastsMs, words }, index) => ({
          ...segment(index, startMs, startMs + lastsMs, Array(words).fill(`w${index}`).join(" ")),
          channel: index % 2,
        }));
      const wordsOf = (text: string) => text.match(/w\d+/g)?.sort() ?? [];
      const spoken = wordsOf(segments.map(({ text }) => text).join(" "));
      // The parsers refuse a cue that begins before the one before it.
      for (const cues of [
        parseSrt(renderResult(result(segments), "srt")),
        parseVtt(renderResult(result(segments), "vtt")),
      ]) {
        expect(wordsOf(cues.flatMap(({ lines }) => lines).join(" "))).toEqual(spoken);
      }
    }),
    { numRuns: 30 },
  );
});

describe("resultBody", () => {
  const facts = { id: "tr_1", model: "demo", version: "1", mode: "native", timestamps: "segment" } as const;

  test("has seconds and rounded confidence, and omits absent fields", () => {
    expect(resultBody(facts, result(two.slice(0, 1)))).toEqual({
      id: "tr_1",
      object: "transcription.result",
      model: "demo",
      version: "1",
      status: "completed",
      mode: "native",
      duration_seconds: 12.346,
      channels: 1,
      languages: ["en"],
      text: "turn on the fan",
      segments: [
        { index: 0, start: 0, end: 1.5, text: "turn on the fan", language: "en", confidence: 0.877 },
      ],
      warnings: [],
    });
  });

  const words = ["turn", "on", "the", "fan"].map((text, at) => ({
    ...{ text, startMs: at * 375, endMs: at * 375 + 374.6, confidence: 0.98765 },
  }));
  const timed = result([{ ...segment(0, 0, 1_500, "turn on the fan"), words }]);

  test("words are there when they were asked for", () => {
    const [first] = resultBody({ ...facts, timestamps: "word" }, timed).segments;
    expect(first?.words?.slice(0, 2)).toEqual([
      { text: "turn", start: 0, end: 0.375, confidence: 0.988 },
      { text: "on", start: 0.375, end: 0.75, confidence: 0.988 },
    ]);
    for (const timestamps of ["segment", "none"] as const) {
      expect(resultBody({ ...facts, timestamps }, timed).segments[0]).not.toHaveProperty("words");
    }
    expect(resultBody({ ...facts, timestamps: "word" }, result(two)).segments[0]).not.toHaveProperty("words");
    expect(JSON.parse(renderResult(timed, "json")).segments[0].words.length).toBe(4);
  });

  test("WebVTT has the times of words when they are asked for, each within its cue", () => {
    expect(renderResult(timed, "vtt")).toBe("WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nturn on the fan\n");
    expect(renderResult(timed, "vtt", undefined, { hasWordTimes: true })).toBe(
      "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nturn <00:00:00.375>on <00:00:00.750>the <00:00:01.125>fan\n",
    );
    const shown = parseVtt(
      renderResult(
        { ...timed, segments: [{ ...timed.segments[0], speaker: "speaker_1" } as Segment] },
        "vtt",
        undefined,
        {
          hasWordTimes: true,
          subtitles: { maxLineCharacters: 10, maxLines: 1 },
        },
      ),
    );
    expect(shown).toEqual([
      { startMs: 0, endMs: 750, lines: ["turn on"], speaker: "speaker_1", timestamps: [{ ms: 375, at: 5 }] },
      {
        startMs: 750,
        endMs: 1_583,
        lines: ["the fan"],
        speaker: "speaker_1",
        timestamps: [{ ms: 1_125, at: 4 }],
      },
    ]);
  });

  test("CTM has the name of the transcription", () => {
    expect(renderResult(timed, "ctm", facts)).toStartWith("tr_1 1 0.000 0.375 turn 0.988\n");
    expect(renderResult(timed, "ctm", facts, { name: "call" })).toStartWith("call 1 ");
  });

  test("without timestamps segments have no times, but gaps have", () => {
    const gaps = [{ startMs: 2_000, endMs: 2_500, reason: "time_limit" as const, channel: 1 }];
    const body = resultBody({ ...facts, timestamps: "none" }, result(two, { gaps, status: "partial" }));
    expect(body.segments.some((found) => "start" in found || "end" in found)).toBe(false);
    expect(body.gaps).toEqual([{ start: 2, end: 2.5, reason: "time_limit", channel: 1 }]);
    expect(JSON.parse(renderResult(result(two), "json", facts))).toMatchObject({ id: "tr_1" });
    expect(JSON.parse(renderResult(result(two), "json"))).toMatchObject({ status: "completed" });
  });
});
