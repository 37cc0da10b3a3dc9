import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TranscriptionResult } from "../../http/wire/schemas.ts";
import { databasePath, openDatabase } from "../../store/database.ts";
import { parseSrt, parseVtt } from "../../testing/answers/subtitle-parsers.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";
import { TINY_CTC, tinyRecordings } from "../../testing/makers/tiny-ctc.ts";

/** `shruti transcribe` with a model that can time words. */

const folder = mkdtempSync(join(tmpdir(), "shruti-word-times-"));
const dataDir = join(folder, "data");
const plain = { SHRUTI_STORAGE_DATA_DIR: dataDir, SHRUTI_LOG_LEVEL: "silent" };
const environment = { ...plain, SHRUTI_CAPABILITIES_WORD_TIMESTAMPS: "true" };

const [recording] = tinyRecordings.filter(({ text }) => /^[a-z ]+$/.test(text) && text.split(" ").length > 2);
const { path, name, text } = recording as NonNullable<typeof recording>;
const seconds = (recording?.pcm.length ?? 0) / 16_000;
const stem = name.replace(/\.wav$/, "");

beforeAll(async () => {
  mkdirSync(join(dataDir, "models"), { recursive: true });
  openDatabase(databasePath(dataDir)).close();
  const added = await runCaptured(
    ["models", "add", TINY_CTC, "--id", "tiny", "--features", "kaldi", "--language", "en", "--no-trial"],
    environment,
  );
  expect({ status: added.status, err: added.status === 0 ? "" : added.err }).toEqual({ status: 0, err: "" });
});
afterAll(() => rmSync(folder, { recursive: true }));

const transcribe = (...options: string[]) =>
  runCaptured(["transcribe", path, "--language", "en", "--model", "tiny", ...options], environment);

async function printed(...options: string[]): Promise<string> {
  const { out, err, status } = await transcribe(...options);
  expect({ status, err: status === 0 ? "" : err }).toEqual({ status: 0, err: "" });
  return out;
}

test("JSON has the words of the text, in order, within their segments and the speech", async () => {
  const { segments, warnings } = JSON.parse(
    await printed("--timestamps", "word", "--format", "json"),
  ) as TranscriptionResult;
  expect(segments.map((segment) => segment.text).join(" ")).toBe(text);
  expect(warnings).not.toContain("word_times_missing");
  let last = 0.05;
  for (const { start = 0, end = 0, words = [], ...segment } of segments) {
    expect(words.map((word) => word.text).join(" ")).toBe(segment.text);
    for (const word of words) {
      expect(word.start).toBeGreaterThanOrEqual(Math.max(last, start));
      expect(word.end).toBeGreaterThan(word.start);
      expect(word.end).toBeLessThanOrEqual(end);
      expect(word.confidence).toBeGreaterThan(0.5);
      last = word.end;
    }
  }
  // The recording has a tenth of a second of silence at its end.
  expect(last).toBeLessThan(seconds);
  expect(await printed("--format", "json")).not.toContain('"words"');
  expect(await printed("--format", "json", "--timestamps", "none")).not.toContain('"start"');
});

test("CTM on standard output, in a file and in a folder of several", async () => {
  const lines = (await printed("--format", "ctm")).trimEnd().split("\n");
  expect(lines.map((line) => line.split(" ")[4]).join(" ")).toBe(text);
  for (const line of lines)
    expect(line).toMatch(new RegExp(`^${stem} 1 \\d+\\.\\d{3} 0\\.\\d{3} [a-z]+ [01]\\.\\d{3}$`));
  const file = join(folder, "one.ctm");
  await printed("--output", file);
  expect(readFileSync(file, "utf8")).toBe(`${lines.join("\n")}\n`);
  mkdirSync(join(folder, "calls", "day 1"), { recursive: true });
  symlinkSync(path, join(folder, "calls", "day 1", "a b.wav"));
  const output = join(folder, "out");
  const { status } = await runCaptured(
    ["transcribe", join(folder, "calls"), "--language", "en", "--format", "ctm", "--output", output],
    environment,
  );
  expect(status).toBe(0);
  expect(readdirSync(output, { recursive: true })).toContain(join("day 1", "a b.ctm"));
  expect(readFileSync(join(output, "day 1", "a b.ctm"), "utf8")).toStartWith("day_1/a_b 1 ");
});

test("subtitles by words, with their limits and their times", async () => {
  const vtt = parseVtt(await printed("--format", "vtt", "--word-times", "--max-line-characters", "20"));
  expect(vtt.flatMap(({ lines }) => lines).join(" ")).toBe(text);
  const words = text.split(" ").length;
  expect(vtt.flatMap(({ timestamps = [] }) => timestamps).length).toBe(words - vtt.length);
  const srt = parseSrt(
    await printed(
      "--format",
      "srt",
      "--timestamps",
      "word",
      "--max-lines",
      "1",
      "--max-line-characters",
      "10",
    ),
  );
  expect(srt.flatMap(({ lines }) => lines).join(" ")).toBe(text);
  expect(srt.every(({ lines }) => lines.length === 1 && (lines[0]?.length ?? 0) <= 10)).toBe(true);
});

describe("wrong usage", () => {
  const WRONG: [title: string, options: string[], message: string][] = [
    ["CTM without word times", ["--format", "ctm", "--timestamps", "segment"], "--timestamps word"],
    ["word times in SubRip", ["--format", "srt", "--word-times"], "--word-times is for --format vtt"],
    ["lines in text", ["--max-lines", "1"], "--max-lines is for --format srt and vtt"],
    ["no lines", ["--format", "srt", "--max-lines", "0"], "1 to 5"],
    ["narrow lines", ["--format", "srt", "--max-line-characters", "9"], "10 to 200"],
    ["long cues", ["--format", "vtt", "--max-cue-seconds", "61"], "1 to 60"],
    ["unknown timestamps", ["--timestamps", "letter"], "none, segment, word"],
  ];
  test.each(WRONG)("%s", async (_title, options, message) => {
    const { out, err, status } = await transcribe(...options);
    expect({ out, status }).toEqual({ out: "", status: 2 });
    expect(err).toContain(message);
  });

  test.each([[["--timestamps", "word"]], [["--format", "ctm"]]])(
    "%p while word times are switched off: nothing is transcribed",
    async (options) => {
      const output = join(folder, "nothing");
      const { err, status } = await runCaptured(
        ["transcribe", path, "--language", "en", "--output", output, ...options],
        plain,
      );
      expect(status).toBe(2);
      expect(err).toContain("capabilities.word_timestamps = true");
      expect(existsSync(output)).toBe(false);
    },
  );
});
