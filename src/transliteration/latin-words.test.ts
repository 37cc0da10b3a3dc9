import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { applyScript, normalizeForScripts } from "./apply-script.ts";

/**
 * Tests Latin letters as people type them, on common words with the spellings that people use (`latin-words/`): a word is right
 * where it has one of them. The shares are those that were measured; a change must not make them smaller.
 */
const LEAST_RIGHT: readonly (readonly [language: string, percent: number])[] = [
  ["hi", 99],
  ["mr", 99],
  ["pa", 99],
  ["gu", 98],
  ["bn", 99],
  ["ta", 99],
  ["te", 99],
  ["kn", 99],
  ["ml", 99],
];

describe("common words are spelled as people type them", () => {
  test.each(LEAST_RIGHT)("%s: at least %f %%", (language, percent) => {
    const lines = readFileSync(join(import.meta.dir, "latin-words", `${language}.txt`), "utf8")
      .trim()
      .split("\n");
    const wrong = lines.flatMap((line) => {
      const [word = "", ...spellings] = line.split(" ");
      const outcome = applyScript(normalizeForScripts(word, language), { language, script: "latin" });
      const latin = "refusal" in outcome ? outcome.refusal : outcome.text;
      return spellings.includes(latin) ? [] : [`${word} ${latin} (${spellings.join(", ")})`];
    });
    const right = (100 * (lines.length - wrong.length)) / lines.length;
    expect(lines.length).toBeGreaterThanOrEqual(100);
    expect(right).toBeGreaterThanOrEqual(percent);
  });
});
