import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../../config/schema.ts";
import { fileOf } from "../../domain/model.ts";
import type { TrialVerdict } from "../../domain/trial.ts";
import { createFamilies, FAMILIES } from "../../families/families.ts";
import { createWhisperFamily } from "../../families/whisper/family.ts";
import { checkModelFile } from "../../families/whisper/model-file.ts";
import { silentLog } from "../../lib/log.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { type Database, openDatabase } from "../../store/database.ts";
import { putSetting, SETTING_NAMES } from "../../store/settings.ts";
import { manualClock } from "../../testing/kits/manual-clock.ts";
import { testConfig } from "../../testing/kits/test-config.ts";
import { TINY_CTC } from "../../testing/makers/tiny-ctc.ts";
import { type CarriedModels, copyOut, extractCarriedModels } from "./carried-models.ts";
import { type AddModelOptions, createModelService } from "./models.ts";

let folder: string;
let database: Database;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-models-"));
  database = openDatabase(":memory:");
});
afterEach(() => {
  database.close();
  rmSync(folder, { recursive: true });
});

const DEMO = join(import.meta.dirname, "../../../models/demo.bin");

/** Replaces the engine's check where the bytes do not matter. */
function lookAt(path: string): { multilingual: boolean } {
  const text = readFileSync(path, "utf8");
  if (!text.startsWith("weights")) throw new Error(`model ${path} cannot be used: it is not a whisper model`);
  return { multilingual: !text.includes("english") };
}

/** Opens the models with the demonstration model alone inside the executable, unless others are given. */
async function open(
  settings: Partial<Config["models"]> = {},
  carried?: CarriedModels,
  verdicts: Record<string, TrialVerdict> = {},
) {
  const carriedModels = carried ?? {
    models: (await extractCarriedModels(folder)).models.slice(-1),
    problems: [],
  };
  return createModelService({
    carriedModels,
    database,
    config: testConfig({ models: settings }),
    dataDir: folder,
    log: silentLog,
    clock: manualClock(),
    families: createFamilies([createWhisperFamily(lookAt), ...FAMILIES.list.slice(1)]),
    tryOutModel: async () => ({
      languages: new Map(Object.entries(verdicts).map(([code, trial]) => [code, { trial }])),
    }),
  });
}

function weights(name: string, content = "weights"): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

describe("the demonstration model", () => {
  test("can be used by the engine, with the values of its manifest", async () => {
    const demo = (await extractCarriedModels(folder)).models.at(-1);
    if (!demo) throw new Error("there is no demonstration model");
    expect(sha256Hex(readFileSync(fileOf(demo.files, "weights")))).toBe(demo.sha256);
    expect(demo.bytes).toBe(statSync(DEMO).size);
    expect(checkModelFile(fileOf(demo.files, "weights")).multilingual).toBe(true);
    expect(demo.notice).toContain("not for real use");
    expect(demo).toMatchObject({
      id: "demo",
      embedded: true,
      decoding: { tuning: { whisper: { beamSize: 1, temperatureIncrement: 0 } } },
    });
  });

  test("is the default while no model is installed, and can always be found", async () => {
    const models = await open();
    expect(models.list().map(({ id }) => id)).toEqual(["demo"]);
    expect(models.resolve().id).toBe("demo");
    await models.add(weights("ggml-one.bin"));
    expect(models.list().map(({ id }) => id)).toEqual(["one"]);
    expect(models.find("demo")?.id).toBe("demo");
    expect(() => models.resolve("demo")).toThrow('There is no model "demo"; there is one.');
  });

  test("is written to the disk once, and replaces a truncated or changed copy", async () => {
    const source = weights("carried.bin", "weights of the demonstration");
    const sha256 = sha256Hex("weights of the demonstration");
    const carried = { weights: source, sha256, name: "demo" };
    const dir = join(folder, "out");
    mkdirSync(dir);
    writeFileSync(join(dir, `${sha256.slice(0, 12)}.bin`), "cut");
    // Of a process that was killed two days ago, and of one that may still write.
    for (const [name, ageMs] of [
      [".0123456789ab.unfinished", 2 * 86_400_000],
      [".ba9876543210.unfinished", 0],
    ] as const) {
      writeFileSync(join(dir, name), "half");
      const at = new Date(Date.now() - ageMs);
      utimesSync(join(dir, name), at, at);
    }
    const path = await copyOut(carried, dir, "hash");
    expect(readFileSync(path, "utf8")).toBe("weights of the demonstration");
    expect(readdirSync(dir).sort()).toEqual([".ba9876543210.unfinished", `${sha256.slice(0, 12)}.bin`]);
    const { ino } = statSync(path);
    expect(statSync(await copyOut(carried, dir, "hash")).ino).toBe(ino);
    writeFileSync(path, "Weights of the demonstration");
    expect(readFileSync(await copyOut(carried, dir, "hash"), "utf8")).toBe("weights of the demonstration");
    const other = { ...carried, sha256: "f".repeat(64) };
    await expect(copyOut(other, join(folder, "other"), "hash")).rejects.toThrow("damaged");
    expect(readdirSync(join(folder, "other"))).toEqual([]);
  });
});

