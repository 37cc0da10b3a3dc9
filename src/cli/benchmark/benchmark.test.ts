import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { samplePath, secondsOf, wordsIn } from "../../e2e/samples.ts";
import { databasePath, openDatabase } from "../../store/database.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";
import { CommandError } from "../frame/context.ts";
import { findBenchmarkFiles } from "./benchmark-files.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "shruti-benchmark-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));
const write = (name: string, text: string) => writeFileSync(join(directory, name), text);

describe("choosing the recordings to score", () => {
  test("takes those that have a text file beside them", () => {
    write("a.wav", "");
    write("a.txt", "one two");
    write("b.mp3", "");
    const { files, leftOut } = findBenchmarkFiles(directory, "hi", false);
    expect(files).toEqual([{ name: "a.wav", path: join(directory, "a.wav"), transcript: "one two" }]);
    expect(leftOut).toEqual(["b.mp3: there is no b.txt"]);
  });

  test("takes those of a table: joins lines by time or channel, and leaves out other languages", () => {
    write(
      "transcripts.tsv",
      "file\tlanguage\tchannel\tstart\ttranscript\n" +
        "x.wav\thi\t1\t1.0\tदो\r\nx.wav\thi\t0\t2.0\tतीन\nx.wav\thi\t0\t0.5\tएक\ny.wav\ten\t0\t0\tone\n\n",
    );
    const mixed = findBenchmarkFiles(directory, "hi", false);
    expect(mixed.files.map(({ name, transcript }) => [name, transcript])).toEqual([["x.wav", "एक दो तीन"]]);
    expect(mixed.leftOut).toEqual(["y.wav: its language is en"]);
    expect(findBenchmarkFiles(directory, "hi", true).files[0]?.transcript).toBe("एक तीन दो");
  });

  test("fails when there is nothing to score, a column of the table is missing, or the directory does not exist", () => {
    expect(() => findBenchmarkFiles(directory, "hi", false)).toThrow(CommandError);
    expect(() => findBenchmarkFiles(join(directory, "none"), "hi", false)).toThrow("there is no directory");
    write("transcripts.tsv", "name\ttext\na.wav\tx\n");
    expect(() => findBenchmarkFiles(directory, "hi", false)).toThrow("no column file");
  });
});

test("a transcript that is a link out of the folder is refused, because the report would show it", () => {
  const secret = join(directory, "secret");
  writeFileSync(secret, "a private key");
  const calls = join(directory, "calls");
  mkdirSync(calls);
  write("calls/a.wav", "");
  symlinkSync(secret, join(calls, "a.txt"));
  expect(() => findBenchmarkFiles(calls, "hi", false)).toThrow("a link that leads out of the folder");
  symlinkSync(secret, join(calls, "transcripts.tsv"));
  expect(() => findBenchmarkFiles(calls, "hi", false)).toThrow("a link that leads out of the folder");
});

describe("references of any editor", () => {
  const hindi = "मेरा काम नंबर पाँच है";
  const utf16 = (text: string) => Buffer.from(`\uFEFF${text}`, "utf16le");
  const readable = (text: string) => [
    Buffer.from(text),
    Buffer.from(`\uFEFF${text}`),
    utf16(text),
    utf16(text).swap16(),
  ];

  test("are read in UTF-8 and UTF-16, as text files and as a table", () => {
    write("a.wav", "");
    for (const bytes of readable(hindi)) {
      writeFileSync(join(directory, "a.txt"), bytes);
      expect(findBenchmarkFiles(directory, "hi", false).files[0]?.transcript).toBe(hindi);
    }
    for (const end of ["\n", "\r\n", "\r"]) {
      for (const bytes of readable(`file\ttranscript${end}a.wav\t${hindi}${end}`)) {
        writeFileSync(join(directory, "transcripts.tsv"), bytes);
        expect(findBenchmarkFiles(directory, "hi", false).files).toMatchObject([{ transcript: hindi }]);
      }
    }
  });

  test("are refused by their names in other encodings, before anything is scored", () => {
    write("a.wav", "");
    const others = [Buffer.from("caf\xE9", "latin1"), utf16(hindi).subarray(2), utf16(hindi).subarray(0, 9)];
    for (const bytes of others) {
      rmSync(join(directory, "transcripts.tsv"), { force: true });
      for (const name of ["a.txt", "transcripts.tsv"]) {
        writeFileSync(join(directory, name), bytes);
        const find = () => findBenchmarkFiles(directory, "hi", false);
        expect(find).toThrow(CommandError);
        expect(find).toThrow(new RegExp(`${name}: it .*save it as UTF-8`));
      }
    }
  });

  test("may have capital letters in their endings, and links that lead nowhere are left out", () => {
    write("CALL.WAV", "");
    write("CALL.TXT", "one");
    symlinkSync("nowhere", join(directory, "b.wav"));
    symlinkSync("circle.txt", join(directory, "circle.txt"));
    const { files, leftOut } = findBenchmarkFiles(directory, "en", false);
    expect(files).toMatchObject([{ name: "CALL.WAV", transcript: "one" }]);
    expect(leftOut).toEqual(
      ["b.wav", "circle.txt"].map((name) => `${name}: it is a link that leads nowhere`),
    );
  });
});

