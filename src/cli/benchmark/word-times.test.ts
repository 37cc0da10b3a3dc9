import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { databasePath, openDatabase } from "../../store/database.ts";
import { findChromium } from "../../testing/console/chromium.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";
import { TINY_CTC, tinyRecordings } from "../../testing/makers/tiny-ctc.ts";
import { findBenchmarkFiles } from "./benchmark-files.ts";
import { readCtm } from "./word-times.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-benchmark-words-"));
const calls = join(folder, "calls & more");
const dataDir = join(folder, "data");
const environment = {
  ...{ SHRUTI_STORAGE_DATA_DIR: dataDir, SHRUTI_LOG_LEVEL: "silent" },
  SHRUTI_CAPABILITIES_WORD_TIMESTAMPS: "true",
};
const recordings = tinyRecordings
  .filter(({ text }) => /^[a-z ]+$/.test(text) && text.split(" ").length > 2)
  .slice(0, 2);

beforeAll(async () => {
  mkdirSync(join(dataDir, "models"), { recursive: true });
  openDatabase(databasePath(dataDir)).close();
  mkdirSync(calls);
  for (const { path, name, text } of recordings) {
    copyFileSync(path, join(calls, name));
    writeFileSync(join(calls, name.replace(/wav$/, "txt")), text);
  }
  const added = await runCaptured(
    ["models", "add", TINY_CTC, "--id", "tiny", "--features", "kaldi", "--language", "en", "--no-trial"],
    environment,
  );
  expect({ status: added.status, err: added.status === 0 ? "" : added.err }).toEqual({ status: 0, err: "" });
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("a reference in CTM", () => {
  test("has the starts of words by channels, and comments", () => {
    const text = ";; by hand\ncall 1 0.100 0.250 one 0.99\r\ncall B 1.5 0 two\n\ncall 2 0.5 .2 three\n";
    expect(readCtm(text, "call.ctm")).toEqual([
      { text: "one", startMs: 100, channel: 0 },
      { text: "two", startMs: 1_500, channel: 1 },
      { text: "three", startMs: 500, channel: 1 },
    ]);
  });

  test.each(["call 1 0.1 0.2", "call 1 x 0.2 one", "call 1 -1 0.2 one", "call 1 1e309 0.2 one", "one"])(
    "%p is refused by its line",
    (line) => {
      expect(() => readCtm(`call 1 0 1 a\n${line}\n`, "/calls/call.ctm")).toThrow("/calls/call.ctm: line 2 ");
    },
  );

  test("belongs to the recording beside it, and is none itself", () => {
    const own = join(folder, "own");
    mkdirSync(own);
    for (const name of ["a.wav", "b.wav"]) writeFileSync(join(own, name), "");
    for (const name of ["a.txt", "b.txt"]) writeFileSync(join(own, name), "one");
    writeFileSync(join(own, "a.ctm"), "a 1 0.5 1 one\n");
    expect(
      findBenchmarkFiles(own, "en", false).files.map(({ name, words }) => [name, words?.length]),
    ).toEqual([
      ["a.wav", 1],
      ["b.wav", undefined],
    ]);
  });
});

type Word = { text: string; start: number; end: number; confidence: number };

describe("the command", () => {
  const page = join(folder, "reports", "words.html");
  const run = (...options: string[]) =>
    runCaptured(["benchmark", calls, "--language", "en", ...options], environment);

  test("writes the words into its JSON, and says how exact they are", async () => {
    const first = JSON.parse((await run("--timestamps", "word", "--json")).out);
    expect(first.total).not.toHaveProperty("start_errors");
    for (const { file, word_times: words } of first.files) {
      expect(words.map(({ text }: Word) => text).join(" ")).toBe(
        recordings.find(({ name }) => name === file)?.text as string,
      );
      // The reference has each word 40 ms late.
      const lines = words.map(
        ({ text, start }: Word) => `${file} 1 ${(start + 0.04).toFixed(3)} 0.1 ${text}\n`,
      );
      writeFileSync(join(calls, file.replace(/wav$/, "ctm")), lines.join(""));
    }
    mkdirSync(join(folder, "reports"));
    const second = await run("--timestamps", "word", "--json", "--report", page);
    const { total, files } = JSON.parse(second.out);
    const count = recordings.reduce((sum, { text }) => sum + text.split(" ").length, 0);
    expect(total.start_errors).toEqual({ words: count, median_ms: 40, p95_ms: 40, bias_ms: -40 });
    expect(files[0].start_errors.median_ms).toBe(40);
    const compared = JSON.parse((await run("--timestamps", "word", "--json", "--models", "tiny")).out);
    expect(compared.models[0].total.start_errors.median_ms).toBe(40);
    expect(compared.models[0].files[0].word_times).toEqual(files[0].word_times);
    const table = await run("--timestamps", "word");
    expect(table.err).toContain(`starts of ${count} words: half are within 40 ms, and 95 % within 40 ms`);
    expect((await run("--json")).out).not.toContain("word_times");
  }, 60_000);

  test("the page has a policy under which nothing but its own script runs", () => {
    const html = readFileSync(page, "utf8");
    expect(html).toMatch(
      /content="default-src 'none'; style-src 'unsafe-inline'; media-src 'self' file:; script-src 'sha256-/,
    );
    expect(html).toContain('src="../calls%20%26%20more/');
    expect(html.match(/<script/g)?.length).toBe(1);
  });

  test.skipIf(findChromium() === undefined)(
    "the page plays a recording at the word that is clicked (needs Chromium)",
    async () => {
      const executablePath = findChromium() as string;
      const args = ["--autoplay-policy=no-user-gesture-required"];
      const browser = await chromium.launch({ executablePath, chromiumSandbox: false, args });
      try {
        const view = await browser.newPage();
        const problems: string[] = [];
        view.on("console", (message) => problems.push(message.text()));
        await view.goto(pathToFileURL(page).href);
        await view.locator("summary").first().click();
        const word = view.locator("[data-at]").nth(2);
        const at = Number(await word.getAttribute("data-at"));
        await word.click();
        const audio = view.locator("audio").first();
        const secondsOf = () =>
          audio.evaluate((each) => (each as unknown as { currentTime: number }).currentTime);
        await view.locator("[data-at].now").first().waitFor({ timeout: 10_000 });
        expect(await secondsOf()).toBeGreaterThanOrEqual(at - 0.01);
        expect(problems).toEqual([]);
      } finally {
        await browser.close();
      }
    },
    60_000,
  );
});