describe("a model of people's speech inside the executable", () => {
  const carried = (): CarriedModels => {
    const model = (id: string, codes: string[]) => ({
      ...{ id, name: id, version: "1", family: "whisper" as const, sha256: "0".repeat(64), licence: "MIT" },
      languages: codes.map((code) => ({ code, name: code, modes: ["native" as const] })),
      ...{ source: "here", decoding: {}, files: { weights: `/${id}` }, bytes: 1, embedded: true },
    });
    return { models: [model("whisper-base", ["en"]), model("demo", ["en", "hi"])], problems: ["a sentence"] };
  };

  test("is the default while no model is installed, and the demonstration model serves those who name it", async () => {
    const models = await open({}, carried());
    expect(models.list().map(({ id }) => id)).toEqual(["whisper-base", "demo"]);
    expect(models.resolve(undefined, "en").id).toBe("whisper-base");
    expect(models.resolve("demo", "hi").id).toBe("demo");
    // The demonstration model would make nonsense of real Hindi, so it never gets such a request by itself.
    const base = models.resolve(undefined, "hi");
    expect(base.id).toBe("whisper-base");
    expect(models.unsupportedLanguage(base, "hi").message).toContain("could be installed: IndicConformer");
    expect(models.list().map(models.servedLanguages)).toEqual([["en"], []]);
    expect(models.probeFor(base).id).toBe("demo");
    expect(models.problems()).toEqual(["a sentence"]);
  });

  test("gives way to the demonstration model where an admin chooses it, and both give way to an installed model", async () => {
    const models = await open({}, carried());
    expect(models.setDefault("demo").id).toBe("demo");
    expect(models.list().map(({ id }) => id)).toEqual(["demo", "whisper-base"]);
    expect(models.resolve(undefined, "hi").id).toBe("demo");
    await models.add(weights("ggml-one.bin"));
    expect(models.list().map(({ id }) => id)).toEqual(["one"]);
    expect(() => models.setDefault("demo")).toThrow("only while no other model is installed");
    // Work that began with it continues.
    expect(models.find("whisper-base")?.id).toBe("whisper-base");
    expect(models.probeFor(models.resolve()).id).toBe("one");
    await models.remove("one");
    expect(models.resolve().id).toBe("whisper-base");
  });

  test("counts as not chosen once there are models whose files were copied into the folder", async () => {
    const models = await open({}, carried());
    models.setDefault("demo");
    const other = await open({ dir: join(folder, "elsewhere") }, carried());
    await other.add(weights("ggml-one.bin"));
    other.setDefault("one");
    putSetting(database.store, SETTING_NAMES.defaultModel, "demo", 0);
    other.forgetCached();
    expect(other.resolve().id).toBe("one");
    expect((await open({ dir: other.directory, default: "demo" }, carried())).findDefault()).toBeUndefined();
  });

  test("leaves the choice to an installed model of the same id, such as one that an older version has added", async () => {
    const older = await open();
    await older.add(weights("whisper-base.bin"));
    await older.add(weights("ggml-other.bin", "weights of another"));
    expect(older.setDefault("whisper-base").id).toBe("whisper-base");
    const models = await open({}, carried());
    expect(models.list().map(({ id, embedded }) => [id, embedded])).toEqual([
      ["whisper-base", false],
      ["other", false],
    ]);
    expect(models.resolve().id).toBe("whisper-base");
  });

  test("is not what an added model leaves the default to, where the only other one was copied into the folder", async () => {
    const models = await open({}, carried());
    await models.add(weights("ggml-one.bin"));
    putSetting(database.store, SETTING_NAMES.defaultModel, "demo", 0);
    models.forgetCached();
    await models.add(weights("ggml-two.bin", "weights of another"));
    expect(models.resolve().id).toBe("one");
  });
});

