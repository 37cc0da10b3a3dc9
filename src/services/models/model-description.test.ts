import { expect, test } from "bun:test";
import type { InstalledModel } from "../../domain/model.ts";
import { testConfig } from "../../testing/kits/test-config.ts";
import { describeModel } from "./model-description.ts";

const MODEL: InstalledModel = {
  ...{ id: "one", name: "One", version: "1", family: "any", sha256: "", licence: "MIT", source: "here" },
  languages: [{ code: "hi", name: "Hindi", modes: ["native"] }],
  ...{ decoding: {}, files: {}, bytes: 1, embedded: false },
};

test.each([
  [false, true, undefined],
  [true, false, "coming_soon"],
  [true, true, "available"],
] as const)("translation: switched on %p, the model can translate %p: %s", (isOn, canTranslate, status) => {
  const { capabilities } = describeModel(MODEL, {
    config: testConfig({ capabilities: { translation: isOn } }),
    family: { canTimeWords: () => true, canTranslate: () => canTranslate },
    method: "acoustic",
  });
  expect(capabilities["task.translate"]).toBe(status as never);
  expect(Object.keys(capabilities).includes("task.translate")).toBe(isOn);
});

test.each([
  [false, false, "coming_soon"],
  [false, true, "coming_soon"],
  [true, false, "coming_soon"],
  [true, true, "available"],
] as const)("word times: switched on %p, the model can time words %p: %s", (isOn, canTimeWords, status) => {
  const described = describeModel(MODEL, {
    config: testConfig({ capabilities: { word_timestamps: isOn } }),
    family: { canTimeWords: () => canTimeWords },
    method: "acoustic",
  });
  expect(described.capabilities["timestamps.word"]).toBe(status);
  expect(described.capabilities["language.auto"]).toBe("coming_soon");
});
