import { afterAll, beforeAll, expect, test } from "bun:test";
import { apiClient, audioForm } from "../testing/answers/api-client.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { type Script, scriptedAudio } from "../testing/kits/scripted-engine.ts";
import type { Transcription, TranscriptionResult } from "./wire/schemas.ts";

/** The request fields `numerals` and `script` over HTTP, with and without the setting that switches them on. */

const HINDI: Script = { seconds: 4, text: "डॉक्टर को बारह लाख पचास हज़ार रुपये दिए" };
const SPOKEN = "डॉक्टर को बारह लाख पचास हज़ार रुपये दिए";
const IN_FIGURES = "डॉक्टर को ₹12,50,000 दिए";
const MONEY = { kind: "money", value: "125000000", spoken: "बारह लाख पचास हज़ार रुपये" };

let on: TestApp;
let off: TestApp;
beforeAll(async () => {
  const capabilities = { word_timestamps: true, written_form: true };
  on = await openTestApp({
    config: { capabilities, openai: { enabled: true } },
    canTimeWords: true,
  });
  off = await openTestApp({ config: { openai: { enabled: true } } });
});
afterAll(async () => {
  await on.close();
  await off.close();
});

type Fields = { numerals?: string; script?: string; timestamps?: "word"; language?: string };

async function synchronous(testApp: TestApp, fields: Fields, path = "/v1/audio/transcriptions") {
  const body = audioForm(scriptedAudio(HINDI), { language: "hi", ...fields });
  return testApp.as(testApp.key)(path, { method: "POST", body });
}

async function resultOf(fields: Fields): Promise<TranscriptionResult> {
  const response = await synchronous(on, fields);
  expect(response.status).toBe(200);
  return (await response.json()) as TranscriptionResult;
}

const FORMS: readonly (readonly [fields: Fields, text: string, segment: object])[] = [
  [{}, SPOKEN, {}],
  [{ numerals: "spoken", script: "native" }, SPOKEN, {}],
  [{ numerals: "written" }, IN_FIGURES, { written: [{ start: 10, end: 20, ...MONEY }] }],
  [{ script: "latin" }, "doctor ko barah lakh pachas hazar rupye diye", { native_text: SPOKEN }],
  [
    { numerals: "written", script: "latin" },
    "doctor ko ₹12,50,000 diye",
    { written: [{ start: 10, end: 20, ...MONEY }], native_text: SPOKEN },
  ],
  [{ script: "iso15919" }, "ḍôkṭara kō bāraha lākha pacāsa hazāra rupayē diē", { native_text: SPOKEN }],
  [{ script: "gujr" }, "ડૉક્ટર કો બારહ લાખ પચાસ હજ઼ાર રુપયે દિએ", { native_text: SPOKEN }],
];

test.each(FORMS)("a synchronous request with %j", async (fields, text, segment) => {
  const result = await resultOf(fields);
  expect(result.text).toBe(text);
  const [{ written, native_text } = {}] = result.segments;
  expect({ ...(written ? { written } : {}), ...(native_text ? { native_text } : {}) }).toEqual(segment);
});

test("an asynchronous one repeats what was asked for, and its files have that form", async () => {
  const client = apiClient(on.as(on.key));
  const { id } = await client.upload(scriptedAudio(HINDI));
  const request = { audio: { upload_id: id }, language: "hi", numerals: "written", script: "latin" } as const;
  const { body } = await client.start(request);
  const ended = (await client.finished(body.id)) as Transcription;
  expect([ended.state, ended.request.numerals, ended.request.script]).toEqual([
    "completed",
    "written",
    "latin",
  ]);
  const text = await on.as(on.key)(`/v1/transcriptions/${body.id}/result?format=text`);
  expect(await text.text()).toBe("doctor ko ₹12,50,000 diye\n");
  const plain = await client.start({ audio: { upload_id: id }, language: "hi" });
  const { request: echo } = (await client.finished(plain.body.id)) as Transcription;
  expect(Object.keys(echo)).not.toContain("numerals");
  expect(Object.keys(echo)).not.toContain("script");
});

