import { afterEach, expect, test } from "bun:test";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { localCapacity } from "../engine/local-executor.ts";
import { measureMachine } from "../engine/machine.ts";
import { createModelNeeds } from "../engine/model-needs.ts";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import { engineOptions } from "../testing/kits/test-config.ts";
import { type FleetInstallation, type FleetOptions, installFleet, workersPresent } from "./fleet-kit.ts";
import { reached, until, uploaded } from "./kit.ts";
import { concatenated, sampleBytes, wordsIn } from "./samples.ts";

/** A fleet of real processes: the executable as control plane and as workers, and Debian's messaging server. */

const fleetTest = NATS_SERVER === undefined ? test.skip : test;
const TIMEOUT_MS = 120_000;
const DEMO = join(import.meta.dirname, "../../models/demo.bin");
const MAX_CANCEL_MS = 2_000;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function openFleet(options: FleetOptions = {}): Promise<FleetInstallation> {
  const fleet = await installFleet(options);
  cleanups.push(fleet.remove);
  return fleet;
}

type Finding = { check: string; ok: boolean; detail: string };

fleetTest(
  "two workers transcribe, synchronously and not; cancelling, draining and stopping (needs nats-server)",
  async () => {
    const fleet = await openFleet();
    const server = await fleet.serve();
    const api = server.api();
    expect((await fetch(`${server.baseUrl}/readyz`)).status).toBe(503);
    const [one, two] = [await fleet.addWorker("one"), await fleet.addWorker("two")];
    one.start();
    two.start();
    await server.ready();
    await workersPresent(fleet, 2);
    for (const { places } of (await fleet.fleet()).workers) expectPlacesOfOneMachine(places);
    expect((await api.transcribe(sampleBytes("02-hi"), { language: "hi" })).text).toBe(wordsIn("02-hi"));
    const short = await uploaded(api, sampleBytes("12-en-long"));
    const long = await uploaded(api, concatenated(["12-en-long"], 8));
    const { body } = await api.start({ audio: { upload_id: short }, language: "en" });
    const { body: doomed } = await api.start({ audio: { upload_id: long }, language: "en" });
    expect((await reached(api, body.id)).state).toBe("completed");
    await until("the second one runs", async () => (await api.get(doomed.id)).state === "transcribing");
    await api.cancel(doomed.id);
    const cancelledAt = performance.now();
    const isIdle = async () => (await fleet.fleet()).workers.every(({ chunks }) => chunks === 0);
    await until("no worker has a chunk", isIdle);
    // The status is up to two beats old.
    expect(performance.now() - cancelledAt).toBeLessThan(MAX_CANCEL_MS + 2_000);

    const metrics = await (await fetch(`${server.baseUrl}/metrics`)).text();
    for (const line of [
      'shruti_fleet_worker_places{worker="one"} ',
      'shruti_fleet_model_places{model="demo"} ',
    ]) {
      expect(metrics).toContain(line);
    }
    for (const findings of [await fleet.json<Finding[]>("doctor"), await doctorOf(fleet, one.folder)]) {
      expect(findings.filter(({ ok }) => !ok)).toEqual([]);
    }
    await fleet.output("fleet", "drain", "two");
    await workersPresent(fleet, 1);
    await api.transcribe(sampleBytes("01-en"), { language: "en" });
    two.stop();
    expect(await two.exited()).toBe(0);
    one.stop();
    expect(await one.exited()).toBe(0);
    const { results, interrupted_chunks, audio_answers } = await fleet.fleet();
    expect({ refused: results.refused, interrupted_chunks }).toEqual({ refused: 0, interrupted_chunks: 0 });
    expect(Object.keys(audio_answers).filter((status) => Number(status) >= 400 && status !== "404")).toEqual(
      [],
    );
    // A worker keeps its configuration, native files and models, and nothing of its work.
    const left = readdirSync(one.folder, { recursive: true, encoding: "utf8", withFileTypes: true })
      .filter((entry) => entry.isFile() && !/\/(native|embedded-models)(\/|$)/.test(entry.parentPath))
      .map(({ name }) => name);
    expect(left.sort()).toEqual(["ca.pem", "shruti.toml", "worker.key"]);
    expect(await server.stop()).toBe(0);
    expect(server.log()).not.toContain('"level":"fatal"');
  },
  TIMEOUT_MS,
);

/** A worker has as many places as the same machine has chunks at once without a fleet. */
function expectPlacesOfOneMachine(places: number): void {
  const machine = measureMachine();
  const model = {
    family: "whisper",
    version: "1",
    files: { weights: DEMO },
    bytes: statSync(DEMO).size,
  } as const;
  const needs = createModelNeeds({ engine: engineOptions() })(model);
  const { chunks } = localCapacity(engineOptions(), machine, needs);
  // Where memory is short, a little more or less of it is free in each process.
  expect(places).toBeGreaterThan(chunks * 0.7);
  expect(places).toBeLessThan(chunks * 1.4);
}

/** Runs `shruti doctor` with the files of a worker. */
async function doctorOf(fleet: FleetInstallation, folder: string): Promise<Finding[]> {
  const { stdout } = Bun.spawnSync(
    [`${fleet.folder}/program/shruti`, "doctor", "--json", "--config", `${folder}/shruti.toml`],
    { cwd: folder, env: {} },
  );
  return JSON.parse(stdout.toString()) as Finding[];
}
