import { afterEach, describe, expect, test } from "bun:test";
import { truncateSync } from "node:fs";
import { join } from "node:path";
import { fileOf, type InstalledModel } from "../domain/model.ts";
import { EngineError } from "../engine/protocol.ts";
import { silentLog } from "../lib/log.ts";
import { openTestApp, type TestApp } from "../testing/kits/open-test-app.ts";
import { until } from "../testing/kits/scheduler-kit.ts";
import { createScriptedEngine } from "../testing/kits/scripted-engine.ts";
import { createReadiness, type ReadinessDeps } from "./readiness.ts";

const model = (id: string, version = "1"): InstalledModel => ({
  id,
  name: id,
  version,
  sha256: "",
  languages: [],
  licence: "",
  source: "",
  decoding: {},
  family: "whisper",
  files: { weights: `/models/${id}.bin` },
  bytes: 1,
  embedded: false,
});

const unusable = async () => {
  throw new EngineError("unusable_model", "the weights are cut");
};

describe("readiness", () => {
  let opened: ReturnType<typeof createReadiness> | undefined;
  afterEach(() => opened?.stop());

  function open(more: Partial<ReadinessDeps> = {}) {
    const engine = createScriptedEngine();
    const state = { model: model("one"), isDiskFull: false };
    const readiness = createReadiness({
      engine,
      defaultModel: () => state.model,
      log: silentLog,
      isDiskFull: () => state.isDiskFull,
      everyMs: 2,
      ...more,
    });
    opened = readiness;
    const isReady = () => readiness.reasons().length === 0;
    return { engine, state, readiness, isReady };
  }

  test("comes when the default model is loaded, not earlier", async () => {
    const { engine, readiness, isReady } = open();
    const loading = Promise.withResolvers<void>();
    engine.interfere({ warm: () => loading.promise });
    expect(readiness.reasons()).toEqual(["the engine is starting"]);
    readiness.start();
    await Bun.sleep(10);
    expect(readiness.reasons()).toEqual(["the engine is starting"]);
    loading.resolve();
    await until("it is ready", isReady);
  });

  for (const reason of ["the weights are cut", "no worker can be started: spawn ENOMEM"]) {
    test(`reports "${reason}" until the cause is removed, and comes back by itself`, async () => {
      const { engine, readiness, isReady } = open();
      let tries = 0;
      engine.interfere({
        async warm() {
          tries++;
          throw new EngineError("unusable_model", reason);
        },
      });
      readiness.start();
      await until("several tries have failed", () => tries > 2);
      expect(readiness.reasons()).toEqual([`the engine cannot start: ${reason}`]);
      engine.interfere({});
      await until("it is ready", isReady);
    });
  }

  test("goes when a working model can no longer be loaded, and comes back without a request for it", async () => {
    const { engine, readiness, isReady } = open();
    readiness.start();
    await until("it is ready", isReady);
    engine.interfere({ warm: unusable });
    // A chunk would find this out.
    await engine.warm(model("one"), new AbortController().signal).catch(() => undefined);
    await until("it is not ready", () => !isReady());
    expect(readiness.reasons()).toEqual(["the engine cannot start: the weights are cut"]);
    engine.interfere({});
    await until("it is ready again", isReady);
  });

  test("goes when speech can no longer be detected, and comes back", async () => {
    const { engine, readiness, isReady } = open();
    readiness.start();
    await until("it is ready", isReady);
    engine.interfere({
      async warmSpeech() {
        throw new EngineError("unusable_model", "no worker can be started");
      },
    });
    await until("it is not ready", () => !isReady());
    expect(readiness.reasons()).toEqual(["the engine cannot start: no worker can be started"]);
    engine.interfere({});
    await until("it is ready again", isReady);
  });

  test("starts a worker process again that ended by itself, once for each end", async () => {
    const { engine, readiness, isReady } = open();
    let starts = 0;
    engine.interfere({
      async warm() {
        starts++;
      },
    });
    readiness.start();
    await until("it is ready", isReady);
    expect(starts).toBe(1);
    engine.lose("one");
    engine.lose("two");
    await until("it was started again", () => starts === 2);
    await Bun.sleep(20);
    expect([starts, isReady()]).toEqual([2, true]);
  });

  test("is not disturbed by a broken model that is not the default", async () => {
    const { engine, readiness, isReady } = open();
    readiness.start();
    await until("it is ready", isReady);
    const warmed: string[] = [];
    engine.interfere({
      async warm({ id }) {
        warmed.push(id);
        throw new Error("broken");
      },
    });
    await engine.warm(model("two"), new AbortController().signal).catch(() => undefined);
    await Bun.sleep(20);
    expect([isReady(), warmed]).toEqual([true, ["two"]]);
  });

  test("follows the default model: loads a new one, reports a broken or missing one", async () => {
    const defaults: string[] = [];
    const { engine, state, readiness, isReady } = open({
      onDefault: ({ id, version }) => void defaults.push(`${id} ${version}`),
    });
    const warmed: string[] = [];
    engine.interfere({
      async warm({ id, version }) {
        warmed.push(`${id} ${version}`);
        if (id === "two" && version === "1") await unusable();
      },
    });
    readiness.start();
    await until("it is ready", isReady);
    state.model = model("two");
    await until("the new one cannot be loaded", () => !isReady());
    state.model = model("two", "2");
    await until("its replacement can", isReady);
    expect([...new Set(warmed)]).toEqual(["one 1", "two 1", "two 2"]);
    expect(defaults).toEqual(["one 1", "two 1", "two 2"]);
  });

  test("reports a default model that is not installed", async () => {
    let isInstalled = false;
    const { readiness, isReady } = open({
      defaultModel: () => {
        if (!isInstalled) throw new Error("The default model large is not installed.");
        return model("large");
      },
    });
    readiness.start();
    await until("it was looked for", () => readiness.reasons()[0] !== "the engine is starting");
    expect(readiness.reasons()).toEqual([
      "the engine cannot start: The default model large is not installed.",
    ]);
    isInstalled = true;
    await until("it is ready", isReady);
  });

  test("goes with a nearly full disk, and with a stop, which is then the only reason", async () => {
    const { state, readiness, isReady } = open();
    readiness.start();
    await until("it is ready", isReady);
    state.isDiskFull = true;
    expect(readiness.reasons()).toEqual(["the disk is nearly full"]);
    readiness.startDraining();
    expect(readiness.reasons()).toEqual(["the server is stopping"]);
  });
});

