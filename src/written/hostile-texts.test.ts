import { expect, test } from "bun:test";
import { applyScript, normalizeForScripts } from "../transliteration/apply-script.ts";
import { applyWritten, spokenAgain } from "./apply.ts";

/** Tests that the time of long texts without sense grows with their length, and that the spoken words come back. */

const MOST_MS = 2_000;

/** Returns the time of the processor, milliseconds. */
function processorMs(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

const repeated = (word: string, count: number, between = " ") => Array(count).fill(word).join(between);

const TEXTS: readonly (readonly [title: string, language: string, text: string])[] = [
  ["numbers with commas between", "en", repeated("twenty nine", 20_000, ", ")],
  ["numbers of two digits and of one", "hi", repeated("एक पच्चीस", 20_000, ", ")],
  ["number words", "en", repeated("hundred and", 50_000)],
  ["joiners inside of an ending", "hi", `पच्चीसव${"\u200d".repeat(20_000)}ीं`],
  ["Tamil in one word", "ta", "ஆயிரத்துஇருநூற்று".repeat(5_000)],
  ["Malayalam in one word", "ml", "ആയിരത്തിഅഞ്ച്".repeat(5_000)],
  ["Kannada in one word", "kn", "ಸಾವಿರದಐದು".repeat(5_000)],
];

test.each(TEXTS)("figures: %s", (_title, language, text) => {
  applyWritten("", { language });
  let spoken = "";
  const ms = processorMs(() => {
    const written = applyWritten(text, { language });
    spoken = spokenAgain(written.text, written.changes);
  });
  expect(spoken === text).toBe(true);
  expect(ms).toBeLessThan(MOST_MS);
});

test.each(["hi", "bn", "pa", "gu"])("Latin letters of a long word of %s", (language) => {
  const letter = { hi: "क", bn: "ক", pa: "ਕ", gu: "ક" }[language] ?? "";
  const word = letter.repeat(100_000);
  const ms = processorMs(() => applyScript(word, { language, script: "latin" }));
  expect(ms).toBeLessThan(MOST_MS);
});

test("a long row of marks on one letter", () => {
  const ms = processorMs(() => normalizeForScripts(`क${"ाि".repeat(50_000)}`, "hi"));
  expect(ms).toBeLessThan(MOST_MS);
});
