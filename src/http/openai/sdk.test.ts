import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI, { APIError, toFile } from "openai";
import { apiClient } from "../../testing/answers/api-client.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";

/** OpenAI's own client against the OpenAI layer. */

let testApp: TestApp;
let openai: OpenAI;
beforeAll(async () => {
  testApp = await openTestApp({
    listens: true,
    config: { openai: { enabled: true, default_language: "hi" } },
  });
  openai = new OpenAI({ apiKey: testApp.key, baseURL: `${testApp.baseUrl()}/openai/v1`, maxRetries: 0 });
});
afterAll(() => testApp.close());

const TEXT = "नमस्ते दुनिया";
const audio = (seconds = 2) => toFile(scriptedAudio({ seconds, text: TEXT }), "hello.wav");
const model = "whisper-1";

describe("the official OpenAI SDK against /openai/v1", () => {
  test("receives text without naming a language", async () => {
    const { text, usage } = await openai.audio.transcriptions.create({ file: await audio(), model });
    expect(text).toBe(TEXT);
    expect(usage).toEqual({ type: "duration", seconds: 2 });
  });

  test("receives every field of verbose_json", async () => {
    const verbose = await openai.audio.transcriptions.create({
      ...{ file: await audio(), model, language: "hi-IN", response_format: "verbose_json", temperature: 0 },
      timestamp_granularities: ["segment"],
    });
    expect(verbose).toMatchObject({
      task: "transcribe",
      language: "hindi",
      duration: 2,
      text: TEXT,
    } as object);
    expect(verbose.segments).toEqual([
      {
        ...{
          id: 0,
          seek: 0,
          start: 0,
          end: 2,
          text: ` ${TEXT}`,
          tokens: [],
          temperature: 0,
          no_speech_prob: 0,
        },
        avg_logprob: -0.105,
        compression_ratio: expect.any(Number),
      },
    ]);
  });

  test("receives what each speaker says as diarized_json", async () => {
    const talk = { seconds: 3, text: "नमस्ते आप कैसे हैं मैं ठीक हूँ", speakers: [4, 2] };
    const file = await toFile(scriptedAudio(talk), "talk.wav");
    const format = { response_format: "diarized_json", chunking_strategy: "auto" } as const;
    const diarized = await openai.audio.transcriptions.create({ file, model, ...format });
    const { text, segments } = diarized as unknown as OpenAI.Audio.TranscriptionDiarized;
    expect(diarized).toMatchObject({
      task: "transcribe",
      duration: 3,
      usage: { type: "duration", seconds: 3 },
    } as object);
    expect(segments.map(({ id, type, speaker, start, end }) => [id, type, speaker, start, end])).toEqual([
      ["seg_0", "transcript.text.segment", "A", 0, 1.5],
      ["seg_1", "transcript.text.segment", "B", 1.5, 3],
    ]);
    expect(segments.map((segment) => segment.text).join(" ")).toBe(text);
    const { data: events } = await apiClient(testApp.as(testApp.key)).usage();
    expect(events[0]).toMatchObject({ billed_seconds: 3, channels: 1 });
    const streamed = openai.audio.transcriptions.create({ file, model, ...format, stream: true });
    expect(await refusalOf(streamed)).toMatchObject({ status: 400, param: "stream" });
  });

  test.each([
    ["text", `${TEXT}\n`],
    ["srt", `1\n00:00:00,000 --> 00:00:02,000\n${TEXT}\n`],
    ["vtt", `WEBVTT\n\n00:00:00.000 --> 00:00:02.000\n${TEXT}\n`],
  ] as const)("receives %s", async (response_format, expected) => {
    const answer = await openai.audio.transcriptions.create({ file: await audio(), model, response_format });
    expect(answer as unknown as string).toBe(expected);
  });

  test("sends a recording that is longer than the synchronous limit through the queue", async () => {
    const { data, response } = await openai.audio.transcriptions
      .create({ file: await audio(90), model })
      .withResponse();
    // The scripted engine has the text in each chunk of 5 s.
    expect(data.text.split(TEXT)).toHaveLength(19);
    const id = response.headers.get("x-transcription-id") ?? "";
    const row = testApp.app.services.transcriptions.find(id);
    expect(row).toMatchObject({ submission: "asynchronous", state: "completed", durationMs: 90_000 });
    const { data: events } = await apiClient(testApp.as(testApp.key)).usage();
    expect(events[0]).toMatchObject({ transcription_id: id, billed_seconds: 90 });
  });

  test("streams text while chunks are still recognized", async () => {
    const held = Promise.withResolvers<void>();
    testApp.engine.interfere({
      chunk: async ({ startMs }) => {
        if (startMs >= 60_000) await held.promise;
        return `${startMs / 1000}`;
      },
    });
    const events: string[] = [];
    let text = "";
    const stream = await openai.audio.transcriptions.create({ file: await audio(90), model, stream: true });
    for await (const event of stream) {
      events.push(event.type);
      if (event.type === "transcript.text.delta") {
        text += event.delta;
        // The first twelve chunks came while the others were held.
        if (text.endsWith(" 55")) held.resolve();
      }
      if (event.type === "transcript.text.done") expect(event.text).toBe(text);
    }
    testApp.engine.interfere({});
    expect(text).toBe(Array.from({ length: 18 }, (_, n) => n * 5).join(" "));
    expect(events.filter((type) => type === "transcript.text.delta").length).toBeGreaterThan(2);
    expect(events.at(-1)).toBe("transcript.text.done");
  });

  test("serves names and preferences of OpenAI's that mean nothing here, and names what it ignores", async () => {
    const preferences = { prompt: "Shruti", temperature: 0.2, include: ["logprobs" as const] };
    const chunking_strategy = { type: "server_vad" as const, threshold: 0.4 };
    for (const [name, fields, ignored] of [
      ["whisper-1", preferences, "include, prompt, temperature"],
      ["gpt-4o-mini-transcribe-2025-12-15", { chunking_strategy }, "chunking_strategy"],
      ["gpt-transcribe", { chunking_strategy: { type: "server_vad" as const } }, null],
      ["gpt-transcribe", { keywords: ["Shruti", "दिल्ली"] }, "keywords"],
      ["gpt-4o-transcribe", { language: "auto" }, "language"],
    ] as const) {
      const { data, response } = await openai.audio.transcriptions
        .create({ file: await audio(), model: name, ...(fields as object) })
        .withResponse();
      expect([name, data.text, response.headers.get("x-ignored-parameters")]).toEqual([name, TEXT, ignored]);
      expect((await openai.models.retrieve(name)).id).toBe(name);
    }
  });

  test("throws a stream's error, and nothing is charged", async () => {
    const file = await toFile(scriptedAudio({ seconds: 2, text: TEXT, trouble: "refuse" }), "hello.wav");
    const { data: before } = await apiClient(testApp.as(testApp.key)).usage();
    const stream = await openai.audio.transcriptions.create({ file, model, stream: true });
    const read = async () => {
      for await (const _ of stream) expect.unreachable();
    };
    expect(await refusalOf(read())).toMatchObject({
      code: "audio_decode_failed",
      type: "invalid_request_error",
    });
    const { data } = await apiClient(testApp.as(testApp.key)).usage();
    expect(data.length).toBe(before.length + 1);
    expect(data[0]).toMatchObject({ state: "failed", amount_paise: 0 });
  });

  test("lists models and gets one", async () => {
    const ids = (await openai.models.list()).data.map(({ id }) => id);
    expect(ids).toEqual(["demo", "whisper-1"]);
    expect(await openai.models.retrieve("whisper-1")).toMatchObject({ id: "whisper-1", object: "model" });
    expect(await refusalOf(openai.models.retrieve("gpt-5"))).toMatchObject({
      ...{ status: 404, code: "model_not_found", param: "model", type: "invalid_request_error" },
    });
  });

  test("throws errors with OpenAI's type, param and code", async () => {
    const create = async (fields: object) =>
      refusalOf(openai.audio.transcriptions.create({ file: await audio(), model, ...fields }));
    const invalid = { status: 400, type: "invalid_request_error" };
    expect(await create({ language: "tlh" })).toMatchObject({ ...invalid, code: "unsupported_language" });
    expect(await create({ timestamp_granularities: ["word"] })).toMatchObject({
      ...{ ...invalid, code: "capability_unavailable", param: "timestamp_granularities" },
    });
    expect(await create({ model: "gpt-5" })).toMatchObject({ status: 404, code: "model_not_found" });
    expect(await create({ file: await toFile(new Uint8Array(9), "x.wav") })).toMatchObject({
      ...{ ...invalid, code: "audio_decode_failed", param: "file" },
    });
    expect(await refusalOf(openai.audio.translations.create({ file: await audio(), model }))).toMatchObject({
      ...{ ...invalid, code: "capability_unavailable" },
    });
    const stranger = new OpenAI({ apiKey: "shr_wrong", baseURL: openai.baseURL, maxRetries: 0 });
    expect(await refusalOf(stranger.models.list())).toMatchObject({ status: 401, code: "invalid_api_key" });
    expect((await create({ language: "tlh" })).requestID).toMatch(/^req_/);
  });
});

type SdkError = InstanceType<typeof APIError>;

async function refusalOf(request: Promise<unknown>): Promise<SdkError> {
  try {
    await request;
  } catch (error) {
    if (error instanceof APIError) return error;
    throw error;
  }
  throw new Error("the request was not refused");
}
