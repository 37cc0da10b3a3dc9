import { expect, test } from "bun:test";
import { describeStatus } from "./failures.ts";

test("an answer that is a failure is explained", () => {
  expect(describeStatus(204)).toBeUndefined();
  expect(describeStatus(308)).toContain("redirects are not followed");
  expect(describeStatus(503)).toBe("the receiver answered 503");
});
