import { expect, test } from "bun:test";
import { knownModelsFor } from "./known-models.ts";
import { LANGUAGES, languageOf, SCRIPTS } from "./languages.ts";

test("the list has English and the 22 scheduled languages, each once, in order of code", () => {
  const codes = LANGUAGES.map(({ code }) => code);
  expect(codes).toHaveLength(23);
  expect(new Set(codes).size).toBe(23);
  expect(codes).toEqual(codes.toSorted());
  expect(codes.filter((code) => !/^[a-z]{2,3}$/.test(code))).toEqual([]);
});

test("each native name is written in a script of its language, and every script is known to Unicode", () => {
  for (const { nativeName, scripts } of LANGUAGES) {
    const classes = scripts.map((script) => `\\p{Script=${script}}`).join("");
    expect(nativeName).toMatch(new RegExp(`^[${classes}\\p{Script=Inherited}]+$`, "u"));
  }
  const used = new Set(LANGUAGES.flatMap(({ scripts }) => scripts));
  expect(SCRIPTS.filter((script) => !used.has(script))).toEqual([]);
});

test("only languages that whisper knows have one of its tokens", () => {
  const without = LANGUAGES.filter(({ whisperCode }) => whisperCode === undefined).map(({ code }) => code);
  expect(without).toEqual(["brx", "doi", "kok", "ks", "mai", "mni", "or", "sat"]);
  expect(languageOf("hi")?.whisperCode).toBe("hi");
  expect(languageOf("xx")).toBeUndefined();
});

test("each language has a public model that knows it, so that docs and refusals can name one", () => {
  expect(LANGUAGES.filter(({ code }) => knownModelsFor(code).length === 0)).toEqual([]);
});
