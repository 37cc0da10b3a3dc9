import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import OpenAI, { toFile } from "openai";
import { ROOT } from "../testing/rules/documents.ts";
import { type Installation, install, type RunningServer } from "./kit.ts";

/** The executable and OpenAI's own client. */

let installation: Installation;
let server: RunningServer;
let openai: OpenAI;
beforeAll(async () => {
  installation = await install({
    environment: {
      SHRUTI_OPENAI_ENABLED: "true",
      SHRUTI_OPENAI_DEFAULT_LANGUAGE: "en",
      SHRUTI_OPENAI_MODEL_ALIASES: "whisper-1",
      // The sample is longer than this, and takes the way of long recordings.
      SHRUTI_LIMITS_SYNCHRONOUS_MAX_DURATION_SECONDS: "10",
      // Chunks are recognized one after the other. Chunks that share their steps end together, and give one part of text.
      SHRUTI_ENGINE_WORKERS: "1",
      SHRUTI_ENGINE_PRECISION: "exact",
    },
  });
  server = await (await installation.serve()).ready();
  openai = new OpenAI({ apiKey: installation.key, baseURL: `${server.baseUrl}/openai/v1`, maxRetries: 0 });
}, 120_000);
afterAll(() => installation.remove());

const model = "whisper-1";
const sample = (name: string) => toFile(Bun.file(join(ROOT, "models/samples", name)), name);

describe("the executable and the official SDK", () => {
  test("a short recording, in its language's other name", async () => {
    const { text } = await openai.audio.transcriptions.create({
      ...{ file: await sample("02-hi.wav"), model, language: "hi-IN" },
    });
    expect(text).toContain("अभी दस बजे और दस मिनट हैं");
  });

  test("a long recording streams several parts of its text before the whole", async () => {
    const file = await sample("12-en-long.flac");
    const whole = await openai.audio.transcriptions.create({ file, model });
    const stream = await openai.audio.transcriptions.create({ file, model, stream: true });
    const types: string[] = [];
    let text = "";
    for await (const event of stream) {
      types.push(event.type);
      if (event.type === "transcript.text.delta") text += event.delta;
      if (event.type === "transcript.text.done") expect(event.text).toBe(whole.text);
    }
    expect(text).toBe(whole.text);
    expect(types.at(-1)).toBe("transcript.text.done");
    expect(types.length).toBeGreaterThan(2);
    expect(text).toContain("the delivery is on thursday at eleven pm");
  }, 120_000);

  test("the log has a line for each request, without its words", async () => {
    const lines = server
      .log()
      .split("\n")
      .filter((line) => line.includes("/openai/v1/audio/transcriptions"));
    expect(lines.length).toBe(3);
    expect(server.log()).not.toContain("thursday");
    expect(await server.stop()).toBe(0);
  });
});
