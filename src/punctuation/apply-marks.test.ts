import { describe, expect, test } from "bun:test";
import { applyMarks } from "./apply-marks.ts";

describe("marks", () => {
  test.each([
    ["घर", "।", "hi", "घर।"],
    ["घर", ".", "hi", "घर।"],
    ["घर", "。", "hi", "घर।"],
    ["घर", ".", "mr", "घर."],
    ["घर", "।", "kok", "घर."],
    ["ঘর", ".", "bn", "ঘর।"],
    ["ਘਰ", ".", "pa", "ਘਰ।"],
    ["வீடு", "।", "ta", "வீடு."],
    ["گھر", ".", "ur", "گھر۔"],
    ["گھر", ",", "ur", "گھر،"],
    ["گھر", "?", "ur", "گھر؟"],
    ["ᱚᱲᱟᱜ", ".", "sat", "ᱚᱲᱟᱜ᱾"],
    ["ꯌꯨꯝ", ".", "mni", "ꯌꯨꯝ꯫"],
    ["ঘর", ".", "mni", "ঘর।"],
    ["office", ".", "hi", "office।"],
    ["home", "।", "en", "home."],
    ["home", "，", "en", "home,"],
    ["home", "<ACRONYM>", "en", "home"],
    ["home", " and", "en", "home"],
    ["home", "constructor", "en", "home"],
    ["home.", ",", "en", "home."],
    ["—", ".", "en", "—"],
    ["25", "?", "en", "25?"],
  ])("%s with the label %s in %s becomes %s", (word, after, language, expected) => {
    expect(applyMarks(word, { after }, language)).toBe(expected);
  });
});

test("capitals are capitals of the same letters, and words with capitals keep them", () => {
  expect(applyMarks("mumbai", { capitals: [0] }, "en")).toBe("Mumbai");
  expect(applyMarks("nato", { capitals: [0, 1, 2, 3] }, "en")).toBe("NATO");
  expect(applyMarks("iPhone", { capitals: [0] }, "en")).toBe("iPhone");
  expect(applyMarks("straße", { capitals: [4, 99, -1] }, "en")).toBe("straße");
  expect(applyMarks("घर", { capitals: [0, 1] }, "hi")).toBe("घर");
});

test("whatever a model says, only marks behind a word and the case of letters change", () => {
  const labels = ["<NULL>", ".", "x", "।x", "\n", "?", "__proto__", "toString", "،", "", " "];
  const words = ["घर", "it's", "co-op", "ſtraße", "ŉx", "İstanbul", "ǆ", "12.5", "क्‍ष", "😀a", "ﬁn"];
  for (const word of words)
    for (const after of labels)
      for (const language of ["hi", "en", "ur", "xx"]) {
        const all = Array.from({ length: 20 }, (_, place) => place - 2);
        const marked = applyMarks(word, { after, capitals: all }, language);
        const bare = marked.replace(/[.,?।۔،؟]$/u, "");
        expect(bare.toLowerCase()).toBe(word.toLowerCase());
        expect([...bare].length).toBe([...word].length);
        expect(marked).not.toMatch(/\s/u);
      }
});
