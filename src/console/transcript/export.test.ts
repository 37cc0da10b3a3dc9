import { describe, expect, test } from "bun:test";
import { CONVERSATION, madeTranscript } from "../../testing/console-transcripts.ts";
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

test("the text of a pair goes channel after channel", () => {
  const segments = result.segments.map((segment, index) => ({ ...segment, channel: index % 2 }));
  const text = referenceText({ ...edited, result: { ...result, segments }, textOf: (index) => `t${index}` });
  expect(text).toBe("t0 t2 t1\n");
});

test("names of files lose their endings and what file systems refuse", () => {
  const names = ["call 1.wav", "a/b:c.flac", "बैठक.mp3", ".wav", "v1.2 notes.opus"];
  expect(names.map(plainName)).toEqual(["call 1", "a_b_c", "बैठक", "transcript", "v1.2 notes"]);
});
