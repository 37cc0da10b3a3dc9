import { describe, expect, test } from "bun:test";
import { languageOf } from "./languages.ts";
import { adviseModels, firstChoiceCost, leastMemory } from "./model-advice.ts";
import { PUBLISHED_MODELS, SCHEDULED_LANGUAGES } from "./published-models.ts";

const GB = 1e9;

describe("the list of public models", () => {
  test("has each scheduled language, and says of each figure where it comes from", () => {
    expect(SCHEDULED_LANGUAGES).toHaveLength(22);
    for (const code of SCHEDULED_LANGUAGES) {
      expect(languageOf(code)).toBeDefined();
      expect(PUBLISHED_MODELS.some(({ languages }) => languages.includes(code))).toBe(true);
    }
    for (const { languages, errors, licence, obtain } of PUBLISHED_MODELS) {
      expect(Math.min(licence.length, obtain.length)).toBeGreaterThan(2);
      for (const { source, rates } of errors) {
        expect(Object.values(source).every((text) => text.length > 2)).toBe(true);
        for (const [code, rate] of Object.entries(rates)) {
          expect(languages).toContain(code);
          expect(rate).toBeWithin(1, 100);
        }
      }
    }
  });
});

describe("advice", () => {
  test("is the lowest published error that fits, with its source", () => {
    const { languages, install } = adviseModels(["hi", "ta"], 8 * GB);
    const [hindi, tamil] = languages;
    expect(hindi?.candidates[0]).toMatchObject({ rate: 6.8, model: { name: "whisper-hindi-large-v2" } });
    expect(tamil?.candidates[0]).toMatchObject({ rate: 18, model: { name: "large-v3-q5_0" } });
    // The best of each language need 8.7 GB together.
    expect(install.map(({ name }) => name).toSorted()).toEqual(["large-v3-q5_0", "whisper-hindi-medium"]);
    expect(adviseModels(["hi", "ta"], 9 * GB).install.map(({ name }) => name)).toContain(
      "whisper-hindi-large-v2",
    );
    for (const { candidates } of languages)
      expect(candidates.map(({ rate = 1000 }) => rate)).toEqual(
        candidates.map(({ rate = 1000 }) => rate).toSorted((a, b) => a - b),
      );
  });

  test("stays within the memory", () => {
    for (const memory of [0.5, 1.2, 2, 3, 8, 64].map((size) => size * GB)) {
      const { languages, install } = adviseModels(["hi", "ta", "brx"], memory);
      expect(install.reduce((sum, model) => sum + leastMemory(model), 0)).toBeLessThanOrEqual(memory);
      expect(
        languages.flatMap(({ candidates }) => candidates).every(({ model }) => leastMemory(model) <= memory),
      ).toBe(true);
    }
    expect(adviseModels(["hi", "ta", "brx"], 1.2 * GB).install.map(({ name }) => name)).toEqual([
      "indicconformer-120m-int8",
    ]);
  });

  test.each([
    ["fewer errors", [10, 1], [9.9, 1], "second"],
    ["the same errors with half the size", [10, 2], [10, 1], "second"],
    ["a tenth fewer errors for twice the size", [10, 1], [8.9, 2], "second"],
    ["hardly fewer errors for twice the size", [10, 1], [9.9, 2], "first"],
  ] as const)("as a first choice goes by errors and size: %s", (_, first, second, better) => {
    const cost = ([rate, gigabytes]: readonly [number, number]) =>
      firstChoiceCost({ errors: [], overallRate: rate, bytes: gigabytes * GB }, "hi") ?? 0;
    expect(cost(second) < cost(first) ? "second" : "first").toBe(better);
  });

  test("as a first choice takes the language's own figure before that over all languages", () => {
    const source = { from: "f", testSet: "t", date: "d" };
    const model = { errors: [{ source, rates: { hi: 5 } }], overallRate: 20, bytes: GB };
    expect(["hi", "ta"].map((code) => firstChoiceCost(model, code))).toEqual([5, 20]);
    expect(firstChoiceCost({ errors: [], bytes: GB }, "hi")).toBeUndefined();
  });

  test("has no figure where none was found, and names languages that no model knows", () => {
    const [bodo] = adviseModels(["brx"], 8 * GB).languages;
    expect(bodo?.candidates.map(({ rate }) => rate)).toEqual(Array(4).fill(undefined));
    expect(adviseModels(["fr", "sat"], 8 * GB).unknown).toEqual(["fr"]);
    expect(adviseModels(["hi"], 1e6)).toMatchObject({ install: [], unknown: ["hi"] });
  });
});
