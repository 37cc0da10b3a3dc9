import { afterAll, beforeAll, expect, test } from "bun:test";
import { type ApiClient, apiClient } from "../../testing/answers/api-client.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { type Script, scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import type { TranscriptionCreate } from "../wire/schemas.ts";

/** Speakers in requests and results. */

const TALK: Script = { seconds: 3, text: "नमस्ते आप कैसे हैं मैं ठीक हूँ", speakers: [4, 2] };
let testApp: TestApp;
let client: ApiClient;
beforeAll(async () => {
  testApp = await openTestApp();
  client = apiClient(testApp.as(testApp.key));
});
afterAll(() => testApp.close());

async function resultOf(script: Script, more: Partial<TranscriptionCreate>) {
  const { id } = await client.upload(scriptedAudio(script));
  const { body } = await client.start({ audio: { upload_id: id }, language: "hi", ...more });
  const done = await client.finished(body.id);
  expect(done.state).toBe("completed");
  return { done, result: await client.result(body.id) };
}

test("segments are divided at the turns, and speakers are numbered as they first appear", async () => {
  for (const diarization of [true, { speakers: 2 }, { min_speakers: 1, max_speakers: 20 }]) {
    const { done, result } = await resultOf(TALK, { diarization });
    expect(done.request.diarization).toBe(true);
    expect(result.segments.map(({ speaker, start, end }) => [speaker, start, end])).toEqual([
      ["speaker_1", 0, 1.5],
      ["speaker_2", 1.5, 3],
    ]);
    expect(result.text).toBe(TALK.text ?? "");
  }
});

test("without diarization, or with false, segments have no speakers", async () => {
  for (const more of [{}, { diarization: false }]) {
    const { result } = await resultOf(TALK, more);
    expect(result.segments.map((segment) => "speaker" in segment)).toEqual([false]);
  }
});

test("silence has no speakers, and diarization does not run", async () => {
  const { result } = await resultOf({ seconds: 3 }, { diarization: true });
  expect(result).toMatchObject({ segments: [], warnings: ["no_speech"] });
});

test.each([
  ["true", {}],
  ['{"speakers":2}', { minSpeakers: 2, maxSpeakers: 2 }],
  ['{"min_speakers":1,"max_speakers":20}', { minSpeakers: 1, maxSpeakers: 20 }],
])("a short recording in one request has its speakers as well: %s", async (diarization, bounds) => {
  const asked: object[] = [];
  testApp.engine.interfere({ speakers: async ({ tracks: _, ...given }) => void asked.push(given) });
  const result = await client.transcribe(scriptedAudio(TALK), { language: "hi", diarization });
  expect(result.segments.map(({ speaker }) => speaker)).toEqual(["speaker_1", "speaker_2"]);
  expect(asked).toEqual([bounds]);
});

test("GET /v1/models reports that the built-in method is active", async () => {
  const { body } = await client.call<{ data: object[] }>("GET", "/v1/models");
  expect(body.data[0]).toMatchObject({
    capabilities: { diarization: "available" },
    diarization: { method: "acoustic" },
  });
});
