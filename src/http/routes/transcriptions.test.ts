import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ApiClient, apiClient } from "../../testing/answers/api-client.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { type Script, scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import type { TranscriptionCreate } from "../wire/schemas.ts";

const HINDI: Script = { seconds: 3, text: "नमस्ते दुनिया" };
let testApp: TestApp;
let client: ApiClient;
beforeAll(async () => {
  testApp = await openTestApp();
  client = apiClient(testApp.as(testApp.key));
});
afterAll(() => testApp.close());

async function start(script: Script, more: Partial<TranscriptionCreate> = {}) {
  const { id } = await client.upload(scriptedAudio(script));
  return client.start({ audio: { upload_id: id }, language: "hi", ...more });
}

async function finished(script: Script, more: Partial<TranscriptionCreate> = {}) {
  return client.finished((await start(script, more)).body.id);
}

describe("a transcription", () => {
  test("goes from 202 to a result at its address", async () => {
    const release = testApp.engine.hold();
    const { status, body } = await start(HINDI);
    expect(status).toBe(202);
    expect(body).toEqual({
      id: expect.stringMatching(/^tr_[0-9A-HJKMNP-TV-Z]{26}$/),
      object: "transcription",
      model: "demo",
      version: expect.any(String),
      state: expect.stringMatching(/^(queued|preparing|transcribing)$/),
      request: {
        language: "hi",
        mode: "native",
        timestamps: "segment",
        diarization: false,
        channel_mode: "mix",
      },
      created_at: "2026-11-21T04:05:06.789Z",
      finished_at: null,
      duration_seconds: 3,
      progress: 0,
      ...(body.state === "queued" ? { queue_position: 0 } : {}),
    });
    release();
    const done = await client.finished(body.id);
    expect(done).toMatchObject({ state: "completed", progress: 1, finished_at: expect.any(String) });
    expect(done.result_url).toBe(`${testApp.baseUrl()}/v1/transcriptions/${body.id}/result`);
    expect(await client.result(body.id)).toEqual({
      id: body.id,
      object: "transcription.result",
      model: "demo",
      version: done.version,
      status: "completed",
      mode: "native",
      duration_seconds: 3,
      channels: 1,
      languages: ["hi"],
      text: "नमस्ते दुनिया",
      segments: [{ index: 0, start: 0, end: 3, text: "नमस्ते दुनिया", language: "hi", confidence: 0.9 }],
      warnings: [],
    });
  });

  test("without timestamps has segments without times", async () => {
    const { id } = await finished(HINDI, { timestamps: "none" });
    const [segment] = (await client.result(id)).segments;
    expect(Object.keys(segment ?? {}).sort()).toEqual(["confidence", "index", "language", "text"]);
  });

  test("of separate channels is billed for each, and names the channel of each segment", async () => {
    const before = await client.usage();
    const { id, request } = await finished({ ...HINDI, channels: 2 }, { channel_mode: "separate" });
    expect(request.channel_mode).toBe("separate");
    const result = await client.result(id);
    expect(result.segments.map(({ channel }) => channel)).toEqual([0, 1]);
    expect(result.channels).toBe(2);
    const after = await client.usage();
    expect(after.data[0]).toMatchObject({
      channels: 2,
      audio_seconds: 3,
      billed_seconds: 6,
      amount_paise: 5,
    });
    expect(before.credit.balance_paise - after.credit.balance_paise).toBe(5);
  });

  test("of silence is completed and empty, with a warning", async () => {
    const { id, state } = await finished({ seconds: 3 });
    expect(state).toBe("completed");
    expect(await client.result(id)).toMatchObject({
      text: "",
      segments: [],
      languages: [],
      warnings: ["no_speech"],
    });
  });

  test("that cannot be decoded fails with a reason, and is free", async () => {
    const before = await client.usage();
    const failed = await finished({ ...HINDI, trouble: "crash" });
    expect(failed).toMatchObject({ state: "failed", error: { code: "transcription_failed" } });
    expect(failed.result_url).toBeUndefined();
    const after = await client.usage();
    expect(after.credit).toEqual(before.credit);
    expect(after.data[0]).toMatchObject({ state: "failed", amount_paise: 0, billed_seconds: 0 });
  });

  test("can be cancelled once, and a finished one does not change", async () => {
    const release = testApp.engine.hold();
    const before = await client.usage();
    const { body } = await start(HINDI);
    expect((await client.usage()).credit.reserved_paise).toBe(3);
    const cancelled = await client.cancel(body.id);
    expect(cancelled).toMatchObject({ state: "cancelled", finished_at: expect.any(String) });
    expect(await client.cancel(body.id)).toEqual(cancelled);
    release();
    expect((await client.usage()).credit).toEqual(before.credit);
    const done = await finished(HINDI);
    expect(await client.cancel(done.id)).toEqual(done);
    const withEmptyObject = await client.call("POST", `/v1/transcriptions/${done.id}/cancel`, {});
    expect(withEmptyObject.body).toEqual(done);
  });
});

describe("a result by Accept", () => {
  const FORMATS: [accept: string, type: string, content: string][] = [
    ["text/vtt", "text/vtt; charset=utf-8", "WEBVTT\n"],
    ["application/x-subrip", "application/x-subrip; charset=utf-8", "1\n00:00:00,000 --> 00:00:03,000\n"],
    ["text/plain", "text/plain; charset=utf-8", "नमस्ते दुनिया\n"],
    ["text/plain;q=0.5, text/vtt", "text/vtt; charset=utf-8", "WEBVTT\n"],
    ["*/*", "application/json", '{"id":"tr_'],
    ["text/html", "application/json", '{"id":"tr_'],
  ];
  test.each(FORMATS)("%s", async (accept, type, content) => {
    const { id } = await finished(HINDI);
    const response = await client.send(`/v1/transcriptions/${id}/result`, { headers: { accept } });
    expect(response.headers.get("content-type")?.toLowerCase()).toStartWith(type);
    expect(response.headers.get("vary")).toContain("Accept");
    expect(await response.text()).toStartWith(content);
  });
});

describe("GET /v1/models", () => {
  test("lists what clients can request", async () => {
    const { body } = await client.call<{ data: object[] }>("GET", "/v1/models");
    expect(body).toMatchObject({
      object: "list",
      data: [
        {
          id: "demo",
          object: "model",
          default: true,
          capabilities: {
            "timestamps.word": "coming_soon",
            "language.auto": "coming_soon",
            diarization: "available",
          },
          diarization: { method: "acoustic" },
          limits: { synchronous: { max_bytes: 26_214_400, max_duration_seconds: 60, timeout_seconds: 120 } },
          price_paise_per_audio_hour: 3000,
        },
      ],
    });
  });
});
