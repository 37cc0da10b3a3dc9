import { expect, test } from "bun:test";
import { floatingExpectations } from "./floating-expectations.ts";

/** Written in two parts, so that this file is not found itself. */
const REJECTS = ".rej" + "ects";

test("an assertion that nothing awaits is found, on the line where its promise ends", () => {
  const source = [
    `  await expect(one())${REJECTS}.toThrow("a");`,
    `  expect(two(3, () => x()))${REJECTS}.toThrow("b");`,
    `  return expect(three)${REJECTS}.toThrow("c");`,
    `  for (const work of all) expect(work)${REJECTS}.toThrow("d");`,
    "  expect(",
    "    four({ five: 6 }),",
    `  )${REJECTS}.toThrow("e");`,
    `  const kept = [expect(seven())${REJECTS}.toThrow("f")];`,
    `  test("g", () => expect(eight())${REJECTS}.toThrow("h"));`,
    `  expect(nine())${REJECTS.replace("rej" + "ects", "resol" + "ves")}.toBe(10);`,
  ].join("\n");
  expect(floatingExpectations(source)).toEqual([2, 4, 7, 10]);
});
