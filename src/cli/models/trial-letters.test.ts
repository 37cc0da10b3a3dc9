import { expect, test } from "bun:test";
import type { InstalledModel, ModelLanguage } from "../../domain/model.ts";
import { bestLetters } from "./trial-letters.ts";

const SAID = "अभी दस बजे और दस मिनट हैं";
const WRONG = "आपी नस्वापी आ";
const NEAR = "अभी दस बजे और दस मिनट";

const modelWith = (more: Partial<ModelLanguage>, family: InstalledModel["family"] = "whisper") =>
  ({
    family,
    languages: [{ code: "hi", name: "Hindi", modes: ["native"], ...more }],
    decoding: {},
  }) as InstalledModel;

/** Finds the choice of a model that writes a text for each way, and the ways that were tried. */
async function choose(model: InstalledModel, texts: Record<string, string | undefined>, language = "hi") {
  const tried: (string | undefined)[] = [];
  const choice = await bestLetters(model, { language, said: SAID }, WRONG, async ({ languages: [hindi] }) => {
    tried.push(hindi?.letters);
    return texts[hindi?.letters ?? ""];
  });
  return { choice, tried };
}

test("the letters with the fewest errors are chosen, those of another script with the code of its language", async () => {
  const other = await choose(modelWith({}), { prompted: WRONG, own: WRONG, other: NEAR });
  expect(other).toEqual({
    choice: { letters: "other", decoderLanguage: "ur" },
    tried: ["prompted", "own", "other"],
  });
  const texts = { prompted: WRONG, own: WRONG, other: NEAR };
  expect((await choose(modelWith({}), { ...texts, own: SAID })).choice).toEqual({ letters: "own" });
  expect((await choose(modelWith({}), { ...texts, prompted: SAID })).choice).toEqual({ letters: "prompted" });
});

test("nothing is chosen for few errors less, nor where the time was over", async () => {
  const few = { prompted: WRONG, own: WRONG, other: `${WRONG}भी` };
  expect((await choose(modelWith({}), few)).choice).toBeUndefined();
  expect((await choose(modelWith({}), {})).choice).toBeUndefined();
});

test("of equal ways, the sentence is the last to be chosen, because it costs time", async () => {
  const both = { prompted: NEAR, own: NEAR, other: WRONG };
  expect((await choose(modelWith({}), both)).choice).toEqual({ letters: "own" });
});

test("a language with one script has the sentence as its only other way", async () => {
  const marathi = await choose(modelWith({ code: "mr" }), { prompted: NEAR }, "mr");
  expect(marathi).toEqual({ choice: { letters: "prompted" }, tried: ["prompted"] });
});

test("a model that takes no prompts is not given the sentence", async () => {
  const model = { ...modelWith({}), decoding: { tuning: { whisper: { acceptsPrompt: false } } } };
  const { choice, tried } = await choose(model, { prompted: SAID, own: WRONG, other: NEAR });
  expect({ choice: choice?.letters, tried }).toEqual({ choice: "other", tried: ["own", "other"] });
});

test.each<[string, InstalledModel, string]>([
  ["the manifest has chosen letters", modelWith({ letters: "either" }), "hi"],
  ["an admin has named a code", modelWith({ decoderLanguage: "sa" }), "hi"],
  ["a CTC model", modelWith({}, "nemo_ctc"), "hi"],
  ["a language with one script and no sentence", modelWith({ code: "ta" }), "ta"],
])("nothing is tried: %s", async (_, model, language) => {
  expect(await choose(model, { own: SAID, other: SAID }, language)).toEqual({ choice: undefined, tried: [] });
});
