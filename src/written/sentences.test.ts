import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readSentences } from "../testing/written/sentences.ts";
import { applyWritten, spokenAgain } from "./apply.ts";
import { TABLES } from "./tables.ts";

/** Tests the rules and tables on the sentences of `sentences/`: a file for each language. */

const fileOf = (language: string) =>
  readFileSync(join(import.meta.dir, "sentences", `${language}.txt`), "utf8");

/** The ten languages with the most speakers have more traps. */
const LARGEST = ["en", "hi", "bn", "mr", "te", "ta", "gu", "ur", "kn", "or"];

describe.each(Object.keys(TABLES))("sentences of %s", (language) => {
  const sentences = readSentences(fileOf(language));

  test("are written as people write them", () => {
    const wrong = sentences.filter(
      ({ spoken, written }) => applyWritten(spoken, { language }).text !== written,
    );
    expect(
      wrong.map(({ spoken, written }) => ({ spoken, written, got: applyWritten(spoken, { language }).text })),
    ).toEqual([]);
  });

  test("come back from what was recorded, and change no more", () => {
    for (const { spoken } of sentences) {
      const { text, changes } = applyWritten(spoken, { language });
      expect(spokenAgain(text, changes)).toBe(spoken);
      expect(applyWritten(text, { language }).text).toBe(text);
    }
  });

  test("have traps, each with its reason", () => {
    const traps = sentences.filter(({ spoken, written }) => spoken === written);
    expect(traps.length).toBeGreaterThanOrEqual(LARGEST.includes(language) ? 40 : 10);
    expect(traps.filter(({ reason }) => reason === "")).toEqual([]);
  });
});
