import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { databasePath, openDatabase } from "../../store/database.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";
import {
  type MadeFolder,
  makeOpenAiFile,
  makeTensors,
  makeWords,
  SMALL_SHAPE,
  writeCheckpoint,
} from "../../testing/makers/checkpoint-makers.ts";
import { writeCt2Folder } from "../../testing/makers/ctranslate2-maker.ts";
import { demoTensors } from "../../testing/makers/demo-checkpoint.ts";
import { makeZip } from "../../testing/makers/zip-maker.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-cli-import-"));
const environment = { SHRUTI_CONFIG: join(folder, "shruti.toml"), SHRUTI_LOG_LEVEL: "silent" };
const models = join(folder, "data", "models");
const demo = join(folder, "Shruti Demo");

beforeAll(() => {
  const dataDir = join(folder, "data");
  mkdirSync(dataDir);
  writeFileSync(environment.SHRUTI_CONFIG, `[storage]\ndata_dir = ${JSON.stringify(dataDir)}\n`);
  openDatabase(databasePath(dataDir)).close();
  const { shape, tensors, words } = demoTensors();
  const made: MadeFolder = {
    shape,
    tensors,
    type: "F32",
    form: "torch",
    words: makeWords(shape.vocab, words),
  };
  writeCheckpoint(demo, made);
  writeFileSync(join(demo, "README.md"), "---\nlicense: apache-2.0\nlanguage:\n- hi\n- en\n---\n# A model\n");
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The verdict on English, of which the demonstration model has no person's words. A busy machine may be too slow to tell. */
const NOT_UNDERSTOOD = expect.stringMatching(/^(weak|slow)$/);

const run = (...argv: string[]) => runCaptured(["models", ...argv], environment);

describe("a Hugging Face folder", () => {
  test("becomes a model that hears what the original hears, and a smaller one of it", async () => {
    const added = await run("add", demo, "--languages", "hi,en", "--modes", "native,verbatim", "--json");
    expect(added.status).toBe(0);
    expect(added.err).toContain(`found a Hugging Face folder: ${demo}`);
    expect(added.err).toContain("imported: 4 + 3 layers of width 128");
    expect(added.err).toContain("its README says the licence is apache-2.0");
    const model = JSON.parse(added.out);
    expect(model).toMatchObject({
      id: "shruti-demo",
      licence: "not stated (the README of the weights says apache-2.0)",
      source: expect.stringMatching(
        /^imported from a Hugging Face folder, "Shruti Demo": pytorch_model\.bin SHA-256 [0-9a-f]{64}$/,
      ),
      languages: [
        { code: "hi", modes: ["native", "verbatim"], trial: "understood" },
        { code: "en", modes: ["native", "verbatim"], trial: NOT_UNDERSTOOD },
      ],
      trial: {
        ...{ device: "cpu", not_tried: [], heard_in_silence: "" },
        languages: [
          { language: "en", verdict: NOT_UNDERSTOOD, voice: "person" },
          { language: "hi", verdict: "understood", voice: "synthetic", heard: "अभी दस बजे और दस मिनट हैं" },
        ],
      },
    });
    expect(model.notice).toMatch(/^trial at installation: understood: hi; (weak|too slow to tell): en$/);
    expect(readFileSync(join(models, "shruti-demo.toml"), "utf8")).toContain('\ntrial = "understood"\n');
    expect(model.trial.times_real_time).toBeGreaterThan(0);
    expect(model.trial.memory_bytes).toBeGreaterThan(50e6);
    const smaller = await run("quantise", "shruti-demo", "--to", "q5_1", "--json");
    expect(smaller.status).toBe(0);
    expect(smaller.err).toMatch(/^hi +understood +synthetic +[\d.]+ +अभी दस बजे और दस मिनट हैं +अभी/m);
    expect(JSON.parse(smaller.out)).toMatchObject({
      id: "shruti-demo-q5_1",
      source: expect.stringContaining(`; q5_1 made of shruti-demo ${model.version}`),
      languages: model.languages.map((one: { code: string }) =>
        one.code === "en" ? { ...one, trial: NOT_UNDERSTOOD } : one,
      ),
    });
    expect((await run("verify")).out).toBe(
      ["shruti-demo", "shruti-demo-q5_1", "segmentation of the executable", "speaker of the executable"]
        .map((name) => `${name}: unchanged\n`)
        .join(""),
    );
    expect((await run("quantise", "shruti-demo-q5_1", "--to", "q8_0")).err).toContain("weights are not f16");
    expect((await run("quantise", "shruti-demo", "--to", "f16")).err).toContain("f16 already");
    expect((await run("quantise", "nothing", "--to", "q8_0")).status).toBe(4);
  }, 240_000);

  test("packed in a ZIP is found and quantised in one step", async () => {
    const zip = join(folder, "demo.zip");
    const entries = readdirSync(demo).map((name) => ({
      name: `models/hindi/${name}`,
      content: readFileSync(join(demo, name)),
      isPacked: name.endsWith(".json"),
    }));
    writeFileSync(zip, makeZip(entries));
    const added = await run(
      "add",
      zip,
      "--languages",
      "hi",
      "--quantise",
      "q5_1",
      "--no-timestamps",
      "--no-trial",
    );
    expect(added).toMatchObject({ status: 0, out: "demo-q5_1\n" });
    expect(added.err).toContain("found a ZIP with a model's folder");
    expect(added.err).not.toContain("trial:");
    expect(readFileSync(join(models, "demo-q5_1.toml"), "utf8")).toContain(
      "[decoding]\ntimestamps = false\n",
    );
    // The same weights, made in another way.
    const sha256 = JSON.parse((await run("show", "shruti-demo-q5_1", "--json")).out).sha256;
    expect(JSON.parse((await run("show", "demo-q5_1", "--json")).out).sha256).toBe(sha256);
  }, 240_000);

  test("is only looked at in a dry run", async () => {
    const before = readdirSync(models).sort();
    const looked = await run("add", demo, "--id", "dry", "--quantise", "q8_0", "--dry-run", "--json");
    expect(looked.status).toBe(0);
    expect(JSON.parse(looked.out)).toMatchObject({
      kind: "a Hugging Face folder",
      bytes: expect.any(Number),
      // The same verdict as that of an installation.
      trial: { languages: [{ language: "en" }, { language: "hi", verdict: "understood" }] },
    });
    expect(readdirSync(models).sort()).toEqual(before);
    const untried = await run("add", demo, "--id", "dry", "--no-trial", "--dry-run", "--json");
    expect(Object.keys(JSON.parse(untried.out))).toEqual(["kind", "name", "bytes", "sha256"]);
    expect(readdirSync(models).sort()).toEqual(before);
    writeFileSync(join(folder, "rubbish.bin"), "no model");
    expect((await run("add", join(folder, "rubbish.bin"), "--dry-run")).status).not.toBe(0);
  }, 60_000);

  test("that cannot be imported is refused with the file and the reason, and leaves nothing", async () => {
    const before = readdirSync(models).sort();
    const broken = writeCheckpoint(join(folder, "broken"), {
      shape: SMALL_SHAPE,
      tensors: makeTensors(SMALL_SHAPE).slice(1),
      type: "F16",
      form: "safetensors",
    });
    const refused = await run("add", broken);
    expect(refused.status).toBe(2);
    expect(refused.err).toContain(
      "error: model.safetensors: the tensor model.decoder.layer_norm.bias is missing",
    );
    expect((await run("add", folder)).err).toContain("did you mean");
    expect((await run("add", demo, "--modes", "native")).err).toContain(
      "with --modes there must be --languages",
    );
    expect((await run("add", demo, "--languages", "hi", "--language", "en")).status).toBe(2);
    expect((await run("add", demo, "--quantise", "q4_9")).err).toContain("f16, q8_0, q5_0, q5_1");
    expect(readdirSync(models).sort()).toEqual(before);
  }, 60_000);
});

describe("each language is judged on its own", () => {
  test("and a model that fails in one is installed; its users can read of it", async () => {
    const added = await run("add", demo, "--id", "half", "--languages", "en,hi,kn");
    expect(added).toMatchObject({ status: 0, out: "half\n" });
    expect(added.err).toMatch(/^en +(weak|too slow to tell) +person/m);
    expect(added.err).toMatch(/^hi +understood +synthetic/m);
    expect(added.err).toContain("trial: not tried, because there are no samples: kn\n");
    const { notice, languages } = JSON.parse((await run("show", "half", "--json")).out);
    expect(notice).toMatch(
      /^trial at installation: understood: hi; (weak|too slow to tell): en; not tried: kn$/,
    );
    expect(languages.map(({ trial }: { trial?: string }) => trial)).toEqual([
      NOT_UNDERSTOOD,
      "understood",
      undefined,
    ]);
    expect((await run("list")).out).toContain(notice);
    expect((await run("show", "half")).out).toMatch(/^Trial +understood: hi; /m);
    // It knows more than the first model, which an admin has not chosen.
    expect((await run("default")).out).toBe("half\n");
  }, 240_000);
});

describe("weights of other programs", () => {
  test("in a folder of CTranslate2 hear what the original hears", async () => {
    const { shape, tensors, words } = demoTensors();
    const made = { shape, tensors, words: makeWords(shape.vocab, words), quantization: "int8" } as const;
    const path = writeCt2Folder(join(folder, "ct2"), made);
    const added = await run("add", path, "--languages", "hi", "--json");
    expect(added.err).toContain(`found a CTranslate2 folder: ${path}`);
    expect(JSON.parse(added.out)).toMatchObject({
      ...{ id: "ct2", languages: [{ code: "hi", trial: "understood" }] },
      source: expect.stringMatching(
        /^imported from a CTranslate2 folder, "ct2": model\.bin SHA-256 [0-9a-f]{64}$/,
      ),
    });
    rmSync(join(path, "vocabulary.txt"));
    const refused = await run("add", path, "--id", "again");
    expect(refused).toMatchObject({ status: 2 });
    expect(refused.err).toContain("error: vocabulary.json: neither this file nor vocabulary.txt is there");
  }, 240_000);

  test("in a checkpoint of OpenAI are recognized by its name or content", async () => {
    const file = makeOpenAiFile(SMALL_SHAPE, makeTensors(SMALL_SHAPE), "F16");
    for (const name of ["small.pt", "checkpoint"]) {
      const path = join(folder, name);
      writeFileSync(path, file);
      const looked = await run("add", path, "--no-trial", "--dry-run", "--json");
      expect(JSON.parse(looked.out)).toMatchObject({
        ...{ kind: "an OpenAI checkpoint", name: name.replace(".pt", "") },
      });
    }
    writeFileSync(join(folder, "other.pt"), "no model");
    expect((await run("add", join(folder, "other.pt"))).err).toContain(
      "error: other.pt: it is not a file of torch 1.6 or newer",
    );
  }, 60_000);
});

describe("a model that fails its trial is not installed", () => {
  test("because it hears nothing", async () => {
    const { shape, tensors, words } = demoTensors();
    const deaf = tensors.map((tensor) =>
      tensor.name === "model.encoder.layer_norm.weight"
        ? { ...tensor, values: new Float32Array(tensor.values.length) }
        : tensor,
    );
    const made = { shape, tensors: deaf, words: makeWords(shape.vocab, words) };
    const path = writeCheckpoint(join(folder, "deaf"), { ...made, type: "F16", form: "safetensors" });
    const refused = await run("add", path, "--languages", "hi");
    expect(refused.status).toBe(2);
    expect(refused.err).toMatch(
      /error: the model (hears nothing in clear speech of the language|loops in) hi/,
    );
    expect((await run("add", path, "--languages", "hi", "--dry-run")).err).toContain("error: the model ");
    expect((await run("show", "deaf")).status).toBe(4);
    expect(readdirSync(models).filter((name) => name.startsWith("."))).toEqual([]);
    expect((await run("add", path, "--languages", "hi", "--no-trial")).out).toBe("deaf\n");
  }, 240_000);

  test("or no language is understood, because it writes without end; no advice is given that does not help", async () => {
    const made = { shape: SMALL_SHAPE, tensors: makeTensors(SMALL_SHAPE) };
    const path = writeCheckpoint(join(folder, "random"), { ...made, type: "F16", form: "safetensors" });
    const added = await run("add", path, "--languages", "hi,en", "--json");
    // How many passes fit into the time of a sample depends on the machine.
    const verdicts = added.status === 0 ? (JSON.parse(added.out).notice as string) : added.err;
    expect(verdicts).toMatch(/loops|nothing/);
    expect(verdicts).not.toContain("understood");
    expect(added.err).not.toContain("--no-timestamps");
  }, 240_000);
});
