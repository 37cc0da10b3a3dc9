import { describe, expect, test } from "bun:test";
import type { InstalledModel } from "../domain/model.ts";
import type { ChunkExecutor } from "../engine/executor.ts";
import { type ChunkJob, EngineError } from "../engine/protocol.ts";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import { fleetChunk, fleetModel, kindOf, repeated, said, until } from "../testing/kits/fleet-chunks.ts";
import type { FleetWorld } from "../testing/kits/fleet-harness.ts";
import { setUpFleet } from "../testing/kits/fleet-hooks.ts";
import type { Fleet } from "./control/open-fleet.ts";

/** A worker takes as many chunks of each model as its machine recognizes at once without a fleet. */

const describeFleet = NATS_SERVER === undefined ? describe.skip : describe;
const TIMEOUT_MS = 60_000;
/** Chunks of `many` share decoding steps, those of `few` do not. */
const PLACES: Record<string, number> = { many: 4, few: 1 };
const CHUNKS = 8;

describeFleet("the places of a worker (needs nats-server)", () => {
  let world: FleetWorld;
  let folder: string;
  let many: InstalledModel;
  let few: InstalledModel;
  const open = setUpFleet("places", (setting) => {
    ({ world, folder } = setting);
    many = fleetModel(folder, "many");
    few = fleetModel(folder, "few");
  });

  async function openOne(recognize: ChunkExecutor["recognize"]): Promise<Fleet> {
    const fleet = world.openControl();
    open.push(fleet.engine.close);
    const executor: ChunkExecutor = {
      capacity: (model) => {
        const chunks = PLACES["id" in model ? (model as InstalledModel).id : ""] ?? 0;
        return { chunks, power: chunks, isElastic: false };
      },
      recognize,
      warm: async () => {},
    };
    open.push((await world.openWorker("one", { executor, installed: () => [many, few] })).close);
    await until(() => fleet.status().workers.some(({ state }) => state === "working"));
    return fleet;
  }

  test(
    "are those that its machine has for each model, and all of them are used and no more",
    async () => {
      const running = new Map<string, number>();
      const most = new Map<string, number>();
      const full = Promise.withResolvers<void>();
      const fleet = await openOne(async ({ model: { id } }) => {
        const count = (running.get(id) ?? 0) + 1;
        running.set(id, count);
        most.set(id, Math.max(count, most.get(id) ?? 0));
        if (count === PLACES.many) full.resolve();
        if (id === "many") await full.promise;
        await Bun.sleep(20);
        running.set(id, (running.get(id) ?? 1) - 1);
        return said(id);
      });
      expect(fleet.status().workers.map(({ places }) => places)).toEqual([4]);
      expect([many, few].map((model) => fleet.engine.capacity(model).chunks)).toEqual([4, 1]);
      for (const model of [many, few]) {
        const chunks = Array.from({ length: CHUNKS }, (_, n) => fleetChunk(model, n));
        const texts = await Promise.all(chunks.map((chunk) => repeated(fleet, chunk)));
        expect(texts).toEqual(chunks.map(() => model.id));
      }
      expect(Object.fromEntries(most)).toEqual(PLACES);
    },
    TIMEOUT_MS,
  );

  test(
    "do not bound chunks that a client waits for, and the executor knows them",
    async () => {
      const seen: ChunkJob[] = [];
      const release = Promise.withResolvers<void>();
      const fleet = await openOne(async (job) => {
        seen.push(job);
        if (!job.isUrgent) await release.promise;
        return said(job.model.id);
      });
      const waiting = repeated(fleet, fleetChunk(few, 1));
      await until(() => seen.length === 1);
      expect(await repeated(fleet, { ...fleetChunk(few, 2), isUrgent: true })).toBe("few");
      release.resolve();
      expect(await waiting).toBe("few");
      expect(seen.map(({ isUrgent }) => isUrgent)).toEqual([false, true]);
    },
    TIMEOUT_MS,
  );

  test(
    "are not taken away when the process of several chunks ends: each of them is repeated alone",
    async () => {
      let running = 0;
      const full = Promise.withResolvers<void>();
      const fleet = await openOne(async (job) => {
        if (job.isAlone) return said("alone");
        running++;
        if (running === PLACES.many) full.resolve();
        await full.promise;
        const error = new EngineError("interrupted", "the process ended with several chunks");
        error.isSuspect = true;
        throw error;
      });
      const outcomes = await Promise.allSettled(
        Array.from({ length: PLACES.many ?? 0 }, (_, n) =>
          fleet.engine.recognize(fleetChunk(many, n), new AbortController().signal),
        ),
      );
      const failures = outcomes.map((outcome) =>
        outcome.status === "rejected" ? outcome.reason : undefined,
      );
      expect(failures.map((error) => error.kind)).toEqual(failures.map(() => "interrupted"));
      expect(failures.map((error) => error.isSuspect)).toEqual(failures.map(() => true));
      expect(fleet.status().workers.map(({ state }) => state)).toEqual(["working"]);
      expect(await repeated(fleet, { ...fleetChunk(many, 1), isAlone: true })).toBe("alone");
    },
    TIMEOUT_MS,
  );

  test(
    "come to all chunks that wait while another one fails at once and one is cancelled",
    async () => {
      const failed = Promise.withResolvers<void>();
      const fleet = await openOne(async ({ audio }) => {
        if (!("pcm" in audio) || audio.pcm[0] !== 0) return said("recognized");
        await failed.promise;
        throw new EngineError("failed", "failed");
      });
      const failing = kindOf(fleet, fleetChunk(few, 0));
      await until(() => fleet.status().workers[0]?.chunks === 1);
      const stop = new AbortController();
      const cancelled = kindOf(fleet, fleetChunk(few, 1), stop.signal);
      const others = Array.from({ length: CHUNKS }, (_, n) => kindOf(fleet, fleetChunk(few, n + 2)));
      await until(() => fleet.status().tickets.published === CHUNKS + 2);
      stop.abort();
      failed.resolve();
      expect(await Promise.all([failing, cancelled])).toEqual(["failed", "aborted"]);
      expect(await Promise.all(others)).toEqual(others.map(() => "recognized"));
      expect(fleet.status().interrupted_chunks).toBe(0);
    },
    TIMEOUT_MS,
  );
});
