import { afterEach, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import { TINY_CTC, tinyRecordings } from "../testing/makers/tiny-ctc.ts";
import { installFleet } from "./fleet-kit.ts";
import { until } from "./kit.ts";

/** A worker that has no models and fetches them (`[fleet] fetch_models`): the executable on both sides. */

const fleetTest = NATS_SERVER === undefined ? test.skip : test;
const TIMEOUT_MS = 120_000;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

fleetTest(
  "a worker fetches the fleet's model, and recognizes with it (needs nats-server)",
  async () => {
    const fleet = await installFleet({ workerEnvironment: { SHRUTI_FLEET_FETCH_MODELS: "true" } });
    cleanups.push(fleet.remove);
    await fleet.output("models", "add", TINY_CTC, "--id", "own", "--language", "en", "--features", "kaldi");
    const server = await fleet.serve();
    const worker = await fleet.addWorker("one");
    worker.start();
    await server.ready();
    const [recording] = tinyRecordings;
    if (!recording) throw new Error("there are no recordings");
    const audio = new Uint8Array(readFileSync(recording.path));
    expect((await server.api().transcribe(audio, { language: "en" })).text).not.toBe("");
    const { stdout } = Bun.spawnSync(
      [`${fleet.folder}/program/shruti`, "doctor", "--json", "--config", `${worker.folder}/shruti.toml`],
      { cwd: worker.folder, env: { SHRUTI_FLEET_FETCH_MODELS: "true" } },
    );
    const findings = JSON.parse(stdout.toString()) as { check: string; ok: boolean; detail: string }[];
    expect(findings.filter(({ ok }) => !ok)).toEqual([]);
    expect(findings.find(({ check }) => check === "fetch_models")?.detail).toContain("1 model");
    await until("the worker reports its model", async () => {
      const [status] = (await fleet.fleet()).workers;
      return status?.models.join() === "own";
    });
    expect(readdirSync(join(worker.folder, "shruti-data/models")).sort()).toEqual(["own", "own.toml"]);
    worker.stop();
    expect(await worker.exited()).toBe(0);
    expect(await server.stop()).toBe(0);
  },
  TIMEOUT_MS,
);
