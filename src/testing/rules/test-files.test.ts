import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";

/** Rules for test files: how they are named, and that what they leave out has a reason. src/README.md has the rules. */

const ROOT = resolve(import.meta.dir, "../../..");
const FILES = ["src", "scripts"].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => join(ROOT, folder, name)),
);

/** Whether the file is named after a module or folder beside it, or after its own folder, alone or with an aspect. */
function isNamedAfterModule(path: string): boolean {
  const folder = dirname(path);
  const name = basename(path, ".test.ts");
  const words = name.split("-");
  const beginnings = words.map((_, i) => words.slice(0, i + 1).join("-"));
  return beginnings.some(
    (start) =>
      [".ts", ".tsx", ".sh", ""].some((ending) => existsSync(join(folder, `${start}${ending}`))) ||
      start === basename(folder),
  );
}

/** Whether a comment that belongs to no declaration stands before the first test. */
function saysWhatItTests(path: string): boolean {
  const [head = ""] = readFileSync(path, "utf8").split(/^(?:test|describe)\b/m);
  return /(?:^|\n\n)\/\*\*[\s\S]*?\*\/\n\n/.test(head);
}

test("a test file has the name of what it tests, or says at its head what that is", () => {
  const unnamed = FILES.filter((path) => !isNamedAfterModule(path) && !saysWhatItTests(path));
  expect(unnamed.map((path) => relative(ROOT, path))).toEqual([]);
});

const CONDITION = /\b(?:(?:test|describe)\.(?:skipIf|if)\(|(?:fleetTest|describeFleet)(?=[.(]))/g;
const REASON = /\(needs? |\$\{lacks\}/;

/** Returns the position after the bracket that closes the one at `start`. Brackets in texts do not count. */
function afterBracket(source: string, start: number): number {
  let depth = 0;
  let quote = "";
  for (let at = start; at < source.length; at++) {
    const char = source[at] ?? "";
    if (char === "\\") at++;
    else if (quote !== "") quote = char === quote ? "" : quote;
    else if ("\"'`".includes(char)) quote = char;
    else if ("([{".includes(char)) depth++;
    else if (")]}".includes(char) && --depth === 0) return at + 1;
  }
  throw new Error(`the bracket at ${start} is not closed`);
}

/** Returns the titles of tests and groups that run under a condition only. */
function conditionalTitles(source: string): string[] {
  return [...source.matchAll(CONDITION)].map(({ index, 0: found }) => {
    let at = index + found.length;
    if (found.endsWith("(")) at = afterBracket(source, at - 1);
    if (source.startsWith(".each", at)) at = afterBracket(source, at + ".each".length);
    return /^\(\s*(["'`])(.*?[^\\])\1/.exec(source.slice(at))?.[2] ?? source.slice(at, at + 60);
  });
}

test("a test that may be left out says in its name what it needs", () => {
  const known = conditionalTitles(
    'test.skipIf(a(")"))("one", f); describe.if(b).each([["("]])("two (needs root)", f); describeFleet("three", f);',
  );
  expect(known).toEqual(["one", "two (needs root)", "three"]);
  const silent = FILES.filter((path) => ![import.meta.path, DOCS_TEST].includes(path)).flatMap((path) =>
    conditionalTitles(readFileSync(path, "utf8"))
      .filter((title) => !REASON.test(title))
      .map((title) => `${relative(ROOT, path)}: ${title}`),
  );
  expect(silent).toEqual([]);
});

/** It has such calls in texts that it examines. */
const DOCS_TEST = join(import.meta.dir, "docs.test.ts");
