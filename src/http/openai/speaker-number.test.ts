import { afterAll, beforeAll, expect, test } from "bun:test";
import OpenAI, { toFile } from "openai";
import { fingerprint } from "../../testing/answers/scenarios.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";

/** The number of speakers in requests of OpenAI's clients, which their API has no field for. */

const TALK = { seconds: 3, text: "नमस्ते आप कैसे हैं मैं ठीक हूँ", speakers: [4, 2] };
let testApp: TestApp;
beforeAll(async () => {
  testApp = await openTestApp({ listens: true, config: { openai: { enabled: true } } });
});
afterAll(() => testApp.close());

type Fields = Record<string, string>;

function send(fields: Fields): Promise<Response> {
  const form = new FormData();
  form.append("file", new File([scriptedAudio(TALK)], "talk.wav"));
  for (const [name, value] of Object.entries({ language: "hi", ...fields })) form.append(name, value);
  return testApp.as(testApp.key)("/openai/v1/audio/transcriptions", { method: "POST", body: form });
}

const DIARIZED = { response_format: "diarized_json" };

test.each<[string, Fields, object]>([
  ["none: it is found", {}, {}],
  ["true: it is found", { diarization: "true" }, {}],
  ["as JSON", { diarization: '{"speakers": 2}' }, { minSpeakers: 2, maxSpeakers: 2 }],
  ["as a member", { "diarization[speakers]": "2" }, { minSpeakers: 2, maxSpeakers: 2 }],
  [
    "bounds as members",
    { "diarization[min_speakers]": "2", "diarization[max_speakers]": "4" },
    { minSpeakers: 2, maxSpeakers: 4 },
  ],
])("reaches the engine: %s", async (_title, fields, bounds) => {
  const asked: object[] = [];
  testApp.engine.interfere({ speakers: async ({ tracks: _, ...given }) => void asked.push(given) });
  const response = await send({ ...DIARIZED, ...fields });
  expect(response.status).toBe(200);
  const { segments } = (await response.json()) as { segments: { speaker: string }[] };
  expect(segments.map(({ speaker }) => speaker)).toEqual(["A", "B"]);
  expect(asked).toEqual([bounds]);
});

test("is taken from OpenAI's own client", async () => {
  const asked: object[] = [];
  testApp.engine.interfere({ speakers: async ({ tracks: _, ...given }) => void asked.push(given) });
  const openai = new OpenAI({
    apiKey: testApp.key,
    baseURL: `${testApp.baseUrl()}/openai/v1`,
    maxRetries: 0,
  });
  await openai.audio.transcriptions.create({
    file: await toFile(scriptedAudio(TALK), "talk.wav"),
    model: "whisper-1",
    language: "hi",
    response_format: "diarized_json",
    ...({ diarization: { speakers: 3 } } as object),
  });
  expect(asked).toEqual([{ minSpeakers: 3, maxSpeakers: 3 }]);
});

test.each<[string, Fields, [code: string, param: string]]>([
  ["zero", { "diarization[speakers]": "0" }, ["invalid_request", "diarization.speakers"]],
  ["more than 20", { diarization: '{"speakers": 21}' }, ["invalid_request", "diarization.speakers"]],
  ["a word", { "diarization[speakers]": "two" }, ["invalid_request", "diarization.speakers"]],
  ["no JSON", { diarization: "{2" }, ["invalid_request", "diarization"]],
  ["one bound alone", { "diarization[min_speakers]": "2" }, ["invalid_request", "diarization.max_speakers"]],
  [
    "bounds in the wrong order",
    { "diarization[min_speakers]": "3", "diarization[max_speakers]": "2" },
    ["invalid_request", "diarization.min_speakers"],
  ],
  ["another member", { "diarization[people]": "2" }, ["unknown_parameter", "diarization.people"]],
  [
    "JSON and a member",
    { diarization: "true", "diarization[speakers]": "2" },
    ["invalid_request", "diarization.speakers"],
  ],
  ["none wanted", { diarization: "false" }, ["invalid_request", "diarization"]],
  [
    "an answer without speakers",
    { response_format: "json", "diarization[speakers]": "2" },
    ["invalid_request", "diarization"],
  ],
])("is refused, and nothing is stored: %s", async (_title, fields, expected) => {
  const before = fingerprint(testApp);
  const response = await send({ ...DIARIZED, ...fields });
  const { error } = (await response.json()) as { error: { code: string; param: string } };
  expect([response.status, error.code, error.param]).toEqual([400, ...expected]);
  expect(fingerprint(testApp)).toEqual(before);
});

test("false beside an answer without speakers says what happens anyway", async () => {
  expect((await send({ response_format: "json", diarization: "false" })).status).toBe(200);
});
