import { describe, expect, test } from "bun:test";
import type { Config } from "../../config/schema.ts";
import { EngineError } from "../../engine/protocol.ts";
import { apiClient } from "../../testing/answers/api-client.ts";
import { fingerprint } from "../../testing/answers/scenarios.ts";
import type { TestApp } from "../../testing/kits/open-test-app.ts";
import { until } from "../../testing/kits/scheduler-kit.ts";
import { type Script, scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import { testAppOpener } from "../../testing/kits/test-app-opener.ts";

/** The bounds of the OpenAI layer and of requests that wait. */

const openApp = testAppOpener();
const PATH = "/openai/v1/audio/transcriptions";

function open(openai: Partial<Config["openai"]> = {}, other: Parameters<typeof openApp>[0] = {}) {
  return openApp({ ...other, config: { ...other.config, openai: { enabled: true, ...openai } } });
}

type Options = { fields?: Record<string, string>; key?: string; signal?: AbortSignal };

function send(app: TestApp, script: Script, { fields = {}, key, signal }: Options = {}) {
  const form = new FormData();
  form.append("file", new File([scriptedAudio(script)], "a.wav"));
  for (const [name, value] of Object.entries({ language: "hi", ...fields })) form.append(name, value);
  const headers: Record<string, string> = key === undefined ? {} : { "idempotency-key": key };
  return app.as(app.key)(PATH, { method: "POST", body: form, headers, ...(signal ? { signal } : {}) });
}

const errorOf = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; param: string | null } };
  return [response.status, error.code, error.param];
};

const rows = ({ app, project }: TestApp) =>
  app.services.transcriptions.list(project_(project), { limit: 100 }).data;
const project_ = ({ id, organizationId }: TestApp["project"]) =>
  ({ projectId: id, organizationId }) as Parameters<TestApp["app"]["services"]["transcriptions"]["list"]>[0];

