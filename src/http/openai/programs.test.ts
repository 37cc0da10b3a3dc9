import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createOpenAI } from "@ai-sdk/openai";
import { transcribe } from "ai";
import Groq, { toFile } from "groq-sdk";
import type { Config } from "../../config/schema.ts";
import { PROGRAM_FORMS, type ProgramForm } from "../../testing/answers/openai-programs.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import { codesIn, readDocument, sectionsOf, tablesOf } from "../../testing/rules/documents.ts";
import { UNDERSTOOD } from "./parameters.ts";

/** Programs of others that use the OpenAI layer. */

const TEXT = "नमस्ते दुनिया";
/** What an admin sets for the programs that need it. */
const SETTINGS = {
  default_language: "hi",
  model_aliases: ["whisper-1", "whisper-large-v3=demo"],
  ignored_parameters: ["timestamp_granularities"],
} satisfies Partial<Config["openai"]>;

function settingsOf(needs: readonly (keyof typeof SETTINGS)[]): Partial<Config["openai"]> {
  return { enabled: true, ...Object.fromEntries(needs.map((name) => [name, SETTINGS[name]])) };
}
const audio = () => scriptedAudio({ seconds: 2, text: TEXT });

let testApp: TestApp;
/** One server for each set of settings. */
const apps = new Map<string, Promise<TestApp>>();
function appWith(needs: ProgramForm["needs"]): Promise<TestApp> {
  const name = needs.join();
  const app = apps.get(name) ?? openTestApp({ config: { openai: settingsOf(needs) } });
  apps.set(name, app);
  return app;
}
beforeAll(async () => {
  testApp = await openTestApp({
    listens: true,
    config: { openai: settingsOf(["default_language", "model_aliases"]) },
  });
});
afterAll(async () => {
  await testApp.close();
  for (const app of apps.values()) await (await app).close();
});

function formOf({ fields, fileName }: ProgramForm): FormData {
  const form = new FormData();
  for (const [name, value] of fields) form.append(name, value);
  form.append("file", new File([audio()], fileName, { type: "audio/mpeg" }));
  return form;
}

const send = (app: TestApp, program: ProgramForm) =>
  app.as(app.key)("/openai/v1/audio/transcriptions", { method: "POST", body: formOf(program) });

describe("the form of", () => {
  test.each(PROGRAM_FORMS)("$program is served with the settings that it needs", async (program) => {
    const response = await send(await appWith(program.needs), program);
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
    const app = await appWith(form.needs.filter((need) => need !== setting));
    const response = await send(app, form);
    const refusals = { default_language: 400, ignored_parameters: 400, model_aliases: 404 };
    const { error } = (await response.json()) as { error: { type: string } };
    expect([response.status, error.type]).toEqual([refusals[setting], "invalid_request_error"]);
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

/** OpenAI's own clients offer these, and no program of the table sends them. */
const SENT_BY_NONE = ["chunking_strategy", "include", "keywords", "stream"];

test("each parameter that is understood is in the table of the docs, and a program sends it", () => {
  const section = sectionsOf(readDocument("docs/clients/openai.md")).find(
    ({ title }) => title === "Parameters",
  );
  const documented = (tablesOf(section?.text ?? "")[0]?.rows ?? []).flatMap(([names = ""]) =>
    codesIn(names).map((name) => name.replace("[]", "")),
  );
  expect(documented.sort()).toEqual([...UNDERSTOOD].sort());
  const sent = PROGRAM_FORMS.flatMap(({ fields }) => fields.map(([name]) => name.replace(/\[.*/, "")));
  expect(UNDERSTOOD.filter((name) => !["file", ...sent].includes(name)).sort()).toEqual(SENT_BY_NONE);
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
    expect(segments).toEqual([{ text: ` ${TEXT}`, startSecond: 0, endSecond: 2 }]);
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
