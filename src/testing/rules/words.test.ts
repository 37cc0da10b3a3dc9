import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { ROOT, readDocument } from "./documents.ts";

/**
 * A rule for words that once meant several things. The glossary says what each of them means, and a type that has one as its
 * whole name is declared in one file, so that a reader who finds it has found the right one.
 */

const WORDS = ["ending", "lane", "means", "numbers", "part", "place", "reading", "scope", "thread group"];

/** Matches the declaration of a type, and its name. */
const DECLARED = /^(?:export )?(?:type|interface|class) (\w+)\b/gm;
/** Matches a type that only passes another one on, such as `type Scope = Key["scopes"][number]`. */
const ALIAS = /^(?:export )?type \w+ = \w+(?:\["\w+"\]|\[number\])+;$/;

const nameOf = (word: string) =>
  word
    .split(" ")
    .map((each) => each.slice(0, 1).toUpperCase() + each.slice(1))
    .join("");

/** Returns the files that declare a type whose whole name is the word, or the word for several. */
function declaring(word: string, files: ReadonlyMap<string, string>): string[] {
  const names = new Set([nameOf(word), `${nameOf(word)}s`]);
  return [...files].flatMap(([path, source]) =>
    [...source.matchAll(DECLARED)]
      .filter(({ 1: name = "", index }) => {
        const line = source.slice(index, source.indexOf("\n", index));
        return names.has(name) && !ALIAS.test(line);
      })
      .map(() => path),
  );
}

const FILES = new Map(
  readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name) && name !== join("testing", "rules", "words.test.ts"))
    // There these are terms of grammar: a word has parts and an ending.
    .filter((name) => !name.startsWith(join("written", "/")))
    .map((name) => [join("src", name), readDocument(join("src", name))]),
);
const GLOSSARY = readDocument("docs/glossary.md");

test.each(WORDS)("the glossary says what the word %s means", (word) => {
  expect(GLOSSARY).toMatch(new RegExp(`^\\| ${word}(?: of the \\w+)? \\|`, "m"));
});

test.each(WORDS)("one file at most declares a type with the name of the word %s", (word) => {
  expect(declaring(word, FILES).slice(1)).toEqual([]);
});

test("a second type of the same name is found, and one that passes another on is none", () => {
  const files = new Map([
    ["a.ts", "export type Scope = (typeof SCOPES)[number];\n"],
    ["b.ts", "type Scopes = {\n};\n"],
    ["c.ts", 'type Scope = Key["scopes"][number];\n'],
  ]);
  expect(declaring("scope", files)).toEqual(["a.ts", "b.ts"]);
});
