import { afterEach, expect, test } from "bun:test";
import { join } from "node:path";
import { errorMessage } from "../lib/error-message.ts";
import { sha256OfFile } from "../store/file-hash.ts";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import {
  CUTS,
  FAULTS,
  type FaultyWorld,
  LOST_AFTER_SECONDS,
  openWitness,
  type Witness,
} from "./fleet-faults-kit.ts";
import { type FleetMember, type FleetOptions, installFleet, workersPresent } from "./fleet-kit.ts";
import { explained } from "./fleet-report.ts";
import { addPart, type FaultCounts, faultsOf, NOTHING, recoveriesOf, sumOf } from "./fleet-sums.ts";
import { reached, until, uploaded } from "./kit.ts";
import { concatenated, secondsOf } from "./samples.ts";

/**
 * Faults of a fleet of real processes under load: the executable, Debian's messaging server, and workers. In the short
 * form the workers are the executable, too. The long form has many chunks, so its workers wait instead of recognizing
 * (`testing/programs/scripted-fleet-worker.ts`): `SHRUTI_FLEET_ROUNDS=500` random faults of all kinds, shared out over
 * `SHRUTI_FLEET_INSTALLATIONS` at once. The last lines of the output have the numbers. With `SHRUTI_FLEET_SUMS=FILE` a
 * long form can run in parts: each adds its numbers to the file, also when it fails, and prints the sums.
 */

const fleetTest = NATS_SERVER === undefined ? test.skip : test;
const ROUNDS = Number(process.env.SHRUTI_FLEET_ROUNDS ?? 0);
const INSTALLATIONS = Number(process.env.SHRUTI_FLEET_INSTALLATIONS ?? 1);
const IS_LONG = ROUNDS > 0;
const SUMS = process.env.SHRUTI_FLEET_SUMS;
const WORKERS = 4;
/** The sample is a minute long. */
const REPETITIONS = IS_LONG ? 10 : 2;
/** Transcriptions that are unfinished while faults happen. */
const UNFINISHED = IS_LONG ? 4 : 3;
const TIMEOUT_MS = 300_000 + ROUNDS * 30_000;
const ENDS_WITHIN_MS = 240_000;
const AT_WORK_WITHIN_MS = 120_000;
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
      SHRUTI_LIMITS_UNPAID_ACTS_PER_SECOND: "0",
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
  const world = { fleet, members, server: await fleet.serve() };
  await explained(world, async () => {
    await world.server.ready();
    await workersPresent(fleet, WORKERS);
  });
  return { world, witness };
}

/** The parts of a run, which may fail: `numbers` is what was reached until then. */
type Run = { numbers: FaultCounts };

/** Disturbs a fleet this many times, and compares what clients, database and ledger have at the end. */
async function disturb(rounds: number, run: Run): Promise<void> {
  const { world, witness } = await openWorld();
  const started: string[] = [];
  const faults: Record<string, number> = {};
  const recoveries: Record<string, number[]> = {};
  const note = () => {
    run.numbers = { faults, recoveries, transcriptions: started.length, ...witness.totals() };
  };
  try {
    await explained(world, async () => {
      const { fleet } = world;
      const upload = await uploaded(world.server.api(), concatenated(["12-en-long"], REPETITIONS));
      const begin = async () => {
        const { body } = await world.server.api().start({ audio: { upload_id: upload }, language: "en" });
        started.push(body.id);
        return body.id;
      };
      const expected = await undisturbed(world, witness, await begin());
      for (let round = 0; round < rounds; round++) {
        while (witness.unfinished() < UNFINISHED) await begin();
        await until(
          "a worker has chunks",
          () => fleet.latest()?.workers.some(({ chunks }) => chunks > 0) ?? false,
          AT_WORK_WITHIN_MS,
        );
        const kind = kindOf(round);
        await ALL_FAULTS[kind]?.(world);
        faults[kind] = (faults[kind] ?? 0) + 1;
        if (!IS_LONG || Math.random() >= OVERLAPPING) {
          const endedAt = performance.now();
          await workersPresent(fleet, WORKERS);
          const seconds = Math.round((performance.now() - endedAt) / 100) / 10;
          recoveries[kind] = [...(recoveries[kind] ?? []), seconds];
        }
        note();
        if (IS_LONG && round % PROGRESS_EVERY === 0)
          console.log(JSON.stringify({ round, ...witness.totals() }));
      }
      await workersPresent(fleet, WORKERS);
      for (const id of started) await expectWhole(world, witness, id, expected);
      await expectPaid(fleet, started.length);
    });
  } finally {
    note();
  }
}

