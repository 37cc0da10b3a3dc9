import { afterEach, expect, test } from "bun:test";
import { join } from "node:path";
import { sha256OfFile } from "../store/file-hash.ts";
import { NATS_SERVER } from "../testing/nats-server.ts";
import {
  CUTS,
  FAULTS,
  type FaultyWorld,
  LOST_AFTER_SECONDS,
  openWitness,
  type Witness,
} from "./fleet-faults-kit.ts";
import { type FleetMember, type FleetOptions, installFleet, workersPresent } from "./fleet-kit.ts";
import { reached, until, uploaded } from "./kit.ts";
import { concatenated, secondsOf } from "./samples.ts";

/**
 * Faults of a fleet of real processes under load: the executable, Debian's messaging server, and workers. In the short
 * form the workers are the executable, too. The long form has many chunks, so its workers wait instead of recognizing
 * (`testing/scripted-fleet-worker.ts`): `SHRUTI_FLEET_ROUNDS=500` random faults of all kinds, shared out over
 * `SHRUTI_FLEET_INSTALLATIONS` at once. The last line of the output has the numbers.
 */

const fleetTest = NATS_SERVER === undefined ? test.skip : test;
const ROUNDS = Number(process.env.SHRUTI_FLEET_ROUNDS ?? 0);
const INSTALLATIONS = Number(process.env.SHRUTI_FLEET_INSTALLATIONS ?? 1);
const IS_LONG = ROUNDS > 0;
const WORKERS = 4;
/** The sample is a minute long. */
const REPETITIONS = IS_LONG ? 10 : 2;
/** Transcriptions that are unfinished while faults happen. */
const UNFINISHED = IS_LONG ? 4 : 3;
const TIMEOUT_MS = 300_000 + ROUNDS * 30_000;
const ENDS_WITHIN_MS = 240_000;
/** Part of the faults in the long form that come before everything works again after the last one. */
const OVERLAPPING = 0.3;
const PROGRESS_EVERY = 10;

/** Without `SHRUTI_FLEET_ROUNDS`. The others are tests of one process in `fleet/`, too. */
const SHORT_FORM = [
  "half the workers killed",
  "messaging server frozen",
  "control plane killed",
  "half the workers frozen",
  "half the workers cut off, connections forgotten",
  "control plane cut off from the messaging server",
];
const ALL_FAULTS = { ...FAULTS, ...CUTS };

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function openWorld(): Promise<{ world: FaultyWorld; witness: Witness }> {
  const real: FleetOptions = {
    workerEnvironment: { SHRUTI_ENGINE_WORKERS: "1", SHRUTI_ENGINE_THREADS_PER_WORKER: "1" },
  };
  const modelSha256 = await sha256OfFile(join(import.meta.dir, "../../models/demo.bin"));
  const fleet = await installFleet({
    environment: {
      SHRUTI_FLEET_LOST_AFTER_SECONDS: String(LOST_AFTER_SECONDS),
      SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0",
    },
    creditPaise: 1_000_000_000,
    canBeCut: true,
    ...(IS_LONG ? { scripted: { modelSha256, places: 2, meanMs: 500 } } : real),
  });
  cleanups.push(fleet.remove);
  const witness = openWitness(fleet.dataDir);
  cleanups.push(witness.close);
  const members: FleetMember[] = [];
  for (let n = 0; n < WORKERS; n++) members.push(await fleet.addWorker(`worker-${n}`));
  for (const member of members) member.start();
  const world = { fleet, members, server: await (await fleet.serve()).ready() };
  await workersPresent(fleet, WORKERS);
  return { world, witness };
}

type Numbers = { faults: Record<string, number>; transcriptions: number; chunks: number; twice: number };