describe("add", () => {
  test("copies weights, writes a manifest, and finds id, version and languages", async () => {
    const models = await open();
    const added = await models.add(weights("ggml-Large-V3-q5_0.bin"), { licence: "MIT" });
    expect(added).toMatchObject({
      id: "large-v3-q5_0",
      version: sha256Hex("weights").slice(0, 12),
      sha256: sha256Hex("weights"),
      licence: "MIT",
      bytes: 7,
      embedded: false,
    });
    expect(added.languages.map(({ code }) => code)).toContain("hi");
    expect(added.languages.find(({ code }) => code === "en")?.modes).toEqual(["native", "verbatim"]);
    expect(readFileSync(fileOf(added.files, "weights"), "utf8")).toBe("weights");
    expect(readdirSync(models.directory).sort()).toEqual(["large-v3-q5_0.bin", "large-v3-q5_0.toml"]);
    const english = await models.add(weights("tiny.en.bin", "weights, english"));
    expect(english.languages.map(({ code }) => code)).toEqual(["en"]);
  });

  test("refuses files that cannot be used, and leaves nothing behind", async () => {
    const models = await open();
    const good = weights("good.bin");
    const bad = weights("bad.bin", "no");
    const refusals: [file: string, options: AddModelOptions, words: string][] = [
      [bad, {}, "not a whisper model"],
      [good, { id: "../up" }, "cannot be a model's id"],
      [good, { id: "demo" }, "already"],
      [good, { sha256: "0".repeat(64) }, "SHA-256"],
      [good, { name: "two\nlines" }, "name must be a text of one line"],
      [good, { languages: [{ code: "or" }] }, "whisper has no language or"],
      [
        good,
        { languages: [{ code: "hi", tokenSpan: { first: 0, last: 5 } }] },
        "token_span is only for onnx-ctc",
      ],
      [
        TINY_CTC,
        { languages: [{ code: "hi", decoderLanguage: "mr" }] },
        "decoder_language is only for whisper",
      ],
    ];
    for (const [file, options, words] of refusals) {
      await expect(models.add(file, options)).rejects.toThrow(words);
    }
    expect(models.list().map(({ id }) => id)).toEqual(["demo"]);
    expect(readdirSync(models.directory)).toEqual([]);
    const odia = await models.add(good, { languages: [{ code: "or", decoderLanguage: "hi" }] });
    expect(odia.languages).toEqual([
      { code: "or", name: "Odia", modes: ["native", "codemix", "verbatim"], decoderLanguage: "hi" },
    ]);
  });
});

