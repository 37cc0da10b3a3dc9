import { expect, test } from "bun:test";
import type { TranscriptionResult } from "../../domain/result.ts";
import type { TranscriptionRow } from "../../store/transcriptions.ts";
import { answerOf } from "./answers.ts";

const segments = Array.from({ length: 5_000 }, (_, index) => ({
  ...{ index, startMs: index * 1000, endMs: index * 1000 + 900, channel: 0, language: "hi" },
  ...{ text: `नमस्ते ${index}`, confidence: 0.9, speaker: `speaker_${1 + (index % 2)}` },
}));
const result = { text: "नमस्ते", durationMs: 5_000_000, segments } as unknown as TranscriptionResult;
const transcription = { language: "hi-IN" } as TranscriptionRow;

test.each(["json", "verbose_json", "diarized_json"] as const)(
  "the %s of a long recording is what Response.json writes, and other work runs meanwhile",
  async (format) => {
    let turns = 0;
    let isOver = false;
    const count = () => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const answer = await answerOf({ transcription, result }, format, new Set(["segment"]));
    isOver = true;
    const written = await answer.text();
    const body = JSON.parse(written) as { text: string; segments?: { text: string }[] };
    expect(written).toBe(JSON.stringify(body));
    expect(answer.headers.get("content-type")).toBe(Response.json({}).headers.get("content-type"));
    expect(body.text).toBe(result.text);
    expect(body.segments?.map(({ text }) => text) ?? []).toEqual(
      format === "json" ? [] : segments.map(({ text }) => (format === "verbose_json" ? ` ${text}` : text)),
    );
    // Slices of 50 segments give 100 turns; the pieces of the text give more.
    if (format !== "json") expect(turns).toBeGreaterThan(105);
  },
);
