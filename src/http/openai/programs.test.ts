import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createOpenAI } from "@ai-sdk/openai";
import { transcribe } from "ai";
import Groq, { toFile } from "groq-sdk";
import type { Config } from "../../config/schema.ts";
import { readDocument, sectionsOf, tablesOf } from "../../testing/documents.ts";
import { openTestApp, type TestApp } from "../../testing/open-test-app.ts";
import { PROGRAM_FORMS, type ProgramForm } from "../../testing/openai-programs.ts";
import { scriptedAudio } from "../../testing/scripted-engine.ts";

const TEXT = "नमस्ते दुनिया";
const FULL: Config["openai"] = {
  ...{ enabled: true, default_language: "hi", wait_seconds: 10, timeout_seconds: 60 },
  ...{ max_bytes: 1_000_000, max_duration_seconds: 600 },
  model_aliases: ["whisper-1", "whisper-large-v3=demo"],
  ignored_parameters: ["prompt", "temperature", "timestamp_granularities"],
};
const audio = () => scriptedAudio({ seconds: 2, text: TEXT });

let testApp: TestApp;
beforeAll(async () => {
  testApp = await openTestApp({ listens: true, config: { openai: FULL } });
});
afterAll(() => testApp.close());

function formOf({ fields, fileName }: ProgramForm): FormData {
  const form = new FormData();
  for (const [name, value] of fields) form.append(name, value);
  form.append("file", new File([audio()], fileName, { type: "audio/mpeg" }));
  return form;
}

const send = (app: TestApp, program: ProgramForm) =>
  app.as(app.key)("/openai/v1/audio/transcriptions", { method: "POST", body: formOf(program) });

describe("the form of", () => {
  test.each(PROGRAM_FORMS)("$program is served", async (program) => {
    const response = await send(testApp, program);
    const text = await response.text();
    expect([response.status, response.headers.get("x-ignored-parameters")]).toEqual([
      200,
      program.ignored ?? null,
    ]);
    const format = program.fields.find(([name]) => name === "response_format")?.[1] ?? "json";
    if (format === "text") expect(text).toBe(`${TEXT}\n`);
    else
      expect(JSON.parse(text)).toMatchObject({ text: TEXT, ...(format === "json" ? {} : { duration: 2 }) });
  });

  const needs = PROGRAM_FORMS.flatMap((form) => form.needs.map((setting) => ({ ...form, setting })));
  test.each(needs)("$program needs $setting, and is refused without it", async ({ setting, ...form }) => {
    const without = { ...FULL, [setting]: setting === "default_language" ? "" : [] };
    const app = await openTestApp({ config: { openai: without } });
    try {
      const response = await send(app, form);
      const refusals = { default_language: 400, ignored_parameters: 400, model_aliases: 404 };
      const { error } = (await response.json()) as { error: { type: string } };
      expect([response.status, error.type]).toEqual([refusals[setting], "invalid_request_error"]);
    } finally {
      await app.close();
    }
  });

  test("every program is in the table of the docs, with its settings", () => {
    const section = sectionsOf(readDocument("docs/clients/openai.md")).find(
      ({ title }) => title === "Programs",
    );
    const rows = tablesOf(section?.text ?? "")[0]?.rows ?? [];
    const expected = PROGRAM_FORMS.map(({ program, needs }) => [
      program,
      needs.map((setting) => `\`${setting}\``).join(", "),
    ]);
    expect(rows.map(([program, settings]) => [program, settings])).toEqual(expected);
  });
});

describe("the real package", () => {
  test("ai with @ai-sdk/openai", async () => {
    const provider = createOpenAI({ apiKey: testApp.key, baseURL: `${testApp.baseUrl()}/openai/v1` });
    const { text, language, segments, durationInSeconds } = await transcribe({
      model: provider.transcription("whisper-1"),
      audio: audio(),
      providerOptions: { openai: { language: "hi" } },
      maxRetries: 0,
    });
    expect({ text, language, durationInSeconds }).toEqual({
      text: TEXT,
      language: "hi",
      durationInSeconds: 2,
    });
    expect(segments).toEqual([{ text: TEXT, startSecond: 0, endSecond: 2 }]);
  });

  test("groq-sdk, whose paths begin with /openai/v1", async () => {
    const groq = new Groq({ apiKey: testApp.key, baseURL: testApp.baseUrl(), maxRetries: 0 });
    const file = await toFile(audio(), "hello.wav");
    const { text } = await groq.audio.transcriptions.create({
      file,
      model: "whisper-large-v3",
      language: "hi",
    });
    expect(text).toBe(TEXT);
    const ids = (await groq.models.list()).data.map(({ id }) => id);
    expect(ids).toEqual(["demo", "whisper-1", "whisper-large-v3"]);
    const refused = groq.audio.transcriptions.create({ file, model: "whisper-large-v3", language: "xx" });
    expect(await refused.catch((error) => error)).toMatchObject({ status: 400 });
  });
});