type Expected = { text: string; chunks: number };

/** Returns what a transcription has without faults. */
async function undisturbed({ server }: FaultyWorld, witness: Witness, id: string): Promise<Expected> {
  expect((await reached(server.api(), id, undefined, ENDS_WITHIN_MS)).state).toBe("completed");
  const { text } = await server.api().result(id);
  const chunks = witness.ends(id).length;
  expect({ isText: text !== "", isSeveral: chunks > 1 }).toEqual({ isText: true, isSeveral: true });
  return { text, chunks };
}

/** Waits for the end of a transcription. Each of its chunks ended once, and it was paid once. */
async function expectWhole(
  { server }: FaultyWorld,
  witness: Witness,
  id: string,
  { text, chunks }: Expected,
): Promise<void> {
  const api = server.api();
  const { state } = await reached(api, id, undefined, ENDS_WITHIN_MS);
  const result = state === "completed" ? await api.result(id) : undefined;
  expect({ id, state, isEqual: result?.text === text, gaps: result?.gaps ?? [] }).toEqual({
    ...{ id, state: "completed", isEqual: true, gaps: [] },
  });
  expect({ id, ends: witness.ends(id), charges: witness.charges(id) }).toEqual({
    ...{ id, ends: Array.from({ length: chunks }, () => 1), charges: 1 },
  });
}

async function expectPaid(fleet: FaultyWorld["fleet"], transcriptions: number): Promise<void> {
  const pricePaise = Math.ceil((3000 * secondsOf("12-en-long") * REPETITIONS) / 3600);
  const audit = await fleet.json<{ ok: boolean; charged_paise: number }>("credit", "audit");
  expect(audit).toMatchObject({ ok: true, reserved_paise: 0, open_reservations: 0 });
  expect(audit.charged_paise).toBe(pricePaise * transcriptions);
}

function kindOf(round: number): string {
  const kinds = Object.keys(ALL_FAULTS);
  return (IS_LONG ? kinds[Math.floor(Math.random() * kinds.length)] : SHORT_FORM[round]) ?? "";
}

fleetTest(
  "no chunk is lost and none counts twice under faults of workers, messaging server, control plane and links (needs nats-server)",
  async () => {
    const beganAt = performance.now();
    const installations = IS_LONG ? INSTALLATIONS : 1;
    const rounds = IS_LONG ? Math.ceil(ROUNDS / installations) : SHORT_FORM.length;
    const runs: Run[] = Array.from({ length: installations }, () => ({ numbers: NOTHING }));
    const report = (problem?: string) => {
      const part = sumOf(runs.map(({ numbers }) => numbers));
      const seconds = Math.round((performance.now() - beganAt) / 1000);
      const { chunks, twice, transcriptions, faults: kinds } = part;
      const recoveries = recoveriesOf(part);
      console.log(
        JSON.stringify({ faults: faultsOf(part), transcriptions, chunks, twice, kinds, recoveries, problem }),
      );
      if (SUMS === undefined) return;
      console.log(
        addPart(SUMS, { ...part, installations, seconds, ...(problem === undefined ? {} : { problem }) }),
      );
    };
    const ends = await Promise.allSettled(runs.map((run) => disturb(rounds, run)));
    const failures = ends.flatMap((end) => (end.status === "rejected" ? [end.reason] : []));
    if (failures.length > 0) {
      report(failures.map((error) => errorMessage(error).split("\n")[0]).join("; "));
      throw failures[0];
    }
    expect(sumOf(runs.map(({ numbers }) => numbers)).twice).toBe(0);
    report();
  },
  TIMEOUT_MS,
);
