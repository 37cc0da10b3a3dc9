import { expect, test } from "bun:test";
import { LANGUAGES } from "../src/domain/languages.ts";
import { SCRIPTS as GREETINGS } from "../src/testing/console/console-transcripts.ts";
import { consoleFonts } from "./console-fonts.ts";

/** Reads ranges as CSS writes them, such as `U+0900-097F,U+200C`. */
function rangesOf(text: string): [first: number, last: number][] {
  return text.split(",").map((range) => {
    const [first = "", last = first] = range.replace("U+", "").split("-");
    return [Number.parseInt(first, 16), Number.parseInt(last, 16)];
  });
}

test("the console has fonts for the letters of each language", () => {
  const ranges = consoleFonts().flatMap(({ range }) => rangesOf(range));
  const isDrawn = (letter: string) => {
    const code = letter.codePointAt(0) ?? 0;
    return ranges.some(([first, last]) => first <= code && code <= last);
  };
  const missing = LANGUAGES.flatMap(({ code, nativeName }) =>
    [...nativeName].filter((letter) => !isDrawn(letter)).map((letter) => `${code}: ${letter}`),
  );
  expect(missing).toEqual([]);
});

test("the pictures of the console show each script in which a language is usually written", () => {
  const shown = GREETINGS.map(({ text }) => text).join("");
  const missing = LANGUAGES.filter(({ scripts: [script] }) => {
    return script !== "Latin" && !new RegExp(`\\p{Script=${script}}`, "u").test(shown);
  });
  expect(missing).toEqual([]);
});
