import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { samplePath, utterancesIn } from "../../e2e/samples.ts";
import { normalizeForScoring, wordErrors } from "../../pipeline/wer.ts";
import { databasePath, openDatabase } from "../../store/database.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";

/** Commands with a model whose words have no times. */

const ROOT = join(import.meta.dir, "../../..");
const folder = mkdtempSync(join(tmpdir(), "shruti-untimed-"));
const dataDir = join(folder, "data");
const environment = { SHRUTI_STORAGE_DATA_DIR: dataDir, SHRUTI_LOG_LEVEL: "silent" };

beforeAll(() => {
  mkdirSync(join(dataDir, "models"), { recursive: true });
  openDatabase(databasePath(dataDir)).close();
  const manifest = readFileSync(join(ROOT, "models/demo.toml"), "utf8");
  for (const [id, line] of [
    ["timed", ""],
    ["untimed", "timestamps = false\n"],
  ]) {
    copyFileSync(join(ROOT, "models/demo.bin"), join(dataDir, "models", `${id}.bin`));
    const changed = manifest
      .replace(/^id = .*$/m, `id = "${id}"`)
      .replace(/^\[decoding\]\n/m, `[decoding]\n${line}`);
    writeFileSync(join(dataDir, "models", `${id}.toml`), changed);
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

type Result = { segments: { start: number; end: number; text: string }[]; gaps?: unknown[] };

async function transcribe(model: string, name: string, language: string): Promise<Result> {
  const options = ["--language", language, "--model", model, "--format", "json"];
  const { out, err, status } = await runCaptured(["transcribe", samplePath(name), ...options], environment);
  expect({ status, err: status === 0 ? "" : err }).toEqual({ status: 0, err: "" });
  return JSON.parse(out);
}

test.each([
  ["02-hi", "hi"],
  ["04-en", "en"],
  ["05-hi", "hi"],
  ["12-en-long", "en"],
])(
  "without timestamps, %s has all of its speech, at its times",
  async (name, language) => {
    const said = utterancesIn(name);
    const words = said.map(({ text }) => text).join(" ");
    const errorsOf = ({ segments }: Result): number => {
      const heard = segments.map(({ text }) => text).join(" ");
      const rate = wordErrors(normalizeForScoring(words, language), normalizeForScoring(heard, language));
      return rate ? rate.substitutions + rate.deletions + rate.insertions : Number.POSITIVE_INFINITY;
    };
    const [timed, untimed] = [
      await transcribe("timed", name, language),
      await transcribe("untimed", name, language),
    ];
    expect(errorsOf(untimed)).toBeLessThanOrEqual(errorsOf(timed) + Math.ceil(words.split(" ").length / 20));
    expect(untimed.gaps ?? []).toEqual([]);
    // Every utterance is within segments, give or take half a second, and segments only cover speech.
    for (const { start, end } of said) {
      const covered = untimed.segments.reduce(
        (sum, segment) => sum + Math.max(0, Math.min(segment.end, end) - Math.max(segment.start, start)),
        0,
      );
      expect(covered).toBeGreaterThan(end - start - 0.5);
    }
    const speech = said.reduce((sum, { start, end }) => sum + end - start, 0);
    const shown = untimed.segments.reduce((sum, { start, end }) => sum + end - start, 0);
    expect(shown).toBeLessThan(speech + 0.8 * said.length + 1);
  },
  120_000,
);
