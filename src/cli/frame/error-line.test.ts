import { expect, test } from "bun:test";
import { commandStyle } from "./error-line.ts";

test.each([
  ["There is no model x.", "there is no model x"],
  ["there is no file x", "there is no file x"],
  [
    "A part is missing. It was not installed; --no-trial does it.",
    "a part is missing. It was not installed; --no-trial does it",
  ],
  ["SHA-256 differs.", "SHA-256 differs"],
  ["FFmpeg ended.", "FFmpeg ended"],
  ["Whisper has no language xx.", "Whisper has no language xx"],
  ["Recording.wav: it is a folder", "Recording.wav: it is a folder"],
  ["the model writes what what …", "the model writes what what …"],
  ["the model writes and so on...", "the model writes and so on..."],
  ["", ""],
])("%s is printed as %s", (message, printed) => {
  expect(commandStyle(message)).toBe(printed);
});
