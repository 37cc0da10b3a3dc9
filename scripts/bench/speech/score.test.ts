import { expect, test } from "bun:test";
import { scoreSpeech } from "./score.ts";

const SAID = [
  { start: 1, end: 3, text: "Go forward, ten meters." },
  { start: 5, end: 8, text: "Ever tried. Ever failed." },
];
const CLEAN = { words: 8, replaced: 0, lost: 0, invented: 0, lostUtterances: 0, inSilence: 0 };

test.each([
  ["all of it", [{ start: 1, end: 8, text: "go forward ten meters, ever tried, ever failed" }], {}],
  [
    "another word",
    [
      { start: 1, end: 3, text: "go forward ten metres" },
      { start: 5, end: 8, text: "ever tried ever failed" },
    ],
    { replaced: 1 },
  ],
  [
    "a lost utterance",
    [{ start: 1, end: 3, text: "go forward ten meters ever" }],
    { lost: 3, lostUtterances: 1 },
  ],
  [
    "words without speech",
    [
      { start: 1, end: 8, text: "go forward ten meters ever tried ever failed" },
      { start: 20, end: 22, text: "Thank you." },
    ],
    { invented: 2, inSilence: 2 },
  ],
  ["nothing", [], { lost: 8, lostUtterances: 2 }],
])("%s", (_name, heard, differences) => {
  expect(scoreSpeech(SAID, heard, "en")).toEqual({ ...CLEAN, ...differences });
});
