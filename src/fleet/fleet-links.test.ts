import { describe, expect, test } from "bun:test";
import type { InstalledModel } from "../domain/model.ts";
import type { ChunkExecutor } from "../engine/executor.ts";
import { type ChunkOutcome, EngineError } from "../engine/protocol.ts";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import { openPartition, type Partition } from "../testing/boxes/partition.ts";
import {
  executorOf,
  fleetChunk,
  fleetModel,
  kindOf,
  repeated,
  said,
  until,
} from "../testing/kits/fleet-chunks.ts";
import type { ControlParts, FleetWorld } from "../testing/kits/fleet-harness.ts";
import { setUpFleet } from "../testing/kits/fleet-hooks.ts";
import type { Fleet } from "./control/open-fleet.ts";
import { openLink } from "./link.ts";
import { subjectsOf } from "./subjects.ts";
import type { FleetWorker } from "./worker/open-worker.ts";

/** Links between the machines of a fleet that are cut, and messages that are lost, with a real messaging server. */

const describeFleet = NATS_SERVER === undefined ? describe.skip : describe;
const LOST_AFTER_SECONDS = 2;
/** Longer than a silent connection is kept: a ping every 2 s, of which two may stay without an answer. */
const UNTIL_STALE_MS = 7_000;
const TIMEOUT_MS = 60_000;

