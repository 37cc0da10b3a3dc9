import { expect, test } from "bun:test";
import { createSharedTime } from "./shared-time.ts";

/** How many threads chunks are said to have had, on a machine of four thread groups and with a clock that the test moves. */

type Kind = "urgent" | "background";
const SHARE = { threadGroups: 4, groupThreads: 4 };

function open() {
  let nowMs = 0;
  const time = createSharedTime(() => nowMs);
  const begin = (kind: Kind, groupThreads = 4) => time.enter(kind, { ...SHARE, groupThreads });
  return { begin, pass: (ms: number) => (nowMs += ms) };
}

const cases: [string, { kinds: Kind[]; groupThreads?: number; threads: number[] }][] = [
  ["one chunk has all", { kinds: ["background"], threads: [4] }],
  ["one chunk has no more than it may", { kinds: ["background"], groupThreads: 1, threads: [1] }],
  ["two have half each", { kinds: ["background", "background"], threads: [2, 2] }],
  ["eight share them", { kinds: Array<Kind>(8).fill("background"), threads: Array<number>(8).fill(0.5) }],
  [
    "chunks that clients wait for leave the others their threads, and have one each",
    { kinds: ["urgent", "background", "background"], threads: [1, 1, 1] },
  ],
];
test.each(cases)("%s", (_, { kinds, groupThreads, threads }) => {
  const { begin, pass } = open();
  const ends = kinds.map((kind) => begin(kind, groupThreads));
  pass(100);
  expect(ends.map((end) => end())).toEqual(threads);
});

test("a chunk has the mean of its time, and its first end counts", () => {
  const { begin, pass } = open();
  const first = begin("background");
  pass(100);
  const second = begin("background");
  pass(100);
  expect(second()).toBe(2);
  expect(first()).toBe(3);
  pass(100);
  expect(first()).toBe(3);
});

test("a chunk that took no time had one", () => {
  expect(open().begin("background")()).toBe(1);
});