describe("the default", () => {
  test("is the first model that was added, until this process or another one chooses a different model", async () => {
    const models = await open();
    await models.add(weights("b.bin"));
    await models.add(weights("a.bin"));
    expect(models.list().map(({ id }) => id)).toEqual(["b", "a"]);
    const other = await open();
    other.setDefault("a");
    expect(models.resolve().id).toBe("b");
    models.forgetCached();
    expect(models.resolve().id).toBe("a");
    expect(models.resolve("b").id).toBe("b");
    await expect(models.remove("a")).rejects.toThrow("choose another first");
    // Between a choice and a removal by another process, which this process has not noticed yet, there is still a default.
    other.setDefault("b");
    await other.remove("a");
    expect(models.resolve().id).toBe("b");
    await models.add(weights("a.bin"));
    models.setDefault("a");
    expect(models.resolve().id).toBe("a");
    models.setDefault("b");
    await models.remove("a");
    expect(models.resolve().id).toBe("b");
    expect(() => models.setDefault("a")).toThrow("no installed model");
  });

  test("is the demonstration model again when the last model is removed", async () => {
    const models = await open();
    await models.add(weights("a.bin"));
    await models.remove("a");
    expect(models.resolve().id).toBe("demo");
    await models.add(weights("b.bin"));
    expect(models.resolve().id).toBe("b");
  });

  test("is the demonstration model while it is listed, and not while others are installed", async () => {
    const models = await open();
    expect(models.setDefault("demo").id).toBe("demo");
    expect(models.resolve().id).toBe("demo");
    await models.add(weights("a.bin"));
    expect(models.list().map(({ id }) => id)).toEqual(["a"]);
    expect(() => models.setDefault("demo")).toThrow("listed and used only while no other model is installed");
    expect(models.resolve().id).toBe("a");
    // A choice that is not there any more is forgotten.
    rmSync(join(models.directory, "a.toml"));
    expect(() => models.resolve()).toThrow("The default model a is not installed.");
    models.setDefault("demo");
    expect(models.resolve().id).toBe("demo");
  });

  test("that has lost its files is reported, and no other model replaces it", async () => {
    const models = await open();
    const weightsPath = fileOf((await models.add(weights("b.bin"))).files, "weights");
    await models.add(weights("a.bin"));
    rmSync(weightsPath);
    expect(models.findDefault()).toBeUndefined();
    expect(() => models.resolve()).toThrow("The default model b is not installed.");
    expect(models.list().map(({ id }) => id)).toEqual(["a"]);
    expect(models.resolve("a").id).toBe("a");
    // Not even the demonstration model does.
    await models.remove("a");
    expect(models.list().map(({ id }) => id)).toEqual(["demo"]);
    expect(() => models.resolve()).toThrow("The default model b is not installed.");
  });

  test("is a model put there by hand while it is the only one, and remains it when others are added", async () => {
    const models = await open();
    await models.add(weights("b.bin"));
    putSetting(database.store, SETTING_NAMES.defaultModel, undefined, 0);
    models.forgetCached();
    expect(models.resolve().id).toBe("b");
    await models.add(weights("a.bin"));
    expect(models.resolve().id).toBe("b");
    putSetting(database.store, SETTING_NAMES.defaultModel, undefined, 0);
    models.forgetCached();
    expect(() => models.resolve()).toThrow("none is chosen as the default");
    expect(models.list().map(({ id }) => id)).toEqual(["a", "b"]);
  });

  test("in the config cannot be removed", async () => {
    const models = await open({ default: "a" });
    await models.add(weights("a.bin"));
    await models.add(weights("b.bin"));
    await expect(models.remove("a")).rejects.toThrow("models.default in the config names");
    await models.remove("b");
    expect(models.resolve().id).toBe("a");
  });

  test("in the config overrides a choice, and a missing one is not the client's fault", async () => {
    const models = await open({ default: "b" });
    await models.add(weights("a.bin"));
    expect(() => models.resolve()).toThrow("b is not installed");
    await models.add(weights("b.bin"));
    models.setDefault("a");
    expect(models.resolve().id).toBe("b");
  });
});

