import { expect, test } from "bun:test";
import { watchPace } from "./pace.ts";

/** Sends pieces with pauses. Returns whether the watch aborted the sending. */
async function send(pieces: readonly { bytes: number; afterMs: number }[], slowMs = 100): Promise<boolean> {
  let calls = 0;
  const pace = watchPace({ bytesPerSecond: 1000, slowMs }, () => calls++);
  for (const { bytes, afterMs } of pieces) {
    await Bun.sleep(afterMs);
    pace.arrived(bytes);
  }
  pace.end();
  expect(calls).toBe(pace.isTooSlow() ? 1 : 0);
  return pace.isTooSlow();
}

const times = (count: number, piece: { bytes: number; afterMs: number }) =>
  Array.from({ length: count }, () => piece);

test.each([
  ["nothing at all", [{ bytes: 0, afterMs: 250 }], true],
  ["a byte now and then", times(10, { bytes: 1, afterMs: 40 }), true],
  ["half of the rate for a long time", times(20, { bytes: 20, afterMs: 40 }), true],
  ["twice the rate, in pieces", times(10, { bytes: 80, afterMs: 40 }), false],
  [
    "much, then a long pause",
    [
      { bytes: 1_000_000, afterMs: 1 },
      { bytes: 1, afterMs: 300 },
    ],
    true,
  ],
  [
    "much, then a short pause",
    [
      { bytes: 1_000_000, afterMs: 1 },
      { bytes: 1, afterMs: 40 },
    ],
    false,
  ],
] as const)("%s", async (_title, pieces, isTooSlow) => {
  expect(await send(pieces)).toBe(isTooSlow);
});

test("time that the receiver itself takes does not count against the sender", async () => {
  const pace = watchPace({ bytesPerSecond: 1000, slowMs: 60 }, () => undefined);
  await pace.during(Bun.sleep(200));
  expect(pace.isTooSlow()).toBe(false);
  await Bun.sleep(200);
  expect(pace.isTooSlow()).toBe(true);
  pace.end();
});

test("without a minimum rate any speed is allowed", async () => {
  const pace = watchPace({ bytesPerSecond: 0, slowMs: 10 }, () => undefined);
  await Bun.sleep(60);
  expect(pace.isTooSlow()).toBe(false);
  pace.end();
});
