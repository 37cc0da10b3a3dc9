import { describe, expect, test } from "bun:test";
import type { Model } from "../../http/wire/schemas.ts";
import { type Choices, fitted, languagesOf, modelFor, modesOf, priceOf, requestOf } from "./choices.ts";

const model = (id: string, languages: Model["languages"], more: Partial<Model> = {}): Model => ({
  ...{ id, object: "model", name: id, version: "1", default: false, default_languages: [], languages },
  modes: ["native"],
  capabilities: {
    ...{ "mode.native": "available", "mode.codemix": "available", "mode.verbatim": "available" },
    ...{
      "timestamps.segment": "available",
      "timestamps.word": "coming_soon",
      "language.auto": "coming_soon",
    },
    ...{ diarization: "available", "channel_mode.separate": "available" },
  },
  diarization: { method: "acoustic" },
  limits: {
    synchronous: { max_bytes: 1, max_duration_seconds: 1, timeout_seconds: 1 },
    asynchronous: { max_bytes: 1, max_duration_seconds: 1, max_channels: 2 },
  },
  price_paise_per_audio_hour: 3000,
  ...more,
});
const hindi = { code: "hi", name: "Hindi", modes: ["native", "codemix"] as Choices["mode"][] };
const tamil = { code: "ta", name: "Tamil", modes: ["native"] as Choices["mode"][] };
const MODELS = [
  model("whisper", [hindi, tamil], { default: true }),
  model("ctc", [tamil], { default_languages: ["ta"] }),
];
const CHOICES: Choices = {
  ...{
    language: "hi",
    mode: "codemix",
    model: undefined,
    isDiarized: true,
    speakers: 2,
    channelMode: "separate",
  },
};

describe("choices", () => {
  test("name the model that the server will take", () => {
    expect(modelFor(MODELS, CHOICES)?.id).toBe("whisper");
    expect(modelFor(MODELS, { ...CHOICES, language: "ta" })?.id).toBe("ctc");
    expect(modelFor(MODELS, { ...CHOICES, language: "ta", model: "whisper" })?.id).toBe("whisper");
  });

  test("are changed to what that model offers", () => {
    expect(languagesOf(MODELS, undefined).map(({ code }) => code)).toEqual(["hi", "ta"]);
    expect(fitted(MODELS, { ...CHOICES, language: "ta" }).mode).toBe("native");
    expect(fitted(MODELS, { ...CHOICES, model: "ctc" }).language).toBe("ta");
    const poor = model("poor", [hindi], { default: true });
    poor.capabilities = {
      ...poor.capabilities,
      diarization: "coming_soon",
      "channel_mode.separate": "coming_soon",
    };
    expect(fitted([poor], CHOICES)).toMatchObject({ isDiarized: false, channelMode: "mix" });
    expect(modesOf(undefined, "hi")).toEqual([]);
  });

  test("become the request that starts the work", () => {
    expect(requestOf("up_1", CHOICES)).toEqual({
      ...{ audio: { upload_id: "up_1" }, language: "hi", mode: "codemix", channel_mode: "separate" },
      diarization: { speakers: 2 },
    });
    expect(requestOf("up_1", { ...CHOICES, isDiarized: false, model: "ctc" })).toMatchObject({
      ...{ diarization: false, model: "ctc" },
    });
  });

  test("ask for words with times where the model has them", () => {
    const [first, ...others] = MODELS;
    if (!first) throw new Error("no model");
    const timed = {
      ...first,
      capabilities: { ...first.capabilities, "timestamps.word": "available" as const },
    };
    const choices = { ...CHOICES, model: first.id };
    expect(requestOf("up_1", choices, [timed, ...others])).toMatchObject({ timestamps: "word" });
    expect(requestOf("up_1", choices, [first, ...others]).timestamps).toBeUndefined();
  });
});

test("the price is that of the ledger: whole paise, rounded up, for each channel", () => {
  expect(priceOf(3000, 2.06, 1)).toBe(2);
  expect(priceOf(3000, 3600, 1)).toBe(3000);
  expect(priceOf(3000, 3600, 2)).toBe(6000);
  expect(priceOf(3000, 0.001, 1)).toBe(1);
  expect(priceOf(0, 3600, 2)).toBe(0);
});

describe("numbers and script", () => {
  const forms = { numerals: ["spoken", "written"] as ("spoken" | "written")[], scripts: ["native", "latin"] };
  const offering = [model("whisper", [{ ...hindi, ...forms }, tamil], { default: true })];
  const wanted: Choices = { ...CHOICES, numerals: "written", script: "latin" };

  test("are asked for where the server offers them", () => {
    const body = requestOf("up_x", fitted(offering, wanted));
    expect([body.numerals, body.script]).toEqual(["written", "latin"]);
  });

  test.each([
    ["a server that does not offer them", MODELS, wanted],
    ["another language", offering, { ...wanted, language: "ta" }],
    ["a script that the language does not have", offering, { ...wanted, numerals: "spoken", script: "arab" }],
    ["the usual form", offering, CHOICES],
  ] as const)("are left out for %s", (_title, models, choices) => {
    const body = requestOf("up_x", fitted(models, choices));
    expect(Object.keys(body)).not.toContain("numerals");
    expect(Object.keys(body)).not.toContain("script");
  });
});

describe("a translation", () => {
  const able = MODELS.map((one) => ({
    ...one,
    capabilities: {
      ...one.capabilities,
      "timestamps.word": "available" as const,
      "task.translate": one.id === "whisper" ? ("available" as const) : ("coming_soon" as const),
    },
  }));
  const wanted: Choices = { ...CHOICES, isTranslated: true };

  test("is asked for without word times and mixed text, where the model can translate", () => {
    const { task, mode, ...body } = requestOf("up_x", fitted(able, wanted), able);
    expect([task, mode]).toEqual(["translate", "native"]);
    expect(Object.keys(body)).not.toContain("timestamps");
  });

  test.each([
    ["a model that cannot", able, { ...wanted, language: "ta" }],
    ["a server that does not offer it", MODELS, wanted],
  ] as const)("is left out for %s", (_title, models, choices) => {
    expect(Object.keys(requestOf("up_x", fitted(models, choices), models))).not.toContain("task");
  });
});
