import { expect, test } from "bun:test";
import { createRefusalLog } from "./refusal-log.ts";

test("refused messages are logged at first, and then once a minute with their number", () => {
  let now = 5;
  const lines: [string, string, number][] = [];
  const refuse = createRefusalLog(
    (...line) => void lines.push(line),
    () => now,
  );
  for (let second = 0; second <= 125; second++, now += 1_000) {
    refuse("one", `version ${second}`);
    if (second === 30) refuse("two", "other");
  }
  expect(lines).toEqual([
    ["one", "version 0", 1],
    ["two", "other", 1],
    ["one", "version 60", 60],
    ["one", "version 120", 60],
  ]);
});
