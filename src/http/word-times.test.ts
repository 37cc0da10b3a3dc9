import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Timestamps } from "../domain/transcription.ts";
import { apiClient, audioForm } from "../testing/answers/api-client.ts";
import { parseSrt, parseVtt } from "../testing/answers/subtitle-parsers.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { type Script, scriptedAudio } from "../testing/kits/scripted-engine.ts";
import type { TranscriptionResult } from "./wire/schemas.ts";

/** Word times over HTTP, with a model that can time words. The refusals are in `scenarios.test.ts`. */

const HINDI: Script = { seconds: 4, text: "पंखा चालू करो। बत्ती बंद" };

let testApp: TestApp;
beforeAll(async () => {
  testApp = await openTestApp({ config: { capabilities: { word_timestamps: true } }, canTimeWords: true });
});
afterAll(() => testApp.close());

const clientOf = () => apiClient(testApp.as(testApp.key));

async function transcribed(timestamps: Timestamps, script: Script = HINDI): Promise<string> {
  const client = clientOf();
  const { id } = await client.upload(scriptedAudio(script));
  const { body } = await client.start({ audio: { upload_id: id }, language: "hi", timestamps });
  expect((await client.finished(body.id)).state).toBe("completed");
  return body.id;
}

const resultOf = (id: string, query = "") =>
  testApp.as(testApp.key)(`/v1/transcriptions/${id}/result${query}`);

const WORDS = [
  { text: "पंखा", start: 0, end: 0.8, confidence: 0.9 },
  { text: "चालू", start: 0.8, end: 1.6, confidence: 0.9 },
  { text: "करो।", start: 1.6, end: 2.4, confidence: 0.9 },
  { text: "बत्ती", start: 2.4, end: 3.2, confidence: 0.9 },
  { text: "बंद", start: 3.2, end: 4, confidence: 0.9 },
];

test("GET /v1/models says that they are available", async () => {
  const response = await testApp.as(testApp.key)("/v1/models");
  const { data } = (await response.json()) as { data: { capabilities: Record<string, string> }[] };
  expect(data[0]?.capabilities["timestamps.word"]).toBe("available");
});

test("words of a result, asynchronous and synchronous, only where they were asked for", async () => {
  const id = await transcribed("word");
  const result = (await (await resultOf(id)).json()) as TranscriptionResult;
  expect(result.segments.flatMap(({ words }) => words ?? [])).toEqual(WORDS);
  expect(result.warnings).not.toContain("word_times_missing");
  const synchronous = await testApp.as(testApp.key)("/v1/audio/transcriptions", {
    method: "POST",
    body: audioForm(scriptedAudio(HINDI), { language: "hi", timestamps: "word" }),
  });
  const { segments } = (await synchronous.json()) as TranscriptionResult;
  expect(segments.flatMap(({ words }) => words ?? [])).toEqual(WORDS);
  for (const timestamps of ["segment", "none"] as const) {
    expect(await (await resultOf(await transcribed(timestamps))).text()).not.toContain('"words"');
  }
});

describe("files with word times", () => {
  test("CTM", async () => {
    const id = await transcribed("word");
    const response = await resultOf(id, "?format=ctm&download=1");
    expect(response.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(response.headers.get("content-disposition")).toBe(`attachment; filename="${id}.ctm"`);
    const lines = (await response.text()).trimEnd().split("\n");
    expect(lines.length).toBe(5);
    expect(lines[1]).toBe(`${id} 1 0.800 0.800 चालू 0.900`);
  });

  test("WebVTT with a time for each word", async () => {
    const id = await transcribed("word");
    const plain = parseVtt(await (await resultOf(id, "?format=vtt")).text());
    expect(plain.every(({ timestamps }) => timestamps === undefined)).toBe(true);
    const timed = parseVtt(await (await resultOf(id, "?format=vtt&word_times=1")).text());
    expect(timed.map(({ lines }) => lines)).toEqual([["पंखा चालू करो।"], ["बत्ती बंद"]]);
    expect(timed.flatMap(({ timestamps = [] }) => timestamps.map(({ ms }) => ms))).toEqual([800, 1600, 3200]);
  });

  test("subtitles with other limits", async () => {
    const id = await transcribed("word");
    const query = "?format=srt&max_line_characters=10&max_lines=1&max_cue_seconds=2";
    const cues = parseSrt(await (await resultOf(id, query)).text());
    expect(cues.map(({ lines }) => lines.join("/"))).toEqual(["पंखा", "चालू करो।", "बत्ती बंद"]);
    expect(cues.every(({ startMs, endMs }) => endMs - startMs <= 2_000)).toBe(true);
  });

  const REFUSED: [title: string, timestamps: Timestamps, query: string, detail: string][] = [
    ["CTM of a result without word times", "segment", "?format=ctm", "format"],
    ["word times of a result without any", "segment", "?format=vtt&word_times=1", "word_times"],
    ["word times in JSON", "word", "?format=json&word_times=1", "word_times"],
    ["word times in SubRip", "word", "?format=srt&word_times=true", "word_times"],
    ["word times that are not asked for", "word", "?format=vtt&word_times=0", "word_times"],
    ["lines in plain text", "word", "?format=text&max_lines=1", "max_lines"],
    ["no lines", "word", "?format=srt&max_lines=0", "max_lines"],
    ["too many lines", "word", "?format=srt&max_lines=6", "max_lines"],
    ["narrow lines", "word", "?format=srt&max_line_characters=9", "max_line_characters"],
    ["wide lines", "word", "?format=vtt&max_line_characters=201", "max_line_characters"],
    ["half a second", "word", "?format=vtt&max_cue_seconds=0.5", "max_cue_seconds"],
    ["a text for a number", "word", "?format=vtt&max_cue_seconds=long", "max_cue_seconds"],
  ];
  test.each(REFUSED)("refused: %s", async (_title, timestamps, query, detail) => {
    const response = await resultOf(await transcribed(timestamps), query);
    const { error } = (await response.json()) as { error: { code: string; detail: string } };
    expect([response.status, error.code, error.detail]).toEqual([422, "invalid_request", detail]);
  });

  test("an unknown transcription is looked for after the parameters were checked", async () => {
    expect((await resultOf("tr_x", "?format=json&max_lines=1")).status).toBe(422);
    expect((await resultOf("tr_x", "?format=srt&max_lines=1")).status).toBe(404);
  });
});
