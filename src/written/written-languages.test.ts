import { expect, test } from "bun:test";
import { TABLES } from "./tables.ts";
import { WRITTEN_LANGUAGES } from "./written-languages.ts";

test("the languages are those that have a table", () => {
  expect([...WRITTEN_LANGUAGES].sort()).toEqual(Object.keys(TABLES).sort());
});
