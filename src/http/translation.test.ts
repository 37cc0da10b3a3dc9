import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI, { APIError, toFile } from "openai";
import { apiClient, audioForm } from "../testing/answers/api-client.ts";
import { fingerprint } from "../testing/answers/scenarios.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { type Script, scriptedAudio } from "../testing/kits/scripted-engine.ts";
import type { Transcription, TranscriptionResult } from "./wire/schemas.ts";

/** Translation to English over HTTP: `task` of the interface, and OpenAI's `audio/translations`. */

const HINDI: Script = {
  seconds: 4,
  text: "डॉक्टर को बारह लाख रुपये दिए",
  english: "The doctor was given twelve lakh rupees.",
};

let on: TestApp;
let off: TestApp;
let unable: TestApp;
beforeAll(async () => {
  const openai = { enabled: true, default_language: "hi" };
  const capabilities = { translation: true, written_form: true, word_timestamps: true };
  on = await openTestApp({ config: { capabilities, openai }, canTranslate: true, listens: true });
  unable = await openTestApp({ config: { capabilities, openai }, canTranslate: false });
  off = await openTestApp({ config: { openai }, canTranslate: true });
});
afterAll(async () => {
  for (const testApp of [on, off, unable]) await testApp.close();
});

type Fields = Record<string, string>;
const send = (testApp: TestApp, fields: Fields, path = "/v1/audio/transcriptions") =>
  testApp.as(testApp.key)(path, {
    method: "POST",
    body: audioForm(scriptedAudio(HINDI), {
      ...(path.startsWith("/v1") ? { language: "hi" } : {}),
      ...fields,
    }),
  });

describe("where it is switched on", () => {
  test("the text is English, and the result says so", async () => {
    const response = await send(on, { task: "translate" });
    const result = (await response.json()) as TranscriptionResult;
    expect([response.status, result.task, result.text, result.languages, result.warnings]).toEqual([
      ...[200, "translate", HINDI.english, ["en"], []],
    ]);
  });

  test("an asynchronous one repeats the task, costs what a transcription costs, and its subtitles are English", async () => {
    const client = apiClient(on.as(on.key));
    const { id } = await client.upload(scriptedAudio(HINDI));
    const chargeOf = async (more: { task?: "translate" | "transcribe" }) => {
      const { body } = await client.start({ audio: { upload_id: id }, language: "hi", ...more });
      const { state, request } = (await client.finished(body.id)) as Transcription;
      const [event] = (await client.usage("?limit=1")).data;
      const srt = await (await on.as(on.key)(`/v1/transcriptions/${body.id}/result?format=srt`)).text();
      return { state, request, charge: event?.amount_paise, of: event?.transcription_id === body.id, srt };
    };
    const translated = await chargeOf({ task: "translate" });
    const plain = await chargeOf({ task: "transcribe" });
    expect(translated).toMatchObject({ state: "completed", request: { language: "hi", task: "translate" } });
    expect(translated.srt).toContain("The doctor was given");
    expect(Object.keys(plain.request)).not.toContain("task");
    expect(plain.srt).toContain("डॉक्टर");
    expect([translated.of, plain.of, translated.charge]).toEqual([true, true, plain.charge]);
    expect(plain.charge).toBeGreaterThan(0);
  });

  test("the written form is that of English", async () => {
    const result = (await (
      await send(on, { task: "translate", numerals: "written" })
    ).json()) as TranscriptionResult;
    expect(result.text).toBe("The doctor was given ₹12,00,000.");
  });

  test.each<[Fields, number, string, string]>([
    [{ task: "translate", mode: "codemix" }, 422, "unsupported_mode", "mode"],
    [{ task: "translate", timestamps: "word" }, 422, "invalid_request", "timestamps"],
    [{ task: "translate", script: "deva" }, 422, "invalid_request", "script"],
    [{ task: "summarize" }, 422, "invalid_request", "task"],
  ])("%j is refused, and nothing is stored", async (fields, status, code, detail) => {
    const before = fingerprint(on);
    const response = await send(on, fields);
    const { error } = (await response.json()) as { error: { code: string; detail: string } };
    expect([response.status, error.code, error.detail]).toEqual([status, code, detail]);
    expect(fingerprint(on)).toEqual(before);
  });

  test("the same key with the other task is a conflict", async () => {
    const withKey = (task: string) =>
      on.as(on.key)("/v1/audio/transcriptions", {
        method: "POST",
        headers: { "idempotency-key": "task" },
        body: audioForm(scriptedAudio(HINDI), { language: "hi", task }),
      });
    expect((await withKey("translate")).status).toBe(200);
    expect((await withKey("translate")).status).toBe(200);
    expect((await withKey("transcribe")).status).toBe(409);
  });

  test("English speech stays as it was said", async () => {
    const response = await send(on, { task: "translate", language: "en" });
    expect(((await response.json()) as TranscriptionResult).text).toContain("डॉक्टर");
  });
});

test("models say whether they can, only where it is switched on; those that cannot refuse", async () => {
  const statusOf = async (testApp: TestApp) => {
    const response = await testApp.as(testApp.key)("/v1/models");
    const { data } = (await response.json()) as { data: { capabilities: Record<string, string> }[] };
    return data[0]?.capabilities["task.translate"];
  };
  expect([await statusOf(on), await statusOf(unable), await statusOf(off)]).toEqual([
    ...["available", "coming_soon", undefined],
  ]);
  const refused = await send(unable, { task: "translate" });
  expect([refused.status, await refused.json()]).toMatchObject([
    422,
    { error: { code: "capability_unavailable", detail: "task.translate" } },
  ]);
  const unknown = await send(off, { task: "translate" });
  expect([unknown.status, await unknown.json()]).toMatchObject([
    422,
    { error: { code: "unknown_parameter", detail: "task" } },
  ]);
});

describe("OpenAI's client", () => {
  const clientFor = () => new OpenAI({ apiKey: on.key, baseURL: `${on.baseUrl()}/openai/v1`, maxRetries: 0 });
  const recording = () => toFile(scriptedAudio(HINDI), "call.wav");

  test("gets a translation, and its details say that it is one", async () => {
    const { translations } = clientFor().audio;
    const { text } = await translations.create({ file: await recording(), model: "whisper-1" });
    expect(text).toBe(HINDI.english ?? "");
    const verbose = await translations.create({
      ...{ file: await recording(), model: "whisper-1", response_format: "verbose_json" },
    });
    expect(verbose).toMatchObject({ task: "translate", language: "english", text, duration: 4 });
  });

  test("is refused what a translation cannot have", async () => {
    const asked = clientFor().audio.translations.create({
      ...{ file: await recording(), model: "whisper-1", response_format: "verbose_json" },
      ...{ timestamp_granularities: ["word"] },
    });
    const refusal = await asked.then(() => undefined).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(APIError);
    expect(refusal).toMatchObject({ status: 400, param: "timestamp_granularities" });
  });

  test("learns where no model can, or where it is switched off", async () => {
    const path = "/openai/v1/audio/translations";
    for (const testApp of [unable, off]) {
      const response = await send(testApp, {}, path);
      expect([response.status, await response.json()]).toMatchObject([
        400,
        { error: { code: "capability_unavailable" } },
      ]);
    }
  });
});
