import { afterEach, expect, test } from "bun:test";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import { type FleetInstallation, type FleetOptions, installFleet, workersPresent } from "./fleet-kit.ts";
import { reached, until, uploaded } from "./kit.ts";
import { concatenated, sampleBytes } from "./samples.ts";

/** Workers that decode recordings and find speech: the executable on both sides. */

const fleetTest = NATS_SERVER === undefined ? test.skip : test;
const TIMEOUT_MS = 180_000;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function openFleet(options: FleetOptions = {}): Promise<FleetInstallation> {
  const fleet = await installFleet(options);
  cleanups.push(fleet.remove);
  return fleet;
}

type Wish = { audio: Uint8Array<ArrayBuffer>; channel_mode: "mix" | "separate" };

/** Transcribes recordings, and returns what was found in each and what each has cost. */
async function transcribed(api: ApiClient, wishes: readonly Wish[]) {
  const outcomes = [];
  for (const { audio, channel_mode } of wishes) {
    const before = await api.usage();
    const upload_id = await uploaded(api, audio);
    const { body } = await api.start({ audio: { upload_id }, language: "en", channel_mode });
    expect((await reached(api, body.id)).state).toBe("completed");
    const { segments, warnings, text } = await api.result(body.id);
    const after = await api.usage();
    const cost = before.credit.balance_paise - after.credit.balance_paise;
    outcomes.push({ segments, warnings, text, cost });
  }
  return outcomes;
}

fleetTest(
  "a recording that a worker prepares has the text and the cost of one that the control plane prepares (needs nats-server)",
  async () => {
    const fleet = await openFleet();
    const server = await fleet.serve();
    const [one, two] = [await fleet.addWorker("one"), await fleet.addWorker("two")];
    appendFileSync(join(one.folder, "shruti.toml"), "preparing_places = 1\n");
    one.start();
    await server.ready();
    await until("the worker prepares", async () => (await fleet.fleet()).workers[0]?.preparing_places === 1);
    const wishes: Wish[] = [
      { audio: sampleBytes("12-en-long"), channel_mode: "mix" },
      { audio: sampleBytes("10-en-stereo"), channel_mode: "separate" },
    ];
    const elsewhere = await transcribed(server.api(), wishes);
    await until("both are counted", async () => (await fleet.fleet()).preparations.prepared === 2);
    const metrics = await (await fetch(`${server.baseUrl}/metrics`)).text();
    expect(metrics).toContain('shruti_fleet_preparations_total{kind="prepared"} 2');
    expect(metrics).toContain('shruti_fleet_worker_preparing_places{worker="one"} 1');
    expect(readdirSync(join(one.folder, "shruti-data/preparing"))).toEqual([]);
    one.stop();
    expect(await one.exited()).toBe(0);
    two.start();
    await workersPresent(fleet, 1);
    expect(elsewhere).toEqual(await transcribed(server.api(), wishes));
    expect(elsewhere.every(({ cost, text }) => cost > 0 && text !== "")).toBe(true);
    // The status is a moment old.
    await until("both are counted here", async () => (await fleet.fleet()).preparations.here === 2);
    expect((await fleet.fleet()).preparations).toEqual({ prepared: 2, failed: 0, here: 2 });
    expect(await server.stop()).toBe(0);
  },
  TIMEOUT_MS,
);

/** Makes a decoder that does not decode for as long as `hold` is in the folder. */
function makeHeldDecoder(): { decoder: string; hold: string; original: string } {
  const folder = mkdtempSync(join(tmpdir(), "shruti-held-"));
  cleanups.push(() => rmSync(folder, { recursive: true }));
  const [decoder, hold, original] = ["decoder", "hold", "original"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const wait = `while [ -e '${hold}' ]; do /bin/sleep 0.05; done`;
  const script = `#!/bin/sh\nif [ "$1" = decode ]; then ${wait}; fi\nread -r own < '${original}'\nexec "$own" "$@"\n`;
  writeFileSync(decoder, script, { mode: 0o755 });
  return { decoder, hold, original };
}

fleetTest(
  "a worker that is killed while it prepares has nothing of the recording after its next start, and no text is lost (needs nats-server)",
  async () => {
    const { decoder, hold, original } = makeHeldDecoder();
    const environment = { SHRUTI_ENGINE_DECODER: decoder };
    const workerEnvironment = { ...environment, SHRUTI_FLEET_PREPARING_PLACES: "1" };
    const fleet = await openFleet({ environment, workerEnvironment });
    const server = await fleet.serve();
    const native = new Bun.Glob("native/*/decoder");
    const [carried = ""] = [...native.scanSync({ cwd: fleet.dataDir, absolute: true })];
    writeFileSync(original, `${carried}\n`);
    const one = await fleet.addWorker("one");
    one.start();
    await server.ready();
    await until("the worker prepares", async () => (await fleet.fleet()).workers[0]?.preparing_places === 1);
    writeFileSync(hold, "");
    const api = server.api();
    const upload_id = await uploaded(api, concatenated(["04-en"], 3));
    const { body } = await api.start({ audio: { upload_id }, language: "en" });
    const preparing = join(one.folder, "shruti-data/preparing");
    const left = () =>
      existsSync(preparing) ? readdirSync(preparing, { recursive: true, encoding: "utf8" }) : [];
    await until("the worker has the recording", () => left().some((name) => name.endsWith("/recording")));
    await one.signal("SIGKILL");
    expect(left().some((name) => name.endsWith("/recording"))).toBe(true);
    await until("the worker is lost", async () => (await fleet.fleet()).lost_workers === 1);
    // What an earlier process has left beside it goes, too.
    mkdirSync(join(preparing, "older"));
    writeFileSync(join(preparing, "older/mix.pcm"), "sound");
    one.start();
    await until("the worker has started", async () => (await fleet.fleet()).workers[0]?.state === "working");
    expect(left().filter((name) => name.startsWith("older"))).toEqual([]);
    rmSync(hold);
    expect((await reached(api, body.id)).state).toBe("completed");
    expect(left()).toEqual([]);
    expect((await api.result(body.id)).text.split(" ").length).toBeGreaterThan(10);
    const { preparations } = await fleet.fleet();
    expect(preparations.failed).toBe(1);
    expect(preparations.prepared + preparations.here).toBe(1);
    expect(await server.stop()).toBe(0);
  },
  TIMEOUT_MS,
);