describe("files", () => {
  test("are noticed without a restart when they appear, change, break or disappear", async () => {
    const directory = join(folder, "elsewhere");
    const models = await open({ dir: directory });
    const weightsPath = fileOf((await models.add(weights("a.bin"))).files, "weights");
    const manifestPath = join(directory, "a.toml");
    const manifest = readFileSync(manifestPath, "utf8");
    writeFileSync(manifestPath, manifest.replace('name = "a"', 'name = "Another"'));
    expect(models.list()[0]?.name).toBe("Another");
    writeFileSync(manifestPath, manifest.replace("name =", "nam ="));
    expect(models.list().map(({ id }) => id)).toEqual(["demo"]);
    expect(models.problems()).toEqual([`${manifestPath}:2: nam is unknown`]);
    writeFileSync(manifestPath, manifest);
    expect(models.problems()).toEqual([]);
    rmSync(weightsPath);
    expect(models.problems()[0]).toContain("there are no weights");
  });

  test("are read completely by verify", async () => {
    const models = await open();
    const weightsPath = fileOf((await models.add(weights("a.bin"))).files, "weights");
    expect(await models.verify("a")).toEqual({ id: "a", sha256: sha256Hex("weights"), problems: [] });
    writeFileSync(weightsPath, "weighty");
    expect((await models.verify("a")).problems).toHaveLength(2);
    await expect(models.verify("b")).rejects.toThrow("no installed model");
  });

  test("a model that unfinished work needs cannot be removed", async () => {
    const models = await open();
    await models.add(weights("a.bin"));
    const { sqlite } = database;
    sqlite.run("PRAGMA foreign_keys = OFF");
    sqlite.run(
      `INSERT INTO transcriptions (id, organization_id, project_id, upload_id, entrance, model_id, model_version,
         language, mode, timestamps, diarization, channel_mode, state, created_at, duration_ms, channels,
         price_paise_per_audio_hour, reserved_paise)
       VALUES ('tr_1', 'org_1', 'prj_1', 'up_1', 'asynchronous', 'a', '1', 'hi', 'native', 'segment', 0, 'mix',
         'queued', 0, 1, 1, 0, 0)`,
    );
    await expect(models.remove("a")).rejects.toThrow("1 unfinished");
    sqlite.run("UPDATE transcriptions SET state = 'completed'");
    await models.remove("a");
    expect(readdirSync(models.directory)).toEqual([]);
  });
});

test("and the config determine the capabilities", async () => {
  const models = await open();
  const { capabilities, modes, limits } = models.describe(models.resolve());
  expect(capabilities).toEqual({
    "mode.native": "available",
    "mode.codemix": "available",
    "mode.verbatim": "available",
    "timestamps.segment": "available",
    "timestamps.word": "coming_soon",
    "language.auto": "coming_soon",
    diarization: "available",
    "channel_mode.separate": "available",
  });
  expect(modes).toEqual(["native", "codemix", "verbatim"]);
  expect(limits.asynchronous.maxChannels).toBe(2);
  const plain = await open();
  const added = await plain.add(weights("a.bin"), { languages: [{ code: "en", modes: ["native"] }] });
  expect(plain.describe(added).capabilities).toMatchObject({
    "mode.codemix": "coming_soon",
    "mode.verbatim": "coming_soon",
    diarization: "available",
  });
});

