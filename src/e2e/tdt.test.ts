import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeNemo, makeNemoConfig, makeNemoTensors, NEMO_MODELS } from "../testing/makers/nemo-maker.ts";
import { tinyRecordings } from "../testing/makers/tiny-ctc.ts";
import { recognizePlainly } from "../testing/reference-tdt/reference.ts";
import { type Installation, install } from "./kit.ts";

/** Tests a model of NeMo on the executable: a `.nemo` file is added, and writes what the reference does. */

let installation: Installation;
beforeAll(async () => {
  installation = await install();
}, 300_000);
afterAll(() => installation?.remove());

const MODEL = NEMO_MODELS.sure;
const TENSORS = makeNemoTensors(MODEL);

test("a .nemo file is added and recognizes", async () => {
  const source = join(installation.folder, "tiny.nemo");
  writeFileSync(source, makeNemo(makeNemoConfig(MODEL), TENSORS));
  const options = ["--languages", "en", "--no-trial", "--licence", "ours"];
  expect(await installation.output("models", "add", source, ...options)).toContain("tiny");
  expect(await installation.output("models", "add", source, "--quantise", "q8_0", ...options)).toContain(
    "tiny-q8_0",
  );
  const [recording] = tinyRecordings;
  if (!recording) throw new Error("there is no recording");
  const { tokens } = recognizePlainly(
    MODEL,
    TENSORS,
    Float32Array.from(recording.pcm, (value) => value / 32_768),
  );
  const text = tokens
    .map(({ id }) => MODEL.tokens[id])
    .join("")
    .replaceAll("▁", " ")
    .trim();
  expect(text.length).toBeGreaterThan(10);
  for (const model of ["tiny", "tiny-q8_0"]) {
    const args = ["--language", "en", "--model", model, "--format", "json"];
    const result = JSON.parse(await installation.output("transcribe", recording.path, ...args));
    expect(result).toMatchObject({ status: "completed", model, text, languages: ["en"] });
  }
}, 120_000);
