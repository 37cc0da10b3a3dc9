import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Word } from "../../domain/result.ts";
import type { TranscriptionResult } from "../../http/wire/schemas.ts";
import { renderResult, resultBody } from "../../pipeline/render.ts";
import { assembleResult } from "../../pipeline/stitch.ts";
import { parseSrt, parseVtt } from "../../testing/answers/subtitle-parsers.ts";
import { CONVERSATION, madeTranscript } from "../../testing/console/console-transcripts.ts";
import {
  asWritten,
  canRender,
  type Edited,
  FORMATS,
  plainName,
  referenceText,
  renderEdited,
} from "./export.ts";

const { result } = madeTranscript(CONVERSATION.slice(0, 3));

/** The transcript with one corrected text and one named speaker. */
const edited: Edited = {
  ...asWritten(result, false),
  textOf: (index) => (index === 0 ? "Corrected" : (result.segments[index]?.text ?? "")),
  nameOf: (speaker) => (speaker === "speaker_2" ? "Asha" : undefined),
};

/** A call with a channel for each side. */
const call: Edited = (() => {
  const segments = result.segments.map(({ speaker: _, ...segment }, index) => ({
    ...segment,
    channel: index % 2,
  }));
  return { ...asWritten({ ...result, segments }, true), textOf: edited.textOf };
})();

describe("a download with corrections", () => {
  const [, second = "", third = ""] = result.segments.map(({ text }) => text);
  const oneCue = (text: string, start: string, end: string) => `${start} --> ${end}\n${text}\n`;

  test("has names where the server has labels, and its form", () => {
    const [first, rest] = renderEdited(edited, "srt").split("\n\n", 2);
    expect(first).toBe("1\n00:00:00,300 --> 00:00:03,500\nspeaker_1: Corrected");
    expect(rest).toStartWith("2\n00:00:04,300 --> ");
    expect(rest).toContain("\nAsha: ");
    const cue = oneCue("<v speaker_1>Corrected</v>", "00:00:00.300", "00:00:03.500");
    expect(renderEdited(edited, "vtt")).toStartWith(`WEBVTT\n\n${cue}\n`);
    expect(renderEdited(edited, "vtt")).toContain("\n<v Asha>");
    expect(renderEdited(edited, "text")).toBe(`speaker_1: Corrected\nAsha: ${second} ${third}\n`);
    const json = JSON.parse(renderEdited(edited, "json"));
    expect(json.segments[0]).toMatchObject({ text: "Corrected", speaker: "speaker_1", start: 0.3 });
    expect(json.segments[1].speaker).toBe("Asha");
    expect(json.text).toBe(`Corrected ${second} ${third}`);
  });

  test("keeps the channels of a call, in every form and counted from 0", () => {
    const cues = renderEdited(call, "srt").split("\n\n");
    expect(cues[0]).toBe("1\n00:00:00,300 --> 00:00:03,500\n[channel 0] Corrected");
    expect(cues[1]).toContain("\n[channel 1] ");
    expect(renderEdited(call, "vtt")).toContain("\n[channel 0] Corrected\n");
    const text = `[channel 0] Corrected\n[channel 1] ${second}\n[channel 0] ${third}`;
    expect(renderEdited(call, "text")).toBe(`${text}\n`);
    expect(JSON.parse(renderEdited(call, "json"))).toMatchObject({
      text,
      segments: [{ channel: 0 }, { channel: 1 }, { channel: 0 }],
    });
  });

  test("leaves out what was corrected to nothing; JSON has its place", () => {
    const without: Edited = { ...call, textOf: (index) => (index === 0 ? "" : call.textOf(index)) };
    expect(renderEdited(without, "text")).toBe(`[channel 1] ${second}\n[channel 0] ${third}\n`);
    expect(renderEdited(without, "srt")).toStartWith("1\n00:00:04,300 --> ");
    const json = JSON.parse(renderEdited(without, "json"));
    expect([json.segments.length, json.segments[0].text]).toEqual([3, ""]);
    expect(json.text).toBe(`[channel 1] ${second}\n[channel 0] ${third}`);
  });

  test("has no subtitles where the segments have no times", () => {
    const segments = result.segments.map(({ start: _, end: __, ...segment }) => segment);
    const untimed: Edited = { ...edited, result: { ...result, segments } };
    expect(FORMATS.filter((format) => canRender(untimed, format))).toEqual(["text", "json"]);
    const json = JSON.parse(renderEdited(untimed, "json"));
    expect(json.segments[0]).toEqual({ ...segments[0], text: "Corrected" });
    expect(FORMATS.filter((format) => canRender(edited, format))).toEqual([...FORMATS]);
  });
});

/** Gives words the same time each. */
function evenly(text: string, startMs: number, lastsMs: number): Word[] {
  const words = text.split(" ");
  const timeOf = (at: number) => startMs + (lastsMs * at) / words.length;
  return words.map((word, at) => ({
    text: word,
    startMs: timeOf(at),
    endMs: timeOf(at + 1),
    confidence: 0.87654,
  }));
}

