import { afterAll, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeFoldersBelow, writeOutput } from "./output-files.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-output-"));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (...names: string[]) => join(folder, ...names);

test("folders are made below the one that the user has given, and never through a link", () => {
  makeFoldersBelow(at("new"), at("new/a/b"));
  expect(existsSync(at("new/a/b"))).toBe(true);
  mkdirSync(at("elsewhere"));
  symlinkSync(at("elsewhere"), at("new/link"));
  expect(() => makeFoldersBelow(at("new"), at("new/link/c"))).toThrow("links are not followed");
  expect(existsSync(at("elsewhere/c"))).toBe(false);
  // The folder itself is the user's word.
  symlinkSync(at("elsewhere"), at("given"));
  makeFoldersBelow(at("given"), at("given/d"));
  expect(existsSync(at("elsewhere/d"))).toBe(true);
});

test("a link of the file's name is replaced, and a device is written to", async () => {
  writeFileSync(at("victim"), "kept");
  symlinkSync(at("victim"), at("report.html"));
  await writeOutput(at("report.html"), "new");
  expect(readFileSync(at("report.html"), "utf8")).toBe("new");
  expect(readFileSync(at("victim"), "utf8")).toBe("kept");
  await writeOutput(at("made/report.html"), "new");
  expect(readFileSync(at("made/report.html"), "utf8")).toBe("new");
  await writeOutput("/dev/null", "nothing");
});