test("words keep their times: several that became one have the time of all", async () => {
  const { segments } = await resultOf({ numerals: "written", script: "latin", timestamps: "word" });
  const words = segments.flatMap(({ words = [] }) => words.map(({ text, start, end }) => [text, start, end]));
  expect(words).toEqual([
    ["doctor", 0, 0.5],
    ["ko", 0.5, 1],
    ["₹12,50,000", 1, 3.5],
    ["diye", 3.5, 4],
  ]);
});

test("the same key with another form is a conflict", async () => {
  const client = on.as(on.key);
  const send = (script: string) =>
    client("/v1/audio/transcriptions", {
      method: "POST",
      headers: { "idempotency-key": "form" },
      body: audioForm(scriptedAudio(HINDI), { language: "hi", script }),
    });
  expect((await send("latin")).status).toBe(200);
  expect((await send("latin")).status).toBe(200);
  expect((await send("iso15919")).status).toBe(409);
});

test("GET /v1/models says what each language has, where it is switched on", async () => {
  const languagesOf = async (testApp: TestApp) => {
    const response = await testApp.as(testApp.key)("/v1/models");
    const { data } = (await response.json()) as {
      data: { languages: { code: string; scripts?: string[] }[] }[];
    };
    return data[0]?.languages.find(({ code }) => code === "hi");
  };
  expect(await languagesOf(on)).toMatchObject({
    numerals: ["spoken", "written"],
    scripts: ["native", "latin", "iso15919", "beng", "deva", "gujr", "knda", "orya", "telu"],
  });
  expect(Object.keys((await languagesOf(off)) ?? {})).toEqual(["code", "name", "modes"]);
});

const OPENAI = "/openai/v1/audio/transcriptions";
const REFUSED: readonly (readonly [
  title: string,
  isOn: boolean,
  path: string,
  fields: Fields,
  code: string,
  detail: string,
])[] = [
  [
    "numerals, switched off",
    false,
    "/v1/audio/transcriptions",
    { numerals: "written" },
    "unknown_parameter",
    "numerals",
  ],
  [
    "a value that there is not, switched off",
    false,
    "/v1/audio/transcriptions",
    { numerals: "x" },
    "unknown_parameter",
    "numerals",
  ],
  [
    "script, switched off",
    false,
    "/v1/audio/transcriptions",
    { script: "latin" },
    "unknown_parameter",
    "script",
  ],
  [
    "a value of numerals that there is not",
    true,
    "/v1/audio/transcriptions",
    { numerals: "roman" },
    "invalid_request",
    "numerals",
  ],
  [
    "a script that the language does not have",
    true,
    "/v1/audio/transcriptions",
    { script: "taml" },
    "invalid_request",
    "script",
  ],
  [
    "a script that there is not",
    true,
    "/v1/audio/transcriptions",
    { script: "klingon" },
    "invalid_request",
    "script",
  ],
];

test.each(REFUSED)("refused: %s", async (_title, isOn, path, fields, code, detail) => {
  const response = await synchronous(isOn ? on : off, fields, path);
  const { error } = (await response.json()) as { error: { code: string; detail: string } };
  expect([response.status, error.code, error.detail]).toEqual([422, code, detail]);
});

test("refused as JSON: both fields, switched off, before any other fault of the body", async () => {
  for (const field of [{ numerals: 5 }, { script: null }]) {
    const body = JSON.stringify({ audio: 5, ...field });
    const headers = { "content-type": "application/json" };
    const response = await off.as(off.key)("/v1/transcriptions", { method: "POST", headers, body });
    const { error } = (await response.json()) as { error: { code: string; detail: string } };
    expect([response.status, error.code, error.detail]).toEqual([
      422,
      "unknown_parameter",
      Object.keys(field)[0] ?? "",
    ]);
  }
});

test("OpenAI's audio API takes both fields where they are switched on", async () => {
  const response = await synchronous(on, { numerals: "written", script: "latin" }, OPENAI);
  expect(((await response.json()) as { text: string }).text).toBe("doctor ko ₹12,50,000 diye");
  expect((await synchronous(off, { script: "latin" }, OPENAI)).status).toBe(400);
  expect((await synchronous(on, { script: "taml" }, OPENAI)).status).toBe(400);
});