/** What the server makes of segments that begin at any times, and what it sends of it. */
const served = fc
  .record({
    isSeparate: fc.boolean(),
    isDiarized: fc.boolean(),
    timestamps: fc.constantFrom("none", "segment", "word"),
    said: fc.array(
      fc.record({
        startMs: fc.integer({ min: 0, max: 10_000 }),
        lastsMs: fc.integer({ min: 1, max: 9_000 }),
        text: fc.lorem({ maxCount: 30 }),
        number: fc.integer({ min: 0, max: 1 }),
        hasWords: fc.boolean(),
        confidence: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
      { maxLength: 12 },
    ),
  })
  .map(({ isSeparate, isDiarized, timestamps, said }) => {
    const segments = said.map(({ startMs, lastsMs, text, number, confidence, hasWords }) => ({
      ...{ startMs, endMs: startMs + lastsMs, text, confidence, language: "en" },
      ...(timestamps === "word" && hasWords ? { words: evenly(text, startMs, lastsMs) } : {}),
      ...(isSeparate ? { channel: number } : {}),
      ...(isDiarized ? { speaker: `speaker_${number + 1}` } : {}),
    }));
    const content = assembleResult({
      ...{ segments, durationMs: 20_000.4, channels: isSeparate ? 2 : 1, warnings: [] },
      gaps: said.length > 5 ? [{ startMs: 1, endMs: 7, reason: "engine_error" }] : [],
      // What the page does not show is in the file as well.
      reading: said.length > 6 ? { track: 0, leftOut: [1] } : {},
      unrecognized: said.length > 7 ? [{ startMs: 1, endMs: 7 }] : [],
      ...(said.length > 8 ? { languageCandidates: [{ language: "ta", probability: 0.75 }] } : {}),
      request: { channelMode: isSeparate ? "separate" : "mix" },
    });
    const info = { id: result.id, model: "m", version: "1", mode: "native" } as const;
    const body = resultBody({ ...info, timestamps }, content);
    const wire = JSON.parse(JSON.stringify(body)) as TranscriptionResult;
    return { content, wire, body, isSeparate };
  });

test("without a change, each form is that of the server, byte for byte", () => {
  fc.assert(
    fc.property(served, ({ content, wire, body, isSeparate }) => {
      const unchanged = asWritten(wire, isSeparate);
      expect(renderEdited(unchanged, "json")).toBe(JSON.stringify(body));
      for (const [format, file] of [
        ["text", "txt"],
        ["srt", "srt"],
        ["vtt", "vtt"],
      ] as const) {
        if (canRender(unchanged, format))
          expect(renderEdited(unchanged, format)).toBe(renderResult(content, file));
      }
    }),
    { numRuns: 300 },
  );
});

test("whatever a person types, subtitles are valid and have the same text in the order of its times", () => {
  const typed = fc.oneof(
    fc.constantFrom(
      ...["a", "नमस्ते", "-->", "00:00:01,000 --> 00:00:02,000", "<i>", "&lt;b>", "{\\an8}", "\\N", "WEBVTT"],
      ...["1", "line\nline", "\n\n", "\r\n", "\u2028", "\u0085", "<v x>"],
    ),
    fc.string({ maxLength: 60, unit: "grapheme" }),
  );
  const letters = (text: string) => [...text.replaceAll(/[\s\p{Cc}\u2060]/gu, "")].sort().join("");
  const shown = (cues: readonly { lines: string[] }[]) =>
    letters(cues.flatMap(({ lines }) => lines).join(""));
  fc.assert(
    fc.property(
      served,
      fc.array(typed, { minLength: 12, maxLength: 12 }),
      typed,
      ({ wire: { segments: all, ...rest }, isSeparate }, texts, name) => {
        // With words, one cue may have the text of several segments, and their label once.
        const segments = all.map(({ words, ...segment }) =>
          segment.speaker === undefined && segment.channel === undefined && words
            ? { ...segment, words }
            : segment,
        );
        const wire = { ...rest, segments };
        const from: Edited = {
          ...asWritten(wire, isSeparate),
          textOf: (at) => texts[at] ?? "",
          nameOf: (speaker) => (speaker === "speaker_1" ? name : undefined),
        };
        if (!canRender(from, "srt")) return;
        const spoken = wire.segments.filter(({ index }) => letters(texts[index] ?? "") !== "");
        const labels = spoken.map(({ channel }) => (channel === undefined ? "" : `[channel ${channel}]`));
        const said = spoken.map(({ index }) => texts[index]);
        const nameOf = (speaker = "") =>
          (speaker === "speaker_1" && letters(name) !== "" ? name : speaker) + (speaker === "" ? "" : ":");
        const srt = letters([...labels, ...said, ...spoken.map(({ speaker }) => nameOf(speaker))].join(""));
        expect(shown(parseSrt(renderEdited(from, "srt")))).toBe(
          letters(srt.replaceAll("{", "(").replaceAll("}", ")")),
        );
        const vtt = letters([...labels, ...said].join(""));
        const voiced = vtt === "" ? [] : parseVtt(renderEdited(from, "vtt"));
        expect(shown(voiced)).toBe(vtt);
        const heard = new Set(voiced.map(({ speaker }) => letters(speaker ?? "")));
        expect(heard).toEqual(
          new Set(spoken.map(({ speaker }) => letters(nameOf(speaker).replace(/:$/, "")))),
        );
      },
    ),
    { numRuns: 300 },
  );
});

test("the text of a pair goes channel after channel", () => {
  expect(referenceText({ ...call, textOf: (index) => `t${index}` })).toBe("t0 t2 t1\n");
});

test("names of files lose their endings and what file systems refuse", () => {
  const names = ["call 1.wav", "a/b:c.flac", "बैठक.mp3", ".wav", "v1.2 notes.opus"];
  expect(names.map(plainName)).toEqual(["call 1", "a_b_c", "बैठक", "transcript", "v1.2 notes"]);
});
