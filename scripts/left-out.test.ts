import { expect, test } from "bun:test";
import { leftOut } from "./left-out.ts";

test("tests that were left out are counted by reason, and those without a reason are named", () => {
  const output = `
src/a.test.ts:
(pass) one [1.00ms]
(skip) the console (needs Chromium) > shows a list
(skip) the console (needs Chromium) > (unnamed)
(skip) formats > amr decodes (needs an ffmpeg with the encoder)
(skip) on ARM (needs a build, first (see docs)) > works
(skip) a test with an aside (or two)

2 tests skipped:
(skip) the console (needs Chromium) > shows a list
`;
  expect(leftOut(output)).toEqual([
    "5 tests were left out:",
    "     2  needs Chromium",
    "     1  needs an ffmpeg with the encoder",
    "     1  needs a build, first (see docs)",
    "     1  for a reason that its name does not tell: a test with an aside (or two)",
  ]);
  expect(leftOut("(pass) one [1.00ms]\n 1 pass\n")).toEqual([]);
});
