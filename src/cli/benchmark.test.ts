import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { samplePath, secondsOf, wordsIn } from "../e2e/samples.ts";
import { runCaptured } from "../testing/run-cli.ts";
import { findBenchmarkFiles } from "./benchmark-files.ts";
import { CommandError } from "./context.ts";

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
    expect(() => findBenchmarkFiles(join(directory, "none"), "hi", false)).toThrow("There is no directory");
    write("transcripts.tsv", "name\ttext\na.wav\tx\n");
    expect(() => findBenchmarkFiles(directory, "hi", false)).toThrow("no column file");
  });
});

describe("the command", () => {
  const run = (...args: string[]) =>
    runCaptured(["benchmark", ...args], {
      SHRUTI_STORAGE_DATA_DIR: join(directory, "data"),
      XDG_CACHE_HOME: directory,
    });

  test("scores what the demonstration model recognizes, and continues after a file that is not a recording", async () => {
    copyFileSync(samplePath("01-en"), join(directory, "good.wav"));
    const said = wordsIn("01-en").split(" ");
    write("good.txt", `${[...said.slice(0, -1), "SOMETHING"].join(", ")}.`);
    write("bad.wav", "this is no sound");
    write("bad.txt", "anything");
    const { out, err, status } = await run(directory, "--language", "en", "--json");
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
    const table = await run(directory, "--language", "en");
    const cells = ["good\\.wav", secondsOf("01-en").toFixed(1), said.length, (100 * rate).toFixed(1)];
    expect(table.out).toMatch(new RegExp(cells.join(" +")));
    expect(table.out).toMatch(/\nall /);
  }, 60_000);

  test("a language or mode that the model lacks is refused before anything is decoded", async () => {
    write("a.wav", "");
    write("a.txt", "x");
    const { status, err } = await run(directory, "--language", "ta");
    expect(status).not.toBe(0);
    expect(err).toContain("error:");
  }, 30_000);
});
