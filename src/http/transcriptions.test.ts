import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ApiClient, apiClient } from "../testing/api-client.ts";
import { openTestApp, type TestApp } from "../testing/open-test-app.ts";
import { scriptedAudio } from "../testing/scripted-engine.ts";

let testApp: TestApp;
let client: ApiClient;
beforeAll(async () => {
  testApp = await openTestApp();
  client = apiClient(testApp.as(testApp.key));
});
afterAll(() => testApp.close());

describe("transcriptions", () => {
  test("run from upload to result", async () => {
    const upload = await client.upload(scriptedAudio({ seconds: 3, text: "नमस्ते दुनिया" }));
    expect(upload).toMatchObject({ state: "complete", duration_seconds: 3, channels: 1 });
    const { status, body } = await client.start({ audio: { upload_id: upload.id }, language: "hi" });
    expect(status).toBe(202);
    expect(body.request).toEqual({
      language: "hi",
      mode: "native",
      timestamps: "segment",
      diarization: false,
      channel_mode: "mix",
    });
    const finished = await client.finished(body.id);
    expect(finished.state).toBe("completed");
    const result = await client.result(body.id);
    expect(result.text).toBe("नमस्ते दुनिया");
    const sync = await client.transcribe(scriptedAudio({ seconds: 3, text: "नमस्ते दुनिया" }), {
      language: "hi",
    });
    expect(sync.text).toBe("नमस्ते दुनिया");
  });
});
