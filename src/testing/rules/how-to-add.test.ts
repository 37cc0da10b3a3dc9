import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { codesIn, ROOT, readDocument, sectionsOf } from "./documents.ts";

/** Holds docs/how-to-add.md to the repository: what a recipe names exists, and a recipe stays short. */

const RECIPES = sectionsOf(readDocument("docs/how-to-add.md")).slice(1);
/** A file or folder, also inside of a command. */
const PATH = /^(?:src|docs|scripts|ops|models)\/[\w./-]*$/;

/** Returns the files and folders that a recipe names. */
const pathsIn = (text: string) =>
  codesIn(text)
    .flatMap((code) => code.split(" "))
    .filter((word) => PATH.test(word));

test("there is a recipe for each thing that a newcomer adds", () => {
  expect(RECIPES.map(({ title }) => title)).toEqual([
    "An endpoint",
    "An error code",
    "A language",
    "A language of the written form",
    "A setting",
    "A command",
    "A view of an admin in the console",
    "A model family",
    "An audit event",
    "A metric",
    "A column with its migration",
  ]);
});

test.each(RECIPES.map((recipe) => [recipe.title, recipe.text]))(
  "%s: every file that it names exists",
  (_, text) => {
    const named = pathsIn(text);
    expect(named.length).toBeGreaterThan(3);
    expect(named.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  },
);

test.each(RECIPES.map((recipe) => [recipe.title, recipe.text]))(
  "%s: has at most ten lines of steps",
  (_, text) => {
    const steps = text.split("\n").filter((line) => line !== "" && !line.startsWith("Tests: "));
    expect(steps.length).toBeLessThanOrEqual(10);
    expect(text).toMatch(/^Tests: `bun test /m);
  },
);

test("a file that is not there is found", () => {
  expect(pathsIn("See `src/nothing.ts`, and run `bun test src/http`.")).toEqual([
    "src/nothing.ts",
    "src/http",
  ]);
});
