import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import {
  type MadeTensor,
  makeTensors,
  makeWords,
  SMALL_SHAPE,
  writeCheckpoint,
} from "../testing/makers/checkpoint-makers.ts";
import { demoTensors } from "../testing/makers/demo-checkpoint.ts";
import { type Installation, install, until } from "./kit.ts";
import { descendantsOf, isAlive } from "./processes.ts";

/** Adds models of transformers with the compiled executable, and carries them in a bundle. */

let installation: Installation;
let models: string;
let demo: string;
let large: string;
beforeAll(async () => {
  installation = await install();
  models = join(installation.folder, "imported-models");
  const { shape, tensors, words } = demoTensors();
  const made = { shape, tensors, words: makeWords(shape.vocab, words) };
  demo = writeCheckpoint(join(installation.folder, "demo-hf"), { ...made, type: "BF16", form: "sharded" });
  const wide = { ...SMALL_SHAPE, state: 512, audioHeads: 8, textHeads: 8, audioLayers: 3 };
  large = writeCheckpoint(join(installation.folder, "large-hf"), {
    shape: wide,
    tensors: makeTensors(wide) as MadeTensor[],
    type: "F32",
    form: "torch",
  });
}, 300_000);
afterAll(() => installation?.remove());

function start(...argv: string[]) {
  return Bun.spawn(
    [join(installation.folder, "program/shruti"), ...argv, "--config", installation.configPath],
    {
      cwd: installation.folder,
      env: {
        HOME: installation.folder,
        SHRUTI_MODELS_DIR: models,
        SHRUTI_LOG_LEVEL: "silent",
        SECRET_OF_TEST: "x",
      },
      stdout: "pipe",
      stderr: "pipe",
    },
  );
}

async function run(...argv: string[]) {
  const child = start(...argv);
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { status: await child.exited, out, err };
}

describe("the executable", () => {
  test("imports, tries and installs a folder", async () => {
    const added = await run("models", "add", demo, "--languages", "hi,en", "--quantise", "q5_1", "--json");
    expect({ status: added.status, err: added.status === 0 ? "" : added.err }).toEqual({
      status: 0,
      err: "",
    });
    const { trial, path } = JSON.parse(added.out);
    expect(trial.languages).toMatchObject([
      // On a busy machine it may be too slow to tell.
      { language: "en", verdict: expect.stringMatching(/^(weak|slow)$/) },
      { language: "hi", verdict: "understood", heard: "अभी दस बजे और दस मिनट हैं" },
    ]);
    expect(readdirSync(models).sort()).toEqual(["demo-hf-q5_1.bin", "demo-hf-q5_1.toml"]);
    expect(statSync(path).mode & 0o777).toBe(0o644);
  }, 120_000);

  test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
    "leaves nothing when %s ends an import",
    async (signal) => {
      const before = readdirSync(models).sort();
      const child = start("models", "add", large, "--no-trial");
      await until("the import writes", () =>
        readdirSync(models).some((name) => name.endsWith(".unfinished")),
      );
      await until("it has a child", () => descendantsOf(child.pid).length > 0);
      const [importer = 0] = descendantsOf(child.pid);
      // It parses files of unknown origin, so it knows nothing of the environment.
      expect(readFileSync(`/proc/${importer}/environ`, "utf8")).not.toContain("SECRET_OF_TEST");
      child.kill(signal);
      await child.exited;
      await until("its child is gone", () => !isAlive(importer), 5_000);
      expect(readdirSync(models).sort()).toEqual(before);
    },
    60_000,
  );

  test("packs itself and the model into a bundle, and installs both from it", async () => {
    const key = join(installation.folder, "key.pem");
    const file = join(installation.folder, "carry.tar");
    expect((await run("bundle", "keygen", key)).status).toBe(0);
    const created = await run(
      "bundle",
      "create",
      file,
      "--models",
      "demo-hf-q5_1",
      "--executable",
      "--key",
      key,
    );
    expect({ status: created.status, err: created.err }).toEqual({ status: 0, err: "" });
    expect((await run("models", "remove", "demo-hf-q5_1")).status).toBe(0);
    const copy = join(installation.folder, "carried", "shruti");
    const installed = await run("bundle", "install", file, "--key", `${key}.pub`, "--executable", copy);
    expect({ status: installed.status, out: installed.out }).toEqual({ status: 0, out: "demo-hf-q5_1\n" });
    expect(existsSync(join(models, "demo-hf-q5_1.bin"))).toBe(true);
    const carried = Bun.spawnSync([copy, "version"], { env: {} });
    expect({ status: carried.exitCode, out: carried.stdout.toString() }).toMatchObject({
      status: 0,
      out: (await run("version")).out,
    });
  }, 120_000);
});
