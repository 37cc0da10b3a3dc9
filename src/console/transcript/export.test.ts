import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { CONVERSATION, madeTranscript } from "../../testing/console-transcripts.ts";
import { parseSrt, parseVtt } from "../../testing/subtitle-parsers.ts";
import { type Edited, plainName, referenceText, renderEdited } from "./export.ts";

const { result } = madeTranscript(CONVERSATION.slice(0, 3));

/** The transcript with one corrected text and one named speaker. */
const edited: Edited = {
  result,
  textOf: (index) => (index === 0 ? "Corrected" : (result.segments[index]?.text ?? "")),
  nameOf: (speaker) => (speaker === "speaker_2" ? "Asha" : undefined),
};

describe("an export with corrections", () => {
  test("as SRT has numbered cues with names, and times with a comma", () => {
    const [first = "", second = ""] = renderEdited(edited, "srt").split("\n\n");
    expect(first).toBe("1\n00:00:00,300 --> 00:00:03,500\nspeaker_1: Corrected");
    expect(second.split("\n").slice(0, 2)).toEqual(["2", "00:00:04,300 --> 00:00:07,500"]);
    expect(second).toContain("Asha: ");
  });

  test("as VTT begins with its name, and has times with a point", () => {
    expect(renderEdited(edited, "vtt")).toStartWith("WEBVTT\n\n00:00:00.300 --> 00:00:03.500\n");
  });

  test("as text has a paragraph for each turn", () => {
    const paragraphs = renderEdited(edited, "text").trim().split("\n\n");
    expect(paragraphs.map((text) => text.split(":")[0])).toEqual(["speaker_1", "Asha"]);
  });

  test("as JSON is a result with the corrected text in both places", () => {
    const json = JSON.parse(renderEdited(edited, "json"));
    expect(json.segments[0]).toMatchObject({ text: "Corrected", speaker: "speaker_1", start: 0.3 });
    expect(json.segments[1].speaker).toBe("Asha");
    expect(json.text).toStartWith("Corrected ");
  });

  test("cuts long segments into cues of two lines, and loses no word and no time", () => {
    const words = Array.from({ length: 60 }, (_, index) => `word${index}`);
    const long: Edited = { ...edited, textOf: (index) => (index === 0 ? words.join(" ") : "") };
    const cues = renderEdited(long, "vtt").trim().split("\n\n").slice(1);
    expect(cues.length).toBeGreaterThan(3);
    const lines = cues.map((cue) => cue.split("\n").slice(1));
    expect(Math.max(...lines.map((cue) => cue.length))).toBeLessThanOrEqual(3);
    expect(lines.flat().join(" ")).toBe(`speaker_1: ${words.join(" ")}`);
    const times = cues.map((cue) => cue.split("\n")[0]?.split(" --> ") ?? []);
    expect(times[0]?.[0]).toBe("00:00:00.300");
    expect(times.at(-1)?.[1]).toBe("00:00:03.500");
    for (const [index, [start]] of times.entries()) if (index > 0) expect(start).toBe(times[index - 1]?.[1]);
  });
});

test("whatever a person types, subtitles are valid and have the same text in the order of its times", () => {
  const typed = fc.oneof(
    fc.constantFrom(
      ...[
        "a",
        "नमस्ते",
        "-->",
        "00:00:01,000 --> 00:00:02,000",
        "<i>",
        "&lt;b>",
        "{\\an8}",
        "\\N",
        "WEBVTT",
        "1",
      ],
      ...["line\nline", "\n\n", "\r\n", "\u2028", "\u0085", "<v x>"],
    ),
    fc.string({ maxLength: 60, unit: "grapheme" }),
  );
  const said = fc.record({
    startMs: fc.integer({ min: 0, max: 10_000 }),
    lastsMs: fc.integer({ min: 0, max: 9_000 }),
    texts: fc.array(typed, { maxLength: 40 }),
  });
  const letters = (text: string) => [...text.replaceAll(/[\s\p{Cc}\u2060]/gu, "")].sort().join("");
  fc.assert(
    fc.property(fc.array(said, { maxLength: 12 }), typed, (list, name) => {
      const ordered = list.toSorted((a, b) => a.startMs - b.startMs);
      const texts = ordered.map((each) => each.texts.join(" "));
      const segments = ordered.map(({ startMs, lastsMs }, index) => ({
        ...{ index, start: startMs / 1000, end: (startMs + lastsMs) / 1000, text: "", language: "en" },
        ...{ confidence: 1, channel: index % 2, speaker: `speaker_${index}` },
      }));
      const from = { result: { ...result, segments }, textOf: (at: number) => texts[at] ?? "" };
      const names = (speaker: string) => (speaker === "speaker_0" ? name : undefined);
      const spoken = texts.map((text, at) =>
        letters(text) === "" ? "" : `${names(`speaker_${at}`) ?? `speaker_${at}`}:${text}`,
      );
      const said = letters(spoken.join(""));
      const shown = (cues: { lines: string[] }[]) => letters(cues.flatMap(({ lines }) => lines).join(""));
      const srt = renderEdited({ ...from, nameOf: names }, "srt");
      expect(shown(parseSrt(srt))).toBe(letters(said.replaceAll("{", "(").replaceAll("}", ")")));
      const vtt = renderEdited({ ...from, nameOf: names }, "vtt");
      if (said !== "") expect(shown(parseVtt(vtt))).toBe(said);
    }),
    { numRuns: 300 },
  );
});

test("the text of a pair goes channel after channel", () => {
  const segments = result.segments.map((segment, index) => ({ ...segment, channel: index % 2 }));
  const text = referenceText({ ...edited, result: { ...result, segments }, textOf: (index) => `t${index}` });
  expect(text).toBe("t0 t2 t1\n");
});

test("names of files lose their endings and what file systems refuse", () => {
  const names = ["call 1.wav", "a/b:c.flac", "बैठक.mp3", ".wav", "v1.2 notes.opus"];
  expect(names.map(plainName)).toEqual(["call 1", "a_b_c", "बैठक", "transcript", "v1.2 notes"]);
});
