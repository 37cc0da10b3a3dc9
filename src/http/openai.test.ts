import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI, { APIError, toFile } from "openai";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";

let testApp: TestApp;
let openai: OpenAI;
beforeAll(async () => {
  testApp = await openTestApp({ listens: true });
  openai = new OpenAI({ apiKey: testApp.key, baseURL: `${testApp.baseUrl()}/v1`, maxRetries: 0 });
});
afterAll(() => testApp.close());

const audio = () => toFile(scriptedAudio({ seconds: 2, text: "नमस्ते दुनिया" }), "hello.wav");

describe("the official OpenAI SDK", () => {
  test("returns the text", async () => {
    const transcription = await openai.audio.transcriptions.create({
      file: await audio(),
      model: "demo",
      language: "hi",
    });
    expect(transcription.text).toBe("नमस्ते दुनिया");
  });

  test("sends a file whose length it does not know", async () => {
    const stream = new Blob([scriptedAudio({ seconds: 2, text: "नमस्ते" })]).stream();
    const transcription = await openai.audio.transcriptions.create({
      file: await toFile(new Response(stream), "hello.bin"),
      model: "demo",
      language: "hi",
    });
    expect(transcription.text).toBe("नमस्ते");
  });

  test("throws errors with code and request id", async () => {
    const error = await refusalOf(
      openai.audio.transcriptions.create({ file: await audio(), model: "demo", language: "auto" }),
    );
    expect(error).toMatchObject({ status: 422, code: "capability_unavailable" });
    expect(error.requestID).toMatch(/^req_/);
    expect(error.message).toContain("not available yet");
  });

  test("receives the error that a parameter does not exist", async () => {
    const error = await refusalOf(
      openai.audio.transcriptions.create({
        file: await audio(),
        model: "demo",
        language: "hi",
        temperature: 0.2,
      }),
    );
    expect(error).toMatchObject({ status: 422, code: "unknown_parameter" });
    expect(error.message).toContain("temperature");
  });

  test.each([
    ["whose layer is enabled", true, "/openai/v1, not /v1"],
    ["whose layer is not enabled", false, "once openai.enabled is set"],
  ])(
    "receives the address of OpenAI's layer from a server %s, if its request has a mark of OpenAI's client",
    async (_, enabled, remedy) => {
      const app = await openTestApp({ listens: true, config: { openai: { enabled } } });
      try {
        const stranger = new OpenAI({ apiKey: app.key, baseURL: `${app.baseUrl()}/v1`, maxRetries: 0 });
        const create = async (fields: object) =>
          refusalOf(stranger.audio.transcriptions.create({ file: await audio(), model: "demo", ...fields }));
        for (const [fields, param] of [
          [{}, "language"],
          [{ language: "hi", model: "whisper-1" }, "model"],
          [{ language: "hi", response_format: "verbose_json" }, "response_format"],
          [{ timestamp_granularities: ["word"], language: "hi" }, "timestamp_granularities[]"],
        ] as const) {
          const error = await create(fields);
          expect([
            error.status,
            error.message.includes(remedy),
            (error.error as { detail: string }).detail,
          ]).toEqual([422, true, param]);
        }
        for (const fields of [{ language: "auto" }, { language: "tlh" }, { language: "" }]) {
          expect((await create(fields)).message).not.toContain("OpenAI");
        }
      } finally {
        await app.close();
      }
    },
  );

  test("throws on a wrong key", async () => {
    const stranger = new OpenAI({ apiKey: "shr_wrong", baseURL: `${testApp.baseUrl()}/v1`, maxRetries: 0 });
    const error = await refusalOf(
      stranger.audio.transcriptions.create({ file: await audio(), model: "demo", language: "hi" }),
    );
    expect(error).toMatchObject({ status: 401, code: "unauthorized" });
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