describe("the model for a language", () => {
  const open2 = async (settings: Partial<Config["models"]> = {}) => {
    const models = await open(settings);
    await models.add(weights("a.bin", "weights a"), { languages: [{ code: "hi" }, { code: "en" }] });
    await models.add(weights("b.bin", "weights b"), { languages: [{ code: "hi" }, { code: "ta" }] });
    await models.add(weights("c.bin", "weights c"), { languages: [{ code: "kn" }, { code: "te" }] });
    await models.add(weights("d.bin", "weights d"), { languages: [{ code: "te" }] });
    return models;
  };
  const code = (call: () => unknown): string => {
    try {
      call();
    } catch (error) {
      return (error as { code: string }).code;
    }
    return "none";
  };

  test("is the chosen one, else the default, else one that has it", async () => {
    const models = await open2();
    const found = (language: string) => models.resolve(undefined, language).id;
    expect(["hi", "en", "ta", "kn", "te", "or"].map(found)).toEqual(["a", "a", "b", "c", "c", "a"]);
    models.route({ hi: "b", te: "d" });
    expect(["hi", "en", "ta", "kn", "te"].map(found)).toEqual(["b", "a", "b", "c", "d"]);
    expect(models.resolve("a", "hi").id).toBe("a");
    expect(models.resolve().id).toBe("a");
    const served = models.list().map((model) => [model.id, models.servedLanguages(model)]);
    expect(Object.fromEntries(served)).toEqual({ a: ["en"], b: ["hi", "ta"], c: ["kn"], d: ["te"] });
    models.route({ hi: undefined });
    expect(models.routes()).toEqual({ te: "d" });
    expect(found("hi")).toBe("a");
  });

  test("is never one that does not know it, and the one with the best trial of several that do", async () => {
    const models = await open();
    const add = async (id: string, codes: string[], verdicts: Record<string, TrialVerdict>, extra = "") => {
      const languages = codes.map((language) => ({ code: language }));
      const tried = await open({}, undefined, verdicts);
      await tried.add(weights(`${id}.bin`, `weights ${id}${extra}`), { languages });
    };
    const found = (language: string) => {
      models.forgetCached();
      return models.resolve(undefined, language).id;
    };
    await add("tiny.en", ["en"], { en: "weak" });
    await add("base", ["en", "hi", "kn"], { en: "understood", hi: "loops" });
    await add("hindi", ["hi"], { hi: "understood" });
    await add("other-hindi", ["hi"], { hi: "loops" }, " with more bytes");
    await add("kannada", ["kn"], { kn: "understood" });
    await add("large-kannada", ["kn"], {}, " with more bytes");
    // The second model knows all that the first one knows, and an admin has not chosen the first one.
    expect(models.findDefault()?.id).toBe("base");
    expect(["en", "hi", "kn", "or"].map(found)).toEqual(["base", "hindi", "base", "base"]);
    models.setDefault("tiny.en");
    expect(["en", "hi", "kn"].map(found)).toEqual(["tiny.en", "hindi", "kannada"]);
    models.setDefault("large-kannada");
    expect(["en", "hi", "kn"].map(found)).toEqual(["base", "hindi", "large-kannada"]);
    const served = models.list().map((model) => [model.id, models.servedLanguages(model)]);
    expect(Object.fromEntries(served)).toEqual({
      ...{
        "tiny.en": [],
        base: ["en"],
        hindi: ["hi"],
        kannada: [],
        "large-kannada": ["kn"],
        "other-hindi": [],
      },
    });
    await add("all", ["en", "hi", "kn", "ta"], {});
    // An admin has chosen this default, so it stays.
    models.forgetCached();
    expect(models.findDefault()?.id).toBe("large-kannada");
  });

  test("the config file overrides the choice; another process may choose", async () => {
    const models = await open2({ languages: { hi: "b" } });
    models.route({ hi: "a", te: "c" });
    expect(models.routes()).toEqual({ hi: "b", te: "c" });
    putSetting(database.store, SETTING_NAMES.languageModels, { te: "d" }, 0);
    expect(models.resolve(undefined, "te").id).toBe("c");
    models.forgetCached();
    expect(models.resolve(undefined, "te").id).toBe("d");
    expect(models.routeProblems()).toEqual([]);
    putSetting(database.store, SETTING_NAMES.languageModels, { ta: "a" }, 0);
    models.forgetCached();
    expect(models.routeProblems()).toEqual([
      "the model a, which is chosen for ta, does not support this language",
    ]);
  });

  test("is not replaced by another when it is missing, and cannot be removed while it serves", async () => {
    const models = await open2({ languages: { ta: "gone" } });
    expect(code(() => models.resolve(undefined, "ta"))).toBe("capacity_unavailable");
    expect(models.servedLanguages(models.resolve("b"))).toEqual([]);
    expect(models.routeProblems()).toEqual(["the model gone, which is chosen for ta, is not installed"]);
    models.route({ te: "d" });
    await expect(models.remove("d")).rejects.toThrow("serves te");
    models.route({ te: undefined });
    await models.remove("d");
  });

  test("a choice of a model that is not installed or lacks the language is refused, and nothing is stored", async () => {
    const models = await open2();
    expect(code(() => models.route({ hi: "b", ta: "none" }))).toBe("not_found");
    expect(code(() => models.route({ hi: "b", ta: "a" }))).toBe("unsupported_language");
    expect(models.routes()).toEqual({});
  });

  test("a language that no model has: the message says what could be used or installed", async () => {
    const models = await open2();
    const message = (language: string) => models.unsupportedLanguage(models.resolve(), language).message;
    expect(message("te")).toBe(
      "The model a does not support the language Telugu (te). Installed models that support it: c, d.",
    );
    expect(message("brx")).toEndWith("(brx). Models that support it and could be installed: IndicConformer.");
    expect(message("mr")).toEndWith("could be installed: IndicConformer, Whisper large-v3.");
    expect(message("xx")).toBe('The model a does not support the language "xx".');
  });
});
