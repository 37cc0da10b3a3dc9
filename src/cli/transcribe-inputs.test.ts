import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findInputs } from "./transcribe-inputs.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-inputs-"));
afterAll(() => rmSync(folder, { recursive: true }));

test("links to folders and in circles are left out of a folder with a note, and links to files are taken", async () => {
  const calls = join(folder, "calls");
  const elsewhere = join(folder, "elsewhere");
  for (const path of [join(calls, "monday"), elsewhere]) mkdirSync(path, { recursive: true });
  for (const path of [
    join(calls, "one.wav"),
    join(calls, "monday", "two.wav"),
    join(elsewhere, "three.wav"),
  ]) {
    writeFileSync(path, "");
  }
  symlinkSync(calls, join(calls, "monday", "self"));
  symlinkSync(elsewhere, join(calls, "outside"));
  symlinkSync(elsewhere, join(calls, "outside.wav"));
  symlinkSync("circle.wav", join(calls, "circle.wav"));
  symlinkSync(join(elsewhere, "three.wav"), join(calls, "linked.wav"));
  symlinkSync("nothing.wav", join(calls, "broken.wav"));
  const notes: string[] = [];
  const inputs = await findInputs([calls], "", (line) => void notes.push(line));
  // A link that leads to nothing is reported when it is its turn.
  expect(inputs.map(({ target }) => target)).toEqual(["broken", "linked", "monday/two", "one"]);
  const left = ["circle.wav", "monday/self", "outside", "outside.wav"];
  expect(notes.sort().map((line) => line.slice(calls.length + 1, line.indexOf(" ")))).toEqual(left);
  // A link that is named itself is followed.
  const named = await findInputs([join(calls, "outside")], "", (line) => void notes.push(line));
  expect(named.map(({ target }) => target)).toEqual(["three"]);
});
