import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI, { APIError, toFile } from "openai";
import { fingerprint } from "../../testing/answers/scenarios.ts";
import { openTestApp, type TestApp, type TestAppOptions } from "../../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";

/** Word times of the OpenAI layer, by OpenAI's own client. */

const TEXT = "नमस्ते दुनिया।";
const WORDS = [
  { word: "नमस्ते", start: 0, end: 1 },
  { word: "दुनिया।", start: 1, end: 2 },
];

type Fields = Partial<OpenAI.Audio.TranscriptionCreateParamsNonStreaming>;

/** Opens a program whose model can time words, with word times switched on, unless other options are given. */
async function open({ config, ...options }: TestAppOptions = {}) {
  const testApp = await openTestApp({
    ...{ listens: true, canTimeWords: true, ...options },
    config: {
      capabilities: { word_timestamps: true },
      ...config,
      openai: { enabled: true, default_language: "hi", ...config?.openai },
    },
  });
  const openai = new OpenAI({
    apiKey: testApp.key,
    baseURL: `${testApp.baseUrl()}/openai/v1`,
    maxRetries: 0,
  });
  const create = async (fields: Fields) =>
    openai.audio.transcriptions
      .create({
        file: await toFile(scriptedAudio({ seconds: 2, text: TEXT }), "hello.wav"),
        model: "whisper-1",
        ...fields,
      } as OpenAI.Audio.TranscriptionCreateParamsNonStreaming)
      .withResponse();
  return { testApp, create };
}

const WITH_WORDS: Fields = { response_format: "verbose_json", timestamp_granularities: ["word"] };

describe("with word times", () => {
  let testApp: TestApp;
  let create: Awaited<ReturnType<typeof open>>["create"];
  beforeAll(async () => {
    ({ testApp, create } = await open());
  });
  afterAll(() => testApp.close());

  test.each<[Fields["timestamp_granularities"], boolean, boolean]>([
    [["word"], true, false],
    [["word", "segment"], true, true],
    [["segment"], false, true],
    [undefined, false, true],
  ])("timestamp_granularities %j: words %p, segments %p", async (granularities, hasWords, hasSegments) => {
    const fields = granularities ? { timestamp_granularities: granularities } : {};
    const { data } = await create({ response_format: "verbose_json", ...fields });
    const verbose = data as unknown as OpenAI.Audio.TranscriptionVerbose;
    expect(verbose.text).toBe(TEXT);
    expect(verbose.words).toEqual(hasWords ? WORDS : (undefined as never));
    expect(verbose.segments?.length).toBe(hasSegments ? 1 : (undefined as never));
  });

  test.each<[string, Fields]>([
    ["json", { response_format: "json" }],
    ["srt", { response_format: "srt" }],
    ["diarized_json", { response_format: "diarized_json" }],
  ])("%s has no words: refused, and nothing is stored", async (_, fields) => {
    const before = fingerprint(testApp);
    expect(await refusalOf(create({ ...WITH_WORDS, ...fields }))).toMatchObject({
      ...{ status: 400, code: "invalid_request", param: "timestamp_granularities" },
    });
    expect(fingerprint(testApp)).toEqual(before);
  });

  test("another granularity is refused", async () => {
    const granularities = ["letter"] as unknown as ["word"];
    expect(await refusalOf(create({ ...WITH_WORDS, timestamp_granularities: granularities }))).toMatchObject({
      status: 400,
      code: "capability_unavailable",
      param: "timestamp_granularities",
      message: expect.stringContaining("must be segment, or word where the model can time words"),
    });
  });
});

test.each<[string, TestAppOptions]>([
  ["switched off", { config: { capabilities: { word_timestamps: false } } }],
  ["a model that cannot time words", { canTimeWords: false }],
])("without word times (%s): refused, or ignored where an admin allows that", async (_, options) => {
  const strict = await open(options);
  expect(await refusalOf(strict.create(WITH_WORDS))).toMatchObject({
    ...{ status: 400, code: "capability_unavailable", param: "timestamp_granularities" },
  });
  await strict.testApp.close();
  const openai = { ignored_parameters: ["timestamp_granularities"] };
  const lenient = await open({ ...options, config: { ...options.config, openai } });
  const { data, response } = await lenient.create(WITH_WORDS);
  expect(data.text).toBe(TEXT);
  expect(data).not.toHaveProperty("words");
  expect(response.headers.get("x-ignored-parameters")).toBe("timestamp_granularities");
  await lenient.testApp.close();
});

async function refusalOf(request: Promise<unknown>): Promise<InstanceType<typeof APIError>> {
  try {
    await request;
  } catch (error) {
    if (error instanceof APIError) return error;
    throw error;
  }
  throw new Error("The request was not refused.");
}