describe("the OpenAI layer", () => {
  test("does not exist unless it is enabled", async () => {
    const app = await openApp();
    const response = await send(app, { seconds: 1 });
    expect([response.status, ((await response.json()) as { error: object }).error]).toEqual([
      404,
      { code: "not_found", message: "The resource was not found." },
    ]);
    expect(
      Object.keys(((await (await app.fetch("/openapi.json")).json()) as { paths: object }).paths),
    ).not.toContain(PATH);
  });

  test.each<[string, Partial<Config["openai"]>, Script, Record<string, string>, (string | number)[]]>([
    [
      "a longer recording",
      { max_duration_seconds: 100 },
      { seconds: 101 },
      {},
      [413, "audio_too_long", "file"],
    ],
    ["a larger file", { max_bytes: 10 }, { seconds: 1 }, {}, [413, "audio_too_large", "file"]],
    ["too many channels", {}, { seconds: 90, channels: 3 }, {}, [400, "too_many_channels", "file"]],
    [
      "verbose streams",
      {},
      { seconds: 1 },
      { stream: "true", response_format: "srt" },
      [400, "invalid_request", "stream"],
    ],
    [
      "an unknown format",
      {},
      { seconds: 1 },
      { response_format: "yaml" },
      [400, "invalid_request", "response_format"],
    ],
    ["an unknown field", {}, { seconds: 1 }, { mode: "codemix" }, [400, "unknown_parameter", "mode"]],
    ["__proto__", {}, { seconds: 1 }, { __proto__x: "1" }, [400, "unknown_parameter", "__proto__x"]],
    ["constructor", {}, { seconds: 1 }, { constructor: "1" }, [400, "unknown_parameter", "constructor"]],
    ["no language", {}, { seconds: 1 }, { language: "" }, [400, "invalid_request", "language"]],
    [
      "a language that is to be found out, where no default is set",
      {},
      { seconds: 1 },
      { language: "auto" },
      [400, "capability_unavailable", "language"],
    ],
    [
      "the same where an admin lets nothing be ignored",
      { default_language: "hi", ignored_parameters: [] },
      { seconds: 1 },
      { language: "auto" },
      [400, "capability_unavailable", "language"],
    ],
    ["an unknown model", {}, { seconds: 1 }, { model: "gpt-5" }, [404, "model_not_found", "model"]],
    [
      "a usual name that the admin's list leaves out",
      { model_aliases: ["gpt-transcribe"] },
      { seconds: 1 },
      { model: "whisper-1" },
      [404, "model_not_found", "model"],
    ],
    [
      "a name whose model is not installed",
      { model_aliases: ["gpt-*=large"] },
      { seconds: 1 },
      { model: "gpt-5" },
      [404, "model_not_found", "model"],
    ],
    ["a list of models", {}, { seconds: 1 }, { "model[]": "demo" }, [400, "unknown_parameter", "model[]"]],
    [
      "a member that no parameter has",
      {},
      { seconds: 1 },
      { "prompt[text]": "x" },
      [400, "unknown_parameter", "prompt[text]"],
    ],
    ...Object.entries({
      prompt: "x",
      temperature: "0.2",
      include: "logprobs",
      "chunking_strategy[type]": "manual",
      "chunking_strategy[threshold]": "0.5",
    }).map(
      ([name, value]): [
        string,
        Partial<Config["openai"]>,
        Script,
        Record<string, string>,
        (string | number)[],
      ] => [
        `${name} where an admin lets nothing be ignored`,
        { ignored_parameters: [] },
        { seconds: 1 },
        { [name]: value },
        [400, "capability_unavailable", name.replace(/\[.*/, "")],
      ],
    ),
    [
      "a word for a number",
      { ignored_parameters: [] },
      { seconds: 1 },
      { temperature: "warm" },
      [400, "capability_unavailable", "temperature"],
    ],
  ])("refuses %s, and stores nothing", async (_, openai, script, fields, expected) => {
    const app = await open(openai);
    const before = fingerprint(app);
    expect(await errorOf(await send(app, script, { fields }))).toEqual(expected);
    expect(fingerprint(app)).toEqual(before);
  });

  test("refuses what cannot be paid, short or long, and stores nothing", async () => {
    const app = await open({}, { creditPaise: 0 });
    const before = fingerprint(app);
    for (const seconds of [2, 90]) {
      expect(await errorOf(await send(app, { seconds, text: "a" }))).toEqual([
        429,
        "insufficient_quota",
        null,
      ]);
    }
    expect(fingerprint(app)).toEqual(before);
  });

  test("says which setting helps, which names there are, and what is not worth repeating", async () => {
    const app = await open({ model_aliases: ["whisper-1", "gpt-*", "large*=none"] });
    const messageOf = async (fields: Record<string, string>) =>
      ((await (await send(app, { seconds: 1 }, { fields })).json()) as { error: { message: string } }).error
        .message;
    expect(await messageOf({ language: "" })).toContain("openai.default_language");
    expect(await messageOf({ language: "auto" })).toContain("openai.default_language");
    expect(await messageOf({ model: "x" })).toBe('There is no model "x"; there are demo, whisper-1, gpt-*.');
    const poor = await open({}, { creditPaise: 0 });
    const { headers } = await send(poor, { seconds: 1, text: "a" });
    expect([headers.get("x-should-retry"), headers.get("retry-after")]).toEqual(["false", "3600"]);
  });

  test("a project's default language goes before that of the config, and ends when it is taken back", async () => {
    const app = await open({ default_language: "en" });
    const languageOf = async (fields: Record<string, string>) => {
      const served = await send(app, { seconds: 2, text: "a" }, { fields: { language: "", ...fields } });
      expect(served.status).toBe(200);
      return app.app.services.transcriptions.find(served.headers.get("x-transcription-id") ?? "")?.language;
    };
    expect(await languageOf({})).toBe("en");
    app.accounts.setProject(app.project.id, { defaultLanguage: "hi" });
    expect(await languageOf({})).toBe("hi");
    expect(await languageOf({ language: "auto" })).toBe("hi");
    expect(await languageOf({ language: "en" })).toBe("en");
    app.accounts.setProject(app.project.id, { defaultLanguage: null });
    expect(await languageOf({})).toBe("en");
    expect(() => app.accounts.setProject(app.project.id, { defaultLanguage: "Hindi" })).toThrow(
      "code of two",
    );
  });

  test("ignores a member of a parameter under the name of the parameter or its own", async () => {
    for (const name of ["chunking_strategy", "chunking_strategy[threshold]"]) {
      const app = await open({ ignored_parameters: [name] });
      const fields = { "chunking_strategy[type]": "server_vad", "chunking_strategy[threshold]": "0.5" };
      const served = await send(app, { seconds: 2, text: "a" }, { fields });
      expect([served.status, served.headers.get("x-ignored-parameters")]).toEqual([200, "chunking_strategy"]);
    }
  });

  test("ignores a parameter whatever its value is, and no other fault beside it", async () => {
    const app = await open({ ignored_parameters: ["prompt", "known_speaker_references", "languages"] });
    const form = (extra: [string, string][]) => {
      const made = new FormData();
      made.append("prompt", "x".repeat(20_000));
      made.append("known_speaker_references[]", "data:audio/wav;base64,AAAA");
      made.append("known_speaker_references[]", "data:audio/wav;base64,BBBB");
      made.append("languages", "hi");
      made.append("language", "hi");
      made.append("file", new File([scriptedAudio({ seconds: 2, text: "a" })], "a.wav"));
      for (const [name, value] of extra) made.append(name, value);
      return app.as(app.key)(PATH, { method: "POST", body: made });
    };
    const served = await form([]);
    expect([served.status, served.headers.get("x-ignored-parameters")]).toEqual([
      200,
      "known_speaker_references, languages, prompt",
    ]);
    expect(await errorOf(await form([["language", "en"]]))).toEqual([400, "invalid_request", "language"]);
    expect(await errorOf(await form([["response_format", "j\uFFFD"]]))).toEqual([
      ...[400, "invalid_request", "response_format"],
    ]);
  });

  test("needs the scopes of the interface", async () => {
    const app = await open();
    const client = app.as(app.makeKey(app.project.id, ["models:read"]));
    expect((await client("/openai/v1/models")).status).toBe(200);
    const refused = await client(PATH, { method: "POST", body: new FormData() });
    expect(await errorOf(refused)).toEqual([403, "forbidden", "transcriptions:write"]);
  });

  test("answers a repeated key with the first transcription, short and long, and charges once", async () => {
    const app = await open();
    for (const seconds of [2, 90]) {
      const script = { seconds, text: "नमस्ते" };
      const [one, two] = await Promise.all([
        send(app, script, { key: `k${seconds}` }),
        send(app, script, { key: `k${seconds}`, fields: { response_format: "text" } }),
      ]);
      expect(one.headers.get("x-transcription-id")).toBe(two.headers.get("x-transcription-id") ?? "");
      const other = await send(app, { seconds, text: "और" }, { key: `k${seconds}` });
      expect(await errorOf(other)).toEqual([409, "idempotency_conflict", "Idempotency-Key"]);
    }
    expect(
      (await apiClient(app.as(app.key)).usage()).data.map(({ billed_seconds }) => billed_seconds),
    ).toEqual([90, 2]);
  });

  test("cancels a long recording at its time limit, and charges nothing", async () => {
    const app = await open({ timeout_seconds: 1 });
    app.engine.hold();
    const response = await send(app, { seconds: 90, text: "a" });
    expect(response.headers.get("x-should-retry")).toBe("false");
    expect(await errorOf(response)).toEqual([504, "timeout", null]);
    const usage = await apiClient(app.as(app.key)).usage();
    expect(usage.data[0]).toMatchObject({ state: "cancelled", amount_paise: 0 });
    expect(usage.credit.reserved_paise).toBe(0);
  });

  test.each([
    ["without a key: its work is cancelled", undefined, "cancelled"],
    ["with a key: its work continues", "k", "completed"],
  ])("a client leaves a stream %s", async (_, key, state) => {
    const app = await open({}, { listens: true });
    const release = app.engine.hold();
    const form = new FormData();
    form.append("file", new File([scriptedAudio({ seconds: 90, text: "a" })], "a.wav"));
    for (const [name, value] of Object.entries({ language: "hi", stream: "true" })) form.append(name, value);
    const leaving = new AbortController();
    const response = await fetch(`${app.baseUrl()}${PATH}`, {
      ...{ method: "POST", body: form, signal: leaving.signal },
      headers: {
        authorization: `Bearer ${app.key}`,
        ...(key === undefined ? {} : { "idempotency-key": key }),
      },
    });
    expect([response.status, response.headers.get("content-type")]).toEqual([
      200,
      "text/event-stream; charset=utf-8",
    ]);
    const find = () => app.app.services.transcriptions.find(response.headers.get("x-transcription-id") ?? "");
    expect(find()?.submission).toBe("asynchronous");
    leaving.abort();
    if (key === undefined) await until("it is cancelled", () => find()?.state === "cancelled");
    else await Bun.sleep(200);
    release();
    await until(`it is ${state}`, () => find()?.state === state);
  });

  test("a stream that runs when the server stops ends with its error, and is not charged", async () => {
    const app = await open({}, { listens: true, config: { server: { drain_seconds: 0 } } });
    app.engine.hold();
    const form = new FormData();
    form.append("file", new File([scriptedAudio({ seconds: 90, text: "a" })], "a.wav"));
    for (const [name, value] of Object.entries({ language: "hi", stream: "true" })) form.append(name, value);
    const response = await fetch(`${app.baseUrl()}${PATH}`, {
      ...{ method: "POST", body: form, headers: { authorization: `Bearer ${app.key}` } },
    });
    const id = response.headers.get("x-transcription-id") ?? "";
    await until("it runs", () => app.app.services.transcriptions.find(id)?.state === "transcribing");
    await app.app.drain();
    expect(await response.text()).toMatch(/^event: error\ndata: .*"capacity_unavailable"/m);
    expect(app.app.services.transcriptions.find(id)).toMatchObject({ state: "cancelled", reservedPaise: 75 });
    expect(app.app.services.credit.show(app.organization.id)).toMatchObject({
      reservedPaise: 0,
    });
  });

  test("names a partial result, and what has no text", async () => {
    const app = await open({}, { config: { engine: { chunk_attempts: 1 } } });
    app.engine.interfere({
      chunk: async ({ startMs }) => {
        if (startMs === 5_000) throw new EngineError("failed", "as scripted");
        return `${startMs}`;
      },
    });
    const response = await send(app, { seconds: 15, text: "a" });
    expect(response.headers.get("x-transcription-state")).toBe("partial");
    expect(await response.json()).toMatchObject({ text: "0 10000" });
  });

  test("requests wait for a place, the first to come first, and then get 503", async () => {
    const app = await open({ wait_seconds: 1 });
    const release = app.engine.hold();
    const first = send(app, { seconds: 2, text: "a" });
    await until("it is accepted", () => rows(app).length === 1);
    const late = await send(app, { seconds: 2, text: "b" });
    expect(Number(late.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await errorOf(late)).toEqual([503, "capacity_unavailable", null]);
    const second = send(app, { seconds: 2, text: "c" });
    await Bun.sleep(100);
    release();
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
  });
});

test("limits.synchronous_wait_seconds lets requests of the interface wait; without it they get 503 at once", async () => {
  for (const synchronous_wait_seconds of [0, 5]) {
    const app = await openApp({ config: { limits: { synchronous_wait_seconds } } });
    const release = app.engine.hold();
    const request = (text: string) => {
      const form = new FormData();
      form.append("file", new File([scriptedAudio({ seconds: 2, text })], "a.wav"));
      form.append("language", "hi");
      return app.as(app.key)("/v1/audio/transcriptions", { method: "POST", body: form });
    };
    const first = request("a");
    await until("it is accepted", () => rows(app).length === 1);
    const others = Promise.all(["b", "c", "d"].map(request));
    if (synchronous_wait_seconds > 0) await Bun.sleep(100).then(release);
    const statuses = (await others).map(({ status }) => status);
    expect(statuses).toEqual(synchronous_wait_seconds > 0 ? [200, 200, 200] : [503, 503, 503]);
    release();
    expect((await first).status).toBe(200);
  }
});
