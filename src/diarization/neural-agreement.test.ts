import { expect, test } from "bun:test";
import { agreementOf } from "./neural-agreement.ts";
import type { SegmentationInfo } from "./neural-models.ts";
import type { HeardTrack } from "./neural-windows.ts";

/** Windows of 12 frames, each half a window after the one before. */
const FRAMES = 12;
const INFO: SegmentationInfo = {
  speakers: 2,
  classes: [0, 1, 2, 3],
  windowSamples: 1_200,
  frameSamples: 100,
  fieldSamples: 100,
};
const noYield = async () => undefined;

/** Makes a track: what each window hears in its first and its second half, as bits, and the people of its speakers. */
function agreementIn(windows: readonly { hears: [number, number]; people: readonly number[] }[]) {
  const voices = windows.flatMap(({ people }, window) =>
    people.map((_, speaker) => ({ window, speaker, aloneMs: 600, unit: new Float32Array() })),
  );
  const track: HeardTrack = {
    samples: 0,
    shiftSamples: 600,
    windows: windows.map(({ hears: [first, second] }) =>
      new Uint8Array(FRAMES).fill(first, 0, FRAMES / 2).fill(second, FRAMES / 2),
    ),
    voices,
  };
  const people = Int32Array.from(windows.flatMap((window) => window.people));
  return agreementOf(INFO, track, people, noYield);
}

test.each<[string, Parameters<typeof agreementIn>[0], number[]]>([
  [
    "is whole where windows hear the same person, under whatever number",
    [
      { hears: [1, 1], people: [0] },
      { hears: [2, 2], people: [1, 0] },
      { hears: [1, 1], people: [0] },
    ],
    [1, 1],
  ],
  [
    "is none for a person whom one window alone hears, where the others hear two people",
    [
      { hears: [1, 1], people: [0] },
      { hears: [1, 1], people: [2] },
      { hears: [1, 1], people: [1] },
    ],
    [0, 0, 0],
  ],
  [
    "is a share of the moments",
    [
      { hears: [1, 1], people: [0] },
      { hears: [1, 1], people: [0] },
      { hears: [1, 1], people: [1] },
    ],
    [2 / 3, 0],
  ],
  [
    "leaves out silence, two at once and voices of no one",
    [
      { hears: [1, 1], people: [0] },
      { hears: [0, 3], people: [0, 1] },
      { hears: [1, 1], people: [-1] },
      { hears: [1, 1], people: [1] },
    ],
    [1, 1],
  ],
  ["is whole in a single window", [{ hears: [1, 2], people: [0, 1] }], [1, 1]],
  ["is of nobody without voices", [{ hears: [0, 0], people: [] }], []],
])("agreement %s", async (_title, windows, expected) => {
  expect([...(await agreementIn(windows))]).toEqual(expected);
});

test("an abort ends the work at the next pause", async () => {
  const reason = new Error("aborted");
  const track: HeardTrack = { samples: 0, shiftSamples: 600, windows: [new Uint8Array(FRAMES)], voices: [] };
  const running = agreementOf(INFO, track, new Int32Array(), async () => {
    throw reason;
  });
  await expect(running).rejects.toBe(reason);
});
