import { expect, test } from "bun:test";
import type { InstalledModel, ModelLanguage } from "../../domain/model.ts";
import { bestLetters } from "./trial-letters.ts";

const SAID = "अभी दस बजे और दस मिनट हैं";
const WRONG = "आपी नस्वापी आ";
const NEAR = "अभी दस बजे और दस मिनट";

const modelWith = (more: Partial<ModelLanguage>, family: InstalledModel["family"] = "whisper") =>
  ({ family, languages: [{ code: "hi", name: "Hindi", modes: ["native"], ...more }] }) as InstalledModel;

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
  const other = await choose(modelWith({}), { own: WRONG, other: NEAR });
  expect(other).toEqual({
    choice: { letters: "other", decoderLanguage: "ur" },
    tried: ["own", "other"],
  });
  expect((await choose(modelWith({}), { own: SAID, other: NEAR })).choice).toEqual({ letters: "own" });
});

test("nothing is chosen for few errors less, nor where the time was over", async () => {
  expect((await choose(modelWith({}), { own: WRONG, other: `${WRONG}भी` })).choice).toBeUndefined();
  expect((await choose(modelWith({}), {})).choice).toBeUndefined();
});

test.each<[string, InstalledModel, string]>([
  ["the manifest has chosen letters", modelWith({ letters: "either" }), "hi"],
  ["an admin has named a code", modelWith({ decoderLanguage: "sa" }), "hi"],
  ["a CTC model", modelWith({}, "nemo_ctc"), "hi"],
  ["a language with one script", modelWith({ code: "ta" }), "ta"],
])("nothing is tried: %s", async (_, model, language) => {
  expect(await choose(model, { own: SAID, other: SAID }, language)).toEqual({ choice: undefined, tried: [] });
});
