import { expect, test } from "bun:test";
import { whenSettled } from "./settled.ts";

test("a failure that passes is tried again, another one is not, and the result is returned", () => {
  let tries = 0;
  const work = () => {
    tries += 1;
    if (tries < 4) throw new Error("passing");
    return tries;
  };
  expect(whenSettled(work, (error) => (error as Error).message === "passing")).toBe(4);
  expect(() =>
    whenSettled(
      () => {
        tries += 1;
        throw new Error("for good");
      },
      () => false,
    ),
  ).toThrow("for good");
  expect(tries).toBe(5);
});