/** Disturbs a fleet this many times, and compares what clients, database and ledger have at the end. */
async function disturb(rounds: number): Promise<Numbers> {
  const { world, witness } = await openWorld();
  const { fleet } = world;
  const upload = await uploaded(world.server.api(), concatenated(["12-en-long"], REPETITIONS));
  const begin = async () =>
    (await world.server.api().start({ audio: { upload_id: upload }, language: "en" })).body.id;

  const undisturbed = await begin();
  expect((await reached(world.server.api(), undisturbed, undefined, ENDS_WITHIN_MS)).state).toBe("completed");
  const { text } = await world.server.api().result(undisturbed);
  const chunks = witness.ends(undisturbed).length;
  expect({ isText: text !== "", isSeveral: chunks > 1 }).toEqual({ isText: true, isSeveral: true });

  const started: string[] = [];
  const faults: Record<string, number> = {};
  for (let round = 0; round < rounds; round++) {
    while (witness.unfinished() < UNFINISHED) started.push(await begin());
    await until("a worker has chunks", () => fleet.latest()?.workers.some(({ chunks: n }) => n > 0) ?? false);
    const kind = kindOf(round);
    await ALL_FAULTS[kind]?.(world);
    faults[kind] = (faults[kind] ?? 0) + 1;
    if (!IS_LONG || Math.random() >= OVERLAPPING) await recovered(world, kind);
    if (IS_LONG && round % PROGRESS_EVERY === 0) console.log(JSON.stringify({ round, ...witness.totals() }));
  }
  await recovered(world, "all faults");

  const pricePaise = Math.ceil((3000 * secondsOf("12-en-long") * REPETITIONS) / 3600);
  for (const id of started) {
    const api = world.server.api();
    const { state } = await reached(api, id, undefined, ENDS_WITHIN_MS).catch((error: unknown) => {
      throw new Error(describe(world, String(error)));
    });
    const result = state === "completed" ? await api.result(id) : undefined;
    expect({ id, state, isEqual: result?.text === text, gaps: result?.gaps ?? [] }).toEqual({
      ...{ id, state: "completed", isEqual: true, gaps: [] },
    });
    expect({ id, ends: witness.ends(id), charges: witness.charges(id) }).toEqual({
      ...{ id, ends: Array.from({ length: chunks }, () => 1), charges: 1 },
    });
  }
  const audit = await fleet.json<{ ok: boolean; charged_paise: number }>("credit", "audit");
  expect(audit).toMatchObject({ ok: true, reserved_paise: 0, open_reservations: 0 });
  const transcriptions = started.length + 1;
  expect(audit.charged_paise).toBe(pricePaise * transcriptions);
  return { faults, transcriptions, ...witness.totals() };
}

function kindOf(round: number): string {
  const kinds = Object.keys(ALL_FAULTS);
  return (IS_LONG ? kinds[Math.floor(Math.random() * kinds.length)] : SHORT_FORM[round]) ?? "";
}

async function recovered({ fleet, members, server }: FaultyWorld, kind: string): Promise<void> {
  await workersPresent(fleet, WORKERS).catch((error: unknown) => {
    throw new Error(describe({ fleet, members, server }, `after ${kind}: ${error}`));
  });
}

/** Says what the processes say, for a failure that may not come again. */
function describe({ fleet, members, server }: FaultyWorld, what: string): string {
  const logs = members.map((member) => `${member.name}: ${member.log().slice(-1_500)}`);
  return [what, JSON.stringify(fleet.latest()), ...logs, server.log().slice(-8_000)].join("\n");
}

fleetTest(
  "no chunk is lost and none counts twice under faults of workers, messaging server, control plane and links",
  async () => {
    const rounds = IS_LONG ? Math.ceil(ROUNDS / INSTALLATIONS) : SHORT_FORM.length;
    const all = await Promise.all(Array.from({ length: IS_LONG ? INSTALLATIONS : 1 }, () => disturb(rounds)));
    const sum = (count: (numbers: Numbers) => number) => all.reduce((total, each) => total + count(each), 0);
    const faults: Record<string, number> = {};
    for (const each of all) {
      for (const [kind, count] of Object.entries(each.faults)) faults[kind] = (faults[kind] ?? 0) + count;
    }
    expect(sum(({ twice }) => twice)).toBe(0);
    console.log(
      JSON.stringify({
        faults: Object.values(faults).reduce((total, count) => total + count, 0),
        transcriptions: sum(({ transcriptions }) => transcriptions),
        chunks: sum(({ chunks }) => chunks),
        ...{ lost: 0, twice: 0, kinds: faults },
      }),
    );
  },
  TIMEOUT_MS,
);
