import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { variableOf } from "../../config/environment.ts";
import { CONFIG_SCHEMA } from "../../config/schema.ts";
import { TEST_VARIABLES } from "./test-variables.ts";

const ROOT = join(import.meta.dir, "../../..");
const SETTINGS = Object.entries(CONFIG_SCHEMA).flatMap(([section, settings]) =>
  Object.keys(settings).map((name) => variableOf(section, name)),
);

/** Lists the variables of tests that code names, by file. */
function namedIn(folder: string, isWanted: (path: string) => boolean): Map<string, string[]> {
  const paths = readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => /\.tsx?$/.test(path) && isWanted(path));
  const found = paths.map((path): [string, string[]] => {
    const text = readFileSync(join(ROOT, path), "utf8");
    const named = [...text.matchAll(/process\.env(?:\.|\[")(SHRUTI_[A-Z_]+)/g)].map(([, name = ""]) => name);
    // e2e/crash.test.ts puts its names together.
    const built = [...text.matchAll(/ = setting\("([A-Z_]+)"/g)].map(([, name]) => `SHRUTI_CRASH_${name}`);
    return [path, [...named, ...built].filter((name) => !SETTINGS.includes(name))];
  });
  return new Map(found.filter(([, names]) => names.length > 0));
}

const isOfTests = (path: string) => /\.test\.ts$|^src\/(testing|e2e)\//.test(path);

test("each variable that tests and scripts read is in the list, and the program reads none", () => {
  const read = [...namedIn("src", isOfTests).values(), ...namedIn("scripts", () => true).values()].flat();
  expect([...new Set(read)].filter((name) => !TEST_VARIABLES.includes(name))).toEqual([]);
  expect(read.length).toBeGreaterThan(5);
  expect([...namedIn("src", (path) => !isOfTests(path))]).toEqual([]);
});