describeFleet("links of a fleet (needs nats-server)", () => {
  let world: FleetWorld;
  let folder: string;
  let model: InstalledModel;
  const open = setUpFleet("links", (setting) => {
    ({ world, folder } = setting);
    model = fleetModel(folder, "weights");
  });

  const chunk = (value: number) => fleetChunk(model, value);

  async function link(): Promise<{ partition: Partition; servers: string[] }> {
    const partition = await openPartition(Number(new URL(world.addresses[0] ?? "").port));
    open.push(partition.close);
    return { partition, servers: [`tls://127.0.0.1:${partition.port}`] };
  }

  function control(parts: ControlParts = {}): Fleet {
    const fleet = world.openControl({ lostAfterSeconds: LOST_AFTER_SECONDS, ...parts });
    open.push(fleet.engine.close);
    return fleet;
  }

  async function worker(
    name: string,
    recognize: ChunkExecutor["recognize"],
    servers?: string[],
  ): Promise<FleetWorker> {
    const opened = await world.openWorker(name, {
      ...{ executor: executorOf(recognize), installed: () => [model] },
      ...(servers ? { servers } : {}),
    });
    open.push(opened.close);
    return opened;
  }

  const stateOf = (fleet: Fleet, name: string) =>
    fleet.status().workers.find((worker) => worker.name === name)?.state;
  const works = (fleet: Fleet, name: string) => until(() => stateOf(fleet, name) === "working", 40_000);

  test.each([
    ["passes again", false],
    ["has forgotten its connections", true],
  ])(
    "a worker is cut off: its chunk runs elsewhere, and it works again when the link %s",
    async (_, forgets) => {
      const fleet = control();
      const { partition, servers } = await link();
      const gate = Promise.withResolvers<void>();
      const runs: string[] = [];
      await worker(
        "far",
        async () => {
          runs.push("far");
          await gate.promise;
          return said("far");
        },
        servers,
      );
      await works(fleet, "far");
      const job = chunk(forgets ? 21 : 20);
      const result = repeated(fleet, job);
      await until(() => runs.length === 1);
      partition.cut();
      await until(() => stateOf(fleet, "far") === "absent", 40_000);
      await worker("near", async () => {
        runs.push("near");
        return said("near");
      });
      expect(await result).toBe("near");
      // The worker that was cut off has a result, too. No caller waits for it any more.
      gate.resolve();
      partition.mend(forgets);
      await works(fleet, "far");
      await until(() => fleet.status().workers.every(({ chunks }) => chunks === 0));
      expect(runs).toEqual(["far", "near"]);
      expect(fleet.status().results).toMatchObject({ taken: 1, refused: 0 });
      await (open.pop() ?? (() => {}))();
      expect(await repeated(fleet, chunk(forgets ? 23 : 22))).toBe("far");
    },
    TIMEOUT_MS,
  );

  test.each([
    ["passes again", false],
    ["has forgotten its connections", true],
  ])(
    "the control plane is cut off: no running chunk is repeated, and its result arrives when the link %s",
    async (_, forgets) => {
      const { partition, servers } = await link();
      const fleet = control({ servers });
      const gate = Promise.withResolvers<void>();
      const runs: number[] = [];
      await worker("one", async ({ audio }) => {
        runs.push("pcm" in audio ? (audio.pcm[0] ?? 0) : 0);
        await gate.promise;
        return said("once");
      });
      await works(fleet, "one");
      const values = forgets ? [31, 32] : [33, 34];
      const results = values.map((value) => repeated(fleet, chunk(value)));
      await until(() => runs.length === 1);
      partition.cut();
      gate.resolve();
      await Bun.sleep(UNTIL_STALE_MS);
      expect(fleet.status().server.connected).toBe(false);
      partition.mend(forgets);
      expect(await Promise.all(results)).toEqual(["once", "once"]);
      expect(runs.toSorted((a, b) => a - b)).toEqual(values.toSorted((a, b) => a - b));
      expect(fleet.status()).toMatchObject({ lost_workers: 0, interrupted_chunks: 0 });
    },
    TIMEOUT_MS,
  );

  test(
    "audio arrives although the network has forgotten the connections to it",
    async () => {
      const partition = await openPartition(world.audioPort);
      open.push(partition.close);
      const fleet = control({ baseUrl: `https://127.0.0.1:${partition.port}` });
      const places = 4;
      const opened = await world.openWorker("one", {
        ...{ executor: executorOf(async () => said("heard"), places), installed: () => [model] },
      });
      open.push(opened.close);
      await works(fleet, "one");
      const all = (first: number) =>
        Promise.all(Array.from({ length: places }, (_, n) => repeated(fleet, chunk(first + n))));
      await all(50);
      partition.cut();
      partition.mend(true);
      expect(await all(60)).toEqual(Array.from({ length: places }, () => "heard"));
      expect(fleet.status().interrupted_chunks).toBe(0);
    },
    TIMEOUT_MS,
  );

  test.each([
    ["needs seconds to answer a dial", { beginMs: 3_000 }],
    ["needs many seconds for a TLS handshake", { lagMs: 1_500 }],
  ])(
    "a messaging server that %s is reached",
    async (_, delays) => {
      await (await worker("slow", async () => said("never"))).close();
      const slow = await openPartition(Number(new URL(world.addresses[0] ?? "").port), delays);
      open.push(slow.close);
      const patient = openLink({
        ...{ servers: [`tls://127.0.0.1:${slow.port}`], ca: world.caText() },
        ...{ member: "slow", seed: world.seedOf("slow") },
      });
      open.push(patient.close);
      expect(await patient.whenUp(TIMEOUT_MS)).toBe(true);
    },
    2 * TIMEOUT_MS,
  );

  test(
    "a cancellation whose message is lost reaches the worker with its next beat",
    async () => {
      let cancellations = 0;
      const { cancel } = subjectsOf("main");
      const fleet = control({
        dial(options) {
          const whole = openLink(options);
          return {
            ...whole,
            publish(subject, data) {
              // The first one is lost on its way.
              if (subject === cancel && ++cancellations === 1) return;
              whole.publish(subject, data);
            },
          };
        },
      });
      let isRunning = false;
      let cancelledAt: number | undefined;
      await worker("one", (_, signal) => {
        isRunning = true;
        return new Promise<ChunkOutcome>((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            cancelledAt = performance.now();
            reject(new EngineError("aborted", "aborted"));
          });
        });
      });
      await works(fleet, "one");
      const stop = new AbortController();
      const stopped = kindOf(fleet, chunk(40), stop.signal);
      await until(() => isRunning);
      const stoppedAt = performance.now();
      stop.abort();
      expect(await stopped).toBe("aborted");
      await until(() => cancelledAt !== undefined);
      expect(cancellations).toBe(2);
      // A beat each second: 2 s, and time for a machine that is busy.
      expect((cancelledAt ?? Number.NaN) - stoppedAt).toBeLessThan(2_000 + 3_000);
    },
    TIMEOUT_MS,
  );
});
