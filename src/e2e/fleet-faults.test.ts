import { afterEach, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { NATS_SERVER } from "../testing/nats-server.ts";
import { type FleetInstallation, type FleetMember, installFleet, workersPresent } from "./fleet-kit.ts";
import { type RunningServer, reached, until, uploaded } from "./kit.ts";
import { concatenated, secondsOf } from "./samples.ts";

/**
 * Faults of a fleet of real processes under load. `SHRUTI_FLEET_ROUNDS=500`: that many random faults of all kinds. The last
 * line of the log has the numbers.
 */

const fleetTest = NATS_SERVER === undefined ? test.skip : test;
const ROUNDS = Number(process.env.SHRUTI_FLEET_ROUNDS ?? 0);
const WORKERS = 4;
const LOST_AFTER_SECONDS = 2;
const REPETITIONS = 2;
/** Transcriptions that are unfinished while faults happen. */
const UNFINISHED = 3;
const TIMEOUT_MS = 240_000 + ROUNDS * 20_000;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

type World = { fleet: FleetInstallation; members: FleetMember[]; server: RunningServer };

/** Every fault ends with all processes running again. */
const FAULTS: Record<string, (world: World) => Promise<void>> = {
  async "half the workers killed"({ members }) {
    const half = someOf(members);
    await Promise.all(half.map((member) => member.signal("SIGKILL")));
    await Bun.sleep(LOST_AFTER_SECONDS * 1000 + 1_500);
    for (const member of half) member.start();
  },
  async "half the workers frozen"({ members }) {
    const half = someOf(members);
    for (const member of half) await member.signal("SIGSTOP");
    await Bun.sleep(LOST_AFTER_SECONDS * 1000 + 2_000);
    for (const member of half) await member.signal("SIGCONT");
  },
  async "messaging server killed"({ fleet }) {
    await fleet.nats.signal("SIGKILL");
    await Bun.sleep(1_000);
    await fleet.nats.restart();
  },
  async "messaging server wiped"({ fleet }) {
    await fleet.nats.signal("SIGKILL");
    rmSync(join(fleet.dataDir, "fleet/nats/jetstream"), { recursive: true, force: true });
    await fleet.nats.restart();
  },
  async "messaging server frozen"({ fleet }) {
    await fleet.nats.signal("SIGSTOP");
    await Bun.sleep(4_000);
    await fleet.nats.signal("SIGCONT");
  },
  async "control plane killed"(world) {
    await world.server.kill();
    await Bun.sleep(500);
    world.server = await world.fleet.serve();
  },
  async "control plane frozen"({ server }) {
    server.process.kill("SIGSTOP");
    await Bun.sleep(5_000);
    server.process.kill("SIGCONT");
  },
  async "rights of a worker withdrawn"({ fleet, members }) {
    const gone = members.pop();
    if (!gone) return;
    await fleet.output("fleet", "remove", gone.name);
    await gone.signal("SIGKILL");
    const member = await fleet.addWorker(`new-${Date.now()}`);
    member.start();
    members.unshift(member);
  },
};

/** Without `SHRUTI_FLEET_ROUNDS`. The others are tests of one process in `fleet/fleet-faults.test.ts`, too. */
const SHORT_FORM = [
  ...[
    "half the workers killed",
    "messaging server frozen",
    "control plane killed",
    "half the workers frozen",
  ],
];

function someOf<T>(all: readonly T[]): T[] {
  const shuffled = all.map((one) => ({ one, at: Math.random() })).sort((a, b) => a.at - b.at);
  return shuffled.slice(0, Math.floor(all.length / 2)).map(({ one }) => one);
}

fleetTest(
  "no chunk is lost and none counts twice under faults of workers, messaging server and control plane",
  async () => {
    const fleet = await installFleet({
      environment: { SHRUTI_FLEET_LOST_AFTER_SECONDS: String(LOST_AFTER_SECONDS) },
      workerEnvironment: { SHRUTI_ENGINE_WORKERS: "1", SHRUTI_ENGINE_THREADS_PER_WORKER: "1" },
      creditPaise: 1_000_000_000,
    });
    cleanups.push(fleet.remove);
    const members: FleetMember[] = [];
    for (let n = 0; n < WORKERS; n++) members.push(await fleet.addWorker(`worker-${n}`));
    for (const member of members) member.start();
    const world: World = { fleet, members, server: await (await fleet.serve()).ready() };
    await workersPresent(fleet, WORKERS);
    const upload = await uploaded(world.server.api(), concatenated(["12-en-long"], REPETITIONS));
    const begin = async () =>
      (await world.server.api().start({ audio: { upload_id: upload }, language: "en" })).body.id;

    const first = await begin();
    expect((await reached(world.server.api(), first, undefined, TIMEOUT_MS)).state).toBe("completed");
    const text = (await world.server.api().result(first)).text;
    const { results, interrupted_chunks } = await fleet.fleet();
    expect(interrupted_chunks).toBe(0);

    const started: string[] = [];
    const unfinished = async () => {
      const { transcriptions } = await fleet.json<{ transcriptions: Record<string, number> }>("status");
      return Object.values(transcriptions).reduce((sum, count) => sum + count, 0);
    };
    const kinds = Object.keys(FAULTS);
    const rounds = ROUNDS === 0 ? SHORT_FORM.length : ROUNDS;
    const done: Record<string, number> = {};
    for (let round = 0; round < rounds; round++) {
      const kind = (ROUNDS === 0 ? SHORT_FORM[round] : kinds[Math.floor(Math.random() * kinds.length)]) ?? "";
      while ((await unfinished()) < UNFINISHED) started.push(await begin());
      await until("a worker has chunks", async () => {
        const numbers = await fleet.fleet().catch(() => undefined);
        return numbers?.workers.some(({ chunks }) => chunks > 0) ?? false;
      });
      await FAULTS[kind]?.(world);
      done[kind] = (done[kind] ?? 0) + 1;
      await workersPresent(fleet, WORKERS).catch((error: unknown) => {
        const logs = members.map((member) => `${member.name}: ${member.log().slice(-1_500)}`);
        throw new Error([`after ${kind}: ${error}`, ...logs, world.server.log().slice(-3_000)].join("\n"));
      });
    }

    for (const id of started) {
      const api = world.server.api();
      expect({ id, state: (await reached(api, id, undefined, TIMEOUT_MS)).state }).toEqual({
        id,
        state: "completed",
      });
      const result = await api.result(id);
      expect({ text: result.text === text, gaps: result.gaps ?? [] }).toEqual({ text: true, gaps: [] });
    }
    const audit = await fleet.json<{ ok: boolean; charged_paise: number; reserved_paise: number }>(
      "credit",
      "audit",
    );
    expect(audit).toMatchObject({ ok: true, reserved_paise: 0 });
    const pricePaise = Math.ceil((3000 * secondsOf("12-en-long") * REPETITIONS) / 3600);
    expect(audit.charged_paise).toBe(pricePaise * (started.length + 1));
    const chunks = results.taken * (started.length + 1);
    console.log(
      JSON.stringify({ faults: done, transcriptions: started.length + 1, chunks, lost: 0, twice: 0 }),
    );
  },
  TIMEOUT_MS,
);
