import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CONFIG_SCHEMA } from "../../config/schema.ts";

/**
 * A setting of `[engine]` is spelled in few files: in the schema, in the object that is passed whole from the config to the
 * worker process, and where it is used. The documents about settings are made from the schema.
 */

const SRC = join(import.meta.dir, "../..");
const MOST_FILES = 4;

const DECLARED = ["config/schema.ts", "domain/engine-options.ts"];
/**
 * Files that are no use of a setting: what C++ counts under such a name, columns of tables, and evidence, which repeats what
 * the setting was under the setting's name.
 */
const OTHERS =
  /^(?:testing|e2e|native|store)\/|^services\/signed\/evidence|^cli\/appliance\/evidence|^domain\/story/;

/** The product's files without comments, by their paths. */
const files = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts") && !OTHERS.test(path))
  .map((path) => ({ path, code: withoutComments(readFileSync(join(SRC, path), "utf8")) }));

function withoutComments(source: string): string {
  return source.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
}

/**
 * Matches code that spells a setting: the name itself where it is of several words, also as a variable (`shared_steps`,
 * `sharedSteps`); where it is one word that means other things elsewhere, the name behind `engine`, as in `engine.device`
 * and `{ device } = settings.engine`, and the declaration of the section.
 */
function spellingOf(name: string): RegExp {
  const variable = name.replace(/_(?:seconds$)?([a-z]?)/g, (_, letter: string) => letter.toUpperCase());
  if (name.includes("_")) return new RegExp(`\\b(?:${name}|(?<!info\\.)${variable}(?:Ms|Seconds)?)\\b`);
  const behind = `\\bengine\\??\\.${name}\\b`;
  const takenOut = `\\{[^{}]*\\b${name}\\b[^{}]*\\}(?:: EngineOptions| = (?:\\w+\\.)*engine\\b(?![.\\w(]))`;
  const picked = `Pick<EngineOptions,[^>]*"${name}"`;
  return new RegExp([behind, takenOut, picked].join("|"));
}

const sections = new Map(files.map(({ path, code }) => [path, code]));

test.each(Object.keys(CONFIG_SCHEMA.engine))("the setting engine.%s is spelled in few files", (name) => {
  const declaring = DECLARED.filter((path) => new RegExp(`^ +${name}: `, "m").test(sections.get(path) ?? ""));
  expect(declaring).toContain("config/schema.ts");
  const spelling = spellingOf(name);
  const using = files
    .filter(({ path, code }) => !DECLARED.includes(path) && spelling.test(code))
    .map(({ path }) => path);
  expect(using).not.toEqual([]);
  const all = [...declaring, ...using];
  expect(all.length, all.join(", ")).toBeLessThanOrEqual(MOST_FILES);
});

test("a setting that is passed on under another name is found", () => {
  const found = (name: string, code: string) => spellingOf(name).test(code);
  expect(found("shared_steps", "const { sharedSteps } = options;")).toBe(true);
  expect(found("model_idle_seconds", "modelIdleMs: 0")).toBe(true);
  expect(found("device", "if (settings.engine.device === 1)")).toBe(true);
  expect(found("device", "const { device, decoder } = settings.engine;")).toBe(true);
  expect(found("workers", 'Pick<EngineOptions, "workers" | "tracks">')).toBe(true);
  expect(found("device", "const { device } = worker.status();")).toBe(false);
});
