import { heapStats } from "bun:jsc";
import { describe, expect, test } from "bun:test";
import type { SegmentationInfo } from "./neural-models.ts";
import { turnsOf, turnsOfWindow } from "./neural-turns.ts";
import type { HeardTrack } from "./neural-windows.ts";

/** Frames of 10 ms, windows of 1 s that begin every 0.1 s. A frame is the 10 ms around its middle. */
const INFO: SegmentationInfo = {
  speakers: 3,
  classes: [0, 1, 2, 4, 3, 5, 6],
  windowSamples: 16_000,
  frameSamples: 160,
  fieldSamples: 160,
};
const SHIFT_FRAMES = 10;
const WINDOW_FRAMES = 100;

/** Makes the windows that hear exactly this: for each frame of the track the speakers as bits. */
function heard(frames: readonly number[]): HeardTrack {
  const samples = frames.length * 160;
  const count = 1 + Math.ceil(Math.max(0, frames.length - WINDOW_FRAMES) / SHIFT_FRAMES);
  const windows = Array.from({ length: count }, (_, window) =>
    Uint8Array.from({ length: WINDOW_FRAMES }, (_, frame) => frames[window * SHIFT_FRAMES + frame] ?? 0),
  );
  const voices = windows.flatMap((_, window) =>
    [0, 1, 2].map((speaker) => ({ window, speaker, aloneMs: 0, unit: new Float32Array() })),
  );
  return { samples, shiftSamples: SHIFT_FRAMES * 160, windows, voices };
}

const span = (bits: number, frames: number) => Array.from({ length: frames }, () => bits);
const turns = (track: HeardTrack, people = track.voices.map(({ speaker }) => speaker)) =>
  turnsOf(INFO, track, Int32Array.from(people)).map(
    ({ startMs, endMs, speaker }) => `${speaker}: ${startMs}-${endMs}`,
  );

describe("turns", () => {
  test("follow the speakers of the windows, one or two at once", () => {
    const track = heard([...span(1, 100), ...span(3, 50), ...span(2, 150), ...span(0, 20)]);
    expect(turns(track)).toEqual(["0: 5-1505", "1: 1005-3005"]);
  });

  test("a pause up to half a second is filled, and a turn up to 0.3 s is dropped", () => {
    const pauses = (frames: number) => heard([...span(1, 100), ...span(0, frames), ...span(1, 100)]);
    expect(turns(pauses(50))).toEqual(["0: 5-2505"]);
    expect(turns(pauses(51))).toEqual(["0: 5-1005", "0: 1515-2515"]);
    const short = (frames: number) => heard([...span(0, 100), ...span(2, frames), ...span(0, 100)]);
    expect(turns(short(30))).toEqual([]);
    expect(turns(short(31))).toEqual(["1: 1005-1315"]);
  });

  test("are those of the people, whatever their numbers in a window", () => {
    const track = heard(span(1, 300));
    // Every second window calls the same voice by another number.
    const swapped: HeardTrack = {
      ...track,
      windows: track.windows.map((frames, window) => (window % 2 ? frames.map((bits) => bits * 2) : frames)),
    };
    const people = swapped.voices.map(({ window, speaker }) => (speaker === window % 2 ? 5 : 2));
    expect(turns(swapped, people)).toEqual(["5: 5-3005"]);
  });

  test("of equally many votes the lower number is taken", () => {
    const track = heard(span(1, 300));
    const people = track.voices.map(({ window }) => (window % 2 ? 1 : 0));
    expect(turns(track, people)[0]).toStartWith("0: 5-");
  });

  test("of a single window are those of its speakers; without a voice there are none", () => {
    const [frames = new Uint8Array()] = heard([...span(4, 60), ...span(0, 40)]).windows;
    expect(turnsOfWindow(INFO, frames)).toEqual([{ startMs: 5, endMs: 605, speaker: 2 }]);
    expect(turns({ ...heard(span(1, 300)), voices: [] }, [])).toEqual([]);
    expect(turns(heard(span(0, 300)))).toEqual([]);
  });

  test("of an hour are made without memory for each frame", () => {
    const talk = [...span(1, 150), ...span(3, 20), ...span(2, 130), ...span(0, 60)];
    const track = heard(Array.from({ length: 1_000 }, () => talk).flat());
    Bun.gc(true);
    const before = heapStats().heapCapacity;
    expect(turns(track)).toHaveLength(2_000);
    // With an array for each frame it grew by 100 MB.
    expect(heapStats().heapCapacity - before).toBeLessThan(30e6);
  }, 30_000);
});