describe("GET /readyz", () => {
  let testApp: TestApp | undefined;
  afterEach(() => testApp?.close());

  test("is 503 with the reason while no worker can start", async () => {
    const engine = createScriptedEngine();
    engine.interfere({ warm: unusable });
    testApp = await openTestApp({ engine });
    const { app, fetch } = testApp;
    await until("it was tried", () => engine.status().models.length > 0);
    const answer = await fetch("/readyz");
    expect(answer.status).toBe(503);
    expect(await answer.json()).toEqual({
      status: "not_ready",
      reasons: ["the engine cannot start: the weights are cut"],
    });
    expect((await fetch("/healthz")).status).toBe(200);
    expect(app.status().unready).toHaveLength(1);
    engine.interfere({});
    await until("it is ready", async () => (await fetch("/readyz")).status === 200, 20_000);
  }, 30_000);
});

describe("a much larger model", () => {
  let testApp: TestApp | undefined;
  afterEach(() => testApp?.close());

  test("as the default lets fewer chunks run at once, because of its memory", async () => {
    testApp = await openTestApp({ config: { engine: { workers: "auto" } } });
    const { app } = testApp;
    const { models } = app.services;
    const workers = () => app.scheduler.status().slots.workers;
    const before = workers();
    const demo = join(import.meta.dirname, "../../models/demo.bin");
    await models.add(demo, { id: "small" });
    const { files } = await models.add(demo, { id: "large" });
    // A file with a hole is larger than the memory of any machine that runs tests.
    truncateSync(fileOf(files, "weights"), 4 * 1024 ** 4);
    models.setDefault("large");
    await until("its size is seen", () => workers() === 1, 20_000);
    models.setDefault("small");
    await until("there is memory again", () => workers() === before, 20_000);
  }, 60_000);
});
