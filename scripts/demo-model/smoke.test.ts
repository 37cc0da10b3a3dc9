import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkModelFile } from "../../src/families/whisper/model-file.ts";
import { promptFor } from "../../src/pipeline/wording.ts";

/** A short run of the recipe of the demonstration model. */

const SCRIPT = join(import.meta.dir, "train.sh");
const TIMEOUT_MS = 15 * 60_000;
const folder = mkdtempSync(join(tmpdir(), "shruti-demo-model-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function run(...command: string[]) {
  return Bun.spawnSync(["nice", "-n", "19", ...command], {
    env: { ...process.env, DEMO_MODEL_DIR: folder, DATA: join(folder, "data"), UNTIL: "6" },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
}

const check = run(SCRIPT, "--check");
const lacks = check.exitCode === 0 ? "" : ` (needs other things: ${check.stderr.toString().trim()})`;

type Results = { sets: Record<string, { recordings: number }>; transcripts: { heard: string }[] };

test.skipIf(lacks !== "")(
  `the recipe makes a model that loads, starting without any data${lacks}`,
  () => {
    const smoke = run(SCRIPT, "--smoke");
    expect(smoke.exitCode, smoke.stderr.toString().slice(-2000)).toBe(0);
    expect(smoke.stdout.toString()).toMatch(/^6 of \d+ steps;/m);

    const model = checkModelFile(join(folder, "demo-q5_1.bin"));
    expect(model).toMatchObject({ multilingual: true, fileType: "q5_1", audioLayers: 4, textLayers: 3 });
    expect(model.bytes).toBeLessThanOrEqual(8_000_000);

    // whisper-cli has loaded it and written a result for every recording.
    const results = JSON.parse(readFileSync(join(folder, "results-cli.json"), "utf8")) as Results;
    expect(Object.keys(results.sets)).toContain("long hi telephone");
    expect(results.transcripts.length).toBe(
      Object.values(results.sets).reduce((sum, { recordings }) => sum + recordings, 0),
    );

    const train = join(import.meta.dir, "train.py");
    const rest = run("/usr/bin/python3", "-B", train, join(folder, "run"), "--scale", "0.0005");
    expect(rest.stderr.toString()).toBe("");
    expect(rest.stdout.toString()).toMatch(/^(\d+) of \1 steps;/m);
  },
  TIMEOUT_MS,
);

test("the model is trained with the code-mixing prompt that Shruti uses", () => {
  const lexicon = readFileSync(join(import.meta.dir, "lexicon.py"), "utf8");
  expect(lexicon).toContain(`CODEMIX_PROMPT = "${promptFor("hi", "codemix")}"`);
});
