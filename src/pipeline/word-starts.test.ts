import { expect, test } from "bun:test";
import { startErrors, startFigures } from "./word-starts.ts";

test("starts are compared where the same word was said and heard", () => {
  const said = (text: string, startMs: number, channel = 0) => ({ text, startMs, channel });
  const heard = (text: string, startMs: number) => ({ text, startMs, endMs: startMs + 1, confidence: 1 });
  const errors = startErrors(
    [said("One", 100), said("two,", 500), said("three", 900), said("four.", 1_400)],
    [heard("one", 90), heard("too", 520), heard("and", 800), heard("three", 950), heard("Four", 1_400)],
    "en",
  );
  expect(errors).toEqual([-10, 50, 0]);
  expect(startFigures(errors ?? [])).toEqual({ words: 3, medianMs: 10, p95Ms: 50, biasMs: 0 });
  expect(startFigures([])).toBeUndefined();
  // Channel after channel, where the model heard them apart.
  const apart = [said("a", 900, 0), said("b", 100, 1)];
  expect(
    startErrors(
      apart,
      [
        { ...heard("a", 900), channel: 0 },
        { ...heard("b", 100), channel: 1 },
      ],
      "en",
    ),
  ).toEqual([0, 0]);
});
