import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { ROOT, readDocument } from "./documents.ts";

/**
 * A rule for the messages of commands. They are printed as `error: …`, so each is one sentence that begins in lower case and has
 * no period at its end. Messages that commands share with the API get this style when they are printed (`cli/frame/error-line.ts`).
 */

/** Matches the making of an error: what it is, and its message up to the end of the call. */
const MADE = /new CommandError\(\s*(?:"\w+"|[\w.]+),([\s\S]*?)\)[;,]?\n/g;
const LITERAL = /`((?:[^`\\]|\\.)*)`|"((?:[^"\\]|\\.)*)"/g;

/** Returns how many texts of messages a file has, and those that break the rule. */
function looked(path: string, source: string): { count: number; wrong: string[] } {
  const texts = [...source.matchAll(MADE)].flatMap(([, made = ""]) =>
    [...made.matchAll(LITERAL)].map(([, template, plain]) => template ?? plain ?? ""),
  );
  // A name such as SHA-256 keeps its letters.
  const wrong = texts.filter((text) => /^[A-Z][a-z]* /.test(text) || text.endsWith("."));
  return { count: texts.length, wrong: wrong.map((text) => `${path}: ${text}`) };
}

test("a command's error is one sentence in lower case, without a period", () => {
  const files = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.ts$/.test(name) && !/\.test\.ts$/.test(name))
    .map((name) => join("src", name));
  const found = files.map((path) => looked(path, readDocument(path)));
  expect(found.flatMap(({ wrong }) => wrong)).toEqual([]);
  expect(found.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThan(90);
});

test("another style is found", () => {
  const source = [
    'throw new CommandError("usage", "Give a file");',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the source of a template.
    'throw new CommandError("usage", isOne ? `${name} is one.` : "two");',
    'throw new CommandError("failed", "SHA-256 differs");',
    "",
  ].join("\n");
  const { count, wrong } = looked("a.ts", source);
  expect(count).toBe(4);
  expect(wrong.map((text) => text.slice(0, 10))).toEqual(["a.ts: Give", "a.ts: ${na"]);
});