describe("the command", () => {
  const environment = () => ({
    SHRUTI_STORAGE_DATA_DIR: join(directory, "data"),
    SHRUTI_LOG_LEVEL: "silent",
    XDG_CACHE_HOME: directory,
  });
  const run = (...args: string[]) => runCaptured(["benchmark", ...args], environment());

  test("scores what the demonstration model recognizes, and continues after a file that is not a recording", async () => {
    copyFileSync(samplePath("01-en"), join(directory, "good.wav"));
    const said = wordsIn("01-en").split(" ");
    write("good.txt", `${[...said.slice(0, -1), "SOMETHING"].join(", ")}.`);
    write("bad.wav", "this is no sound");
    write("bad.txt", "anything");
    const { out, err, status } = await run(directory, "--model", "demo", "--language", "en", "--json");
    expect(status).toBe(1);
    expect(err).toContain("bad.wav");
    const result = JSON.parse(out);
    expect(result).toMatchObject({ model: "demo", language: "en", mode: "native", total: { files: 1 } });
    expect(result.failed).toHaveLength(1);
    // The reference has another last word than the recording.
    const rate = 1 / said.length;
    expect(result.files[0]).toMatchObject({
      file: "good.wav",
      words: { total: said.length, substitutions: 1, deletions: 0, insertions: 0, error_rate: rate },
    });
    expect(result.files[0].times_real_time).toBeGreaterThan(0);
    const table = await run(directory, "--model", "demo", "--language", "en");
    const cells = ["good\\.wav", secondsOf("01-en").toFixed(1), said.length, (100 * rate).toFixed(1)];
    expect(table.out).toMatch(new RegExp(cells.join(" +")));
    expect(table.out).toMatch(/\nall /);
  }, 60_000);

  test("compares models in one table, as JSON and as a page, and their cards keep the figures", async () => {
    const models = join(directory, "data", "models");
    mkdirSync(models, { recursive: true });
    openDatabase(databasePath(join(directory, "data"))).close();
    const manifest = readFileSync(join(import.meta.dir, "../../../models/demo.toml"), "utf8");
    for (const [id, changed] of [
      ["good", manifest],
      // Chunks of half a minute, which this model is bad at.
      ["long", manifest.replace(/^max_chunk_seconds = .*$/m, "max_chunk_seconds = 29.5")],
    ] as const) {
      copyFileSync(join(import.meta.dir, "../../../models/demo.bin"), join(models, `${id}.bin`));
      writeFileSync(join(models, `${id}.toml`), changed.replace(/^id = .*$/m, `id = "${id}"`));
    }
    const data = join(directory, "calls <b>");
    mkdirSync(data);
    for (const name of ["01-en", "04-en"]) {
      copyFileSync(samplePath(name), join(data, `${name}.wav`));
      writeFileSync(join(data, `${name}.txt`), `${wordsIn(name)} & nothing`);
    }
    const page = join(directory, "report.html");
    const options = ["--language", "en", "--models", "good,long"];
    const compared = await run(data, ...options, "--report", page, "--json");
    expect({ status: compared.status, err: compared.err }).toMatchObject({ status: 0 });
    const { models: both } = JSON.parse(compared.out);
    expect(both.map(({ model }: { model: string }) => model)).toEqual(["good", "long"]);
    for (const { total, files, memory_bytes: memory, device } of both) {
      expect(device).toBe("cpu");
      expect(memory).toBeGreaterThan(50e6);
      const [low, high] = total.word_error_interval;
      expect(low).toBeLessThanOrEqual(total.words.error_rate);
      expect(high).toBeGreaterThanOrEqual(total.words.error_rate);
      for (const { words, differences } of files) {
        expect(differences).toHaveLength(words.substitutions + words.deletions + words.insertions);
      }
      expect(files[0].differences).toContainEqual({
        word: files[0].words.total - 1,
        said: "nothing",
        heard: null,
      });
    }
    expect((await run(data, ...options)).out).toMatch(/\nlong +2 +\d+ +\d+\.\d \(\d+\.\d–\d+\.\d\)/);
    const html = readFileSync(page, "utf8");
    expect(html).toContain("calls &lt;b&gt;");
    expect(html).not.toContain("<b>&");
    expect(html).toContain('<span class="del">nothing</span>');
    expect(html).toContain("<svg");
    // The page needs no other file and runs nothing.
    expect(html).not.toMatch(/<script|src=|href=|url\(|@import/);
    const shown = await runCaptured(["models", "show", "good"], environment());
    expect(shown.out).toMatch(/\d{4}-\d\d-\d\d +calls <b> +en +native +2 +/);
    const json = JSON.parse((await runCaptured(["models", "show", "good", "--json"], environment())).out);
    expect(json.measured).toMatchObject([
      { data: "calls <b>", recordings: 2, word_error_rate: expect.any(Number) },
    ]);
    expect((await run(data, "--language", "en", "--models", "good,good")).status).toBe(2);
    expect((await run(data, "--language", "en", "--models", "good", "--model", "long")).status).toBe(2);
    expect((await run(data, "--language", "en", "--models", "good,none")).status).not.toBe(0);
  }, 120_000);

  test("a language or mode that the model lacks is refused before anything is decoded", async () => {
    write("a.wav", "");
    write("a.txt", "x");
    const { status, err } = await run(directory, "--language", "ta");
    expect(status).not.toBe(0);
    expect(err).toContain("error:");
  }, 30_000);
});
