import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileOf, type InstalledModel } from "../domain/model.ts";
import { createLocalEngine, type Engine } from "../engine/engine.ts";
import { createModelNeeds } from "../engine/model-needs.ts";
import { RECOGNIZERS } from "../engine/open-recognizer.ts";
import { silentLog } from "../lib/log.ts";
import { createModelService, type ModelService } from "../services/models/models.ts";
import { type Database, openDatabase } from "../store/database.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { NO_NATIVE_FILES } from "../testing/kits/native-files.ts";
import { engineOptions, testConfig } from "../testing/kits/test-config.ts";
import { SCRIPTED_FAMILY, scriptedFamily, WITH_SCRIPTED } from "../testing/scripted-family/family.ts";
import { spawnScripted } from "../testing/scripted-family/recognizer.ts";
import { FAMILIES } from "./families.ts";

test("each family has both halves, and a name of its own", () => {
  const names = FAMILIES.list.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(Object.keys(RECOGNIZERS).sort()).toEqual([...names].sort());
  expect(() => FAMILIES.of(SCRIPTED_FAMILY)).toThrow("the model family scripted is unknown");
});

describe("a further family, which is one folder and one registration", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-families-"));
  const source = join(folder, "Light-Switch");
  let database: Database;
  let models: ModelService;
  let engine: Engine;
  let added: InstalledModel;

  const open = (families = WITH_SCRIPTED) =>
    createModelService({
      ...{ families, database, config: testConfig(), dataDir: folder, log: silentLog, clock: manualClock() },
      carriedModels: { models: [], problems: [] },
    });

  beforeAll(async () => {
    mkdirSync(source);
    writeFileSync(join(source, "model.txt"), "turn on the light");
    writeFileSync(join(source, "tokens.txt"), "turn\non\nthe\nlight");
    database = openDatabase(":memory:");
    models = await open();
    engine = createLocalEngine({
      ...{ nativeFiles: NO_NATIVE_FILES, backendDirs: [], families: WITH_SCRIPTED, log: () => {} },
      engine: engineOptions({ model_idle_seconds: 0 }),
      availableBytes: () => Number.POSITIVE_INFINITY,
      maxDurationMs: () => 60_000,
      spawn: spawnScripted,
    });
    added = await models.add(source, {
      languages: [{ code: "en" }, { code: "hi", modes: ["native", "codemix"] }],
      decoding: { maxChunkMs: 5_000, tuning: { scripted: { ending: "!" } } },
    });
  });
  afterAll(async () => {
    await engine.close();
    database.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test("is added from its files, and its manifest names it", () => {
    expect(added).toMatchObject({ id: "light-switch", family: SCRIPTED_FAMILY, embedded: false });
    expect(added.parts?.map(({ role, name }) => [role, name])).toEqual([
      ["model", "model.txt"],
      ["tokens", "tokens.txt"],
    ]);
    expect(readFileSync(fileOf(added.files, "model"), "utf8")).toBe("turn on the light");
    const manifest = readFileSync(join(models.directory, "light-switch.toml"), "utf8");
    expect(manifest).toContain('engine = "scripted"\nfamily = "scripted"\n');
    expect(manifest).toContain('[decoding]\nending = "!"\nmax_chunk_seconds = 5\n');
  });

  test("has keys of its own in manifests, which other families do not have", async () => {
    const path = join(models.directory, "light-switch.toml");
    const manifest = readFileSync(path, "utf8");
    writeFileSync(path, manifest.replace('code = "hi"', 'code = "hi"\nhead = "north"'));
    const request = { language: "hi", mode: "native" } as const;
    const [model] = models.list();
    expect(model && scriptedFamily.settingsFor(request, model)).toEqual({
      ...{ language: "hi", head: "north", ending: "!" },
    });
    writeFileSync(path, manifest.replace("[decoding]", "[decoding]\nbeam_size = 2"));
    expect(models.problems()[0]).toContain("decoding.beam_size is only for the engine whisper");
    writeFileSync(path, manifest);
    expect(models.problems()).toEqual([]);
    expect((await open(FAMILIES)).problems()[0]).toContain("engine must be one of whisper, onnx-ctc");
  });

  test("is listed and chosen as others are", () => {
    expect(models.list().map(({ id }) => id)).toEqual(["light-switch"]);
    expect(models.resolve(undefined, "hi").id).toBe("light-switch");
    models.route({ hi: "light-switch" });
    expect(models.routes()).toEqual({ hi: "light-switch" });
    expect(models.setDefault("light-switch").id).toBe("light-switch");
    expect(models.describe(added).modes).toEqual(["native", "codemix"]);
  });

  test("says what it needs, and the engine counts with that", () => {
    const needsOf = createModelNeeds({ engine: engineOptions() }, WITH_SCRIPTED);
    expect(needsOf(added)).toEqual({ bytes: added.bytes, stateBytes: 1_000, isOneThread: true });
    expect(engine.capacity(added).chunks).toBeGreaterThan(0);
  });

  test("recognizes in a worker process with the settings of its manifest", async () => {
    const loud = Int16Array.from({ length: 16_000 }, (_, index) => (index % 2 === 0 ? 8_000 : -8_000));
    const pcm = new Uint8Array(loud.buffer);
    const family = WITH_SCRIPTED.of(added.family);
    const { segments } = await engine.recognize(
      {
        ...{ model: added, windowMs: family.windowMs, sharers: 1, isAlone: false },
        audio: { pcm, totalSamples: 16_000 },
        settings: family.settingsFor({ language: "en", mode: "native" }, added),
      },
      new AbortController().signal,
    );
    expect(segments.map(({ text }) => text)).toEqual(["turn on the light!"]);
  });

  test("is installed from files that were prepared elsewhere", async () => {
    const prepared = join(folder, "prepared");
    cpSync(dirname(fileOf(added.files, "model")), prepared, { recursive: true });
    const manifest = readFileSync(join(models.directory, "light-switch.toml"), "utf8");
    writeFileSync(`${prepared}.toml`, manifest.replace('id = "light-switch"', 'id = "prepared"'));
    const model = await models.prepare({ manifestPath: `${prepared}.toml`, path: prepared });
    expect(await models.addPrepared(model)).toMatchObject({ id: "prepared", family: SCRIPTED_FAMILY });
    await models.remove("prepared");
  });

  test("is verified, refused where its files do not fit, and removed", async () => {
    expect(await models.verify("light-switch")).toMatchObject({ problems: [] });
    writeFileSync(fileOf(added.files, "tokens"), "turn\non");
    const { problems } = await models.verify("light-switch");
    expect(problems).toEqual([
      expect.stringContaining("the SHA-256 of tokens.txt is"),
      "the model writes the, which is not a token",
    ]);
    writeFileSync(join(source, "tokens.txt"), "turn");
    await expect(models.add(source, { id: "other" })).rejects.toThrow(
      "the model writes on, which is not a token",
    );
    models.route({ hi: undefined });
    await models.remove("light-switch");
    expect(models.list()).toEqual([]);
  });
});
