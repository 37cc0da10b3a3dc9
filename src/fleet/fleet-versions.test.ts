import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { InstalledModel } from "../domain/model.ts";
import { openLog } from "../lib/log.ts";
import { type Changes, copyOfFleet, WORKER_WITHOUT_SKILLS } from "../testing/boxes/changed-program.ts";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import {
  executorOf,
  fleetChunk,
  fleetModel,
  repeated,
  said,
  until,
  working,
} from "../testing/kits/fleet-chunks.ts";
import type { ControlParts, FleetWorld, WorkerParts } from "../testing/kits/fleet-harness.ts";
import { setUpFleet } from "../testing/kits/fleet-hooks.ts";
import type { Fleet } from "./control/open-fleet.ts";

/**
 * Versions of the protocol in one fleet. There is only one so far, so the others are copies of this program in which the
 * numbers are changed.
 */

const describeFleet = NATS_SERVER === undefined ? describe.skip : describe;
const TIMEOUT_MS = 60_000;

type Program = Required<Pick<ControlParts, "open">> & { openWorker: NonNullable<WorkerParts["open"]> };

describeFleet("a fleet of several versions (needs nats-server)", () => {
  let world: FleetWorld;
  let folder: string;
  let model: InstalledModel;
  let next: Program;
  let afterNext: Program;
  const open = setUpFleet("versions", async (setting) => {
    ({ world, folder } = setting);
    model = fleetModel(folder, "weights");
    next = await programOf(2);
    afterNext = await programOf(3);
  });

  /** Copies this program. The copy has this version of the protocol, and understands the one before it. */
  const programOf = (protocol: number) =>
    changedProgram(`protocol-${protocol}`, {
      "fleet/messages.ts": [
        [/PROTOCOL = 1;/, `PROTOCOL = ${protocol};`],
        [/OLDEST_PROTOCOL = 1;/, `OLDEST_PROTOCOL = ${protocol - 1};`],
      ],
    });

  async function changedProgram(name: string, changes: Changes): Promise<Program> {
    const copy = copyOfFleet(join(folder, name), changes);
    const control = (await import(join(copy, "fleet/control/open-fleet.ts"))) as {
      openFleet: Program["open"];
    };
    const worker = (await import(join(copy, "fleet/worker/open-worker.ts"))) as {
      openWorker: Program["openWorker"];
    };
    return { open: control.openFleet, openWorker: worker.openWorker };
  }

  function control(parts: ControlParts = {}): Fleet {
    const fleet = world.openControl({ lostAfterSeconds: 2, ...parts });
    open.push(fleet.engine.close);
    return fleet;
  }

  async function worker(name: string, parts: Partial<WorkerParts> = {}): Promise<void> {
    const executor = executorOf(async () => {
      await Bun.sleep(50);
      return said(name);
    });
    open.push((await world.openWorker(name, { executor, installed: () => [model], ...parts })).close);
  }

  let value = 0;
  /** Recognizes some chunks, and returns the names of the workers that have done so. */
  const recognizers = async (fleet: Fleet) =>
    new Set(
      await Promise.all(Array.from({ length: 12 }, () => repeated(fleet, fleetChunk(model, ++value % 256)))),
    );

  /** The worker beats each second. All its refused messages of a minute are in one line. */
  const refusalsIn = (lines: readonly string[]) =>
    lines.filter((line) => line.includes("a message of a worker was refused")).length;

  /** Waits until both workers have recognized something. Which of them is first is not said. */
  async function untilBoth(fleet: Fleet, names: readonly string[]): Promise<void> {
    const found = new Set<string>();
    while (found.size < names.length) {
      for (const name of await recognizers(fleet)) found.add(name);
    }
    expect([...found].sort()).toEqual([...names].sort());
  }

  test(
    "a control plane works with workers of its version and of the one before, and can drain both",
    async () => {
      const fleet = control({ open: next.open });
      await worker("old");
      await worker("new", { open: next.openWorker });
      await working(fleet, 2);
      await untilBoth(fleet, ["old", "new"]);
      await world.drain("old");
      await until(() => fleet.status().workers.some(({ state }) => state === "draining"));
      expect(fleet.status()).toMatchObject({ results: { refused: 0 }, interrupted_chunks: 0 });
      await world.drain("old", false);
    },
    TIMEOUT_MS,
  );

  test(
    "a worker that was upgraded before the control plane takes no chunks until that is upgraded, too",
    async () => {
      const lines: string[] = [];
      const early = world.openControl({
        lostAfterSeconds: 2,
        log: openLog("info", "json", (line) => void lines.push(line)),
      });
      await worker("newer", { open: next.openWorker });
      await until(() =>
        lines.some((line) => line.includes("a message of protocol 2; this program understands 1")),
      );
      await worker("old");
      await until(() =>
        early.status().workers.some(({ name, state }) => name === "old" && state === "working"),
      );
      expect(await recognizers(early)).toEqual(new Set(["old"]));
      expect(refusalsIn(lines)).toBe(1);
      expect(early.status().interrupted_chunks).toBe(0);
      await early.engine.close();
      const late = control({ open: next.open });
      await until(() => late.status().workers.filter(({ state }) => state === "working").length === 2);
      await untilBoth(late, ["old", "newer"]);
    },
    TIMEOUT_MS,
  );

  test(
    "a worker that is two versions behind takes no chunks",
    async () => {
      const lines: string[] = [];
      const fleet = control({
        open: afterNext.open,
        log: openLog("info", "json", (line) => void lines.push(line)),
      });
      await worker("oldest");
      await worker("current", { open: afterNext.openWorker });
      await until(() =>
        lines.some((line) => line.includes("a message of protocol 1; this program understands 2 to 3")),
      );
      await working(fleet, 1);
      expect(await recognizers(fleet)).toEqual(new Set(["current"]));
      expect(refusalsIn(lines)).toBe(1);
      expect(fleet.status().interrupted_chunks).toBe(0);
    },
    TIMEOUT_MS,
  );

  test(
    "chunks whose words get times wait until there is a worker that knows of words, and its words arrive",
    async () => {
      const lines: string[] = [];
      const log = openLog("info", "json", (line) => void lines.push(line));
      const without = await changedProgram("no-words", WORKER_WITHOUT_SKILLS);
      const fleet = control({ log });
      await worker("old", { open: without.openWorker });
      await working(fleet, 1);
      const plain = fleetChunk(model, 1);
      const timed = { ...plain, settings: { language: "en", words: true } };
      const { signal } = new AbortController();
      const found = fleet.engine.recognize(timed, signal);
      let hasEnded = false;
      void found.then(() => {
        hasEnded = true;
      });
      await until(() => lines.some((line) => line.includes("chunks wait whose words are to have times")));
      expect(await repeated(fleet, plain)).toBe("old");
      expect(fleet.engine.status().models).toMatchObject([
        { problem: "no worker of the fleet is new enough to give words times" },
      ]);
      await Bun.sleep(2_500);
      expect(hasEnded).toBe(false);
      const words = [{ text: "new", startMs: 100, endMs: 300, confidence: 0.5 }];
      const executor = executorOf(async ({ settings }) => ({
        segments: said("new").segments.map((segment) => (settings.words ? { ...segment, words } : segment)),
        workMs: 1,
      }));
      await worker("new", { executor });
      const { segments, onStored } = await found;
      onStored?.();
      expect(segments).toMatchObject([{ text: "new", words }]);
      expect(fleet.engine.status().models).toMatchObject([{ problem: undefined }]);
      expect(fleet.status()).toMatchObject({ results: { refused: 0 }, interrupted_chunks: 0 });
    },
    TIMEOUT_MS,
  );

  test(
    "chunks that are to be translated wait until there is a worker that can, also beside one that knows of words",
    async () => {
      const without = await changedProgram("no-translations", {
        "fleet/worker/open-worker.ts": [
          [/\.\.\.allFlags\(\(skill\) => order\[skill\] \?\? false\),/, "words: order.words ?? false,"],
          [/order = given;/, "order = { drain: given.drain, words: given.words ?? false };"],
        ],
      });
      const lines: string[] = [];
      const log = openLog("info", "json", (line) => void lines.push(line));
      const fleet = control({ log });
      const executor = executorOf(async ({ settings }) => said(settings.translates ? "new" : "plain"));
      await worker("words", { open: without.openWorker, executor: executorOf(async () => said("old")) });
      await working(fleet, 1);
      const asked = { ...fleetChunk(model, 1), settings: { language: "hi", translates: true } };
      const found = fleet.engine.recognize(asked, new AbortController().signal);
      let hasEnded = false;
      void found.then(() => {
        hasEnded = true;
      });
      await until(() => lines.some((line) => line.includes("chunks wait that are to be translated")));
      expect(fleet.engine.status().models).toMatchObject([
        { problem: "no worker of the fleet is new enough to translate" },
      ]);
      await Bun.sleep(2_500);
      expect(hasEnded).toBe(false);
      await worker("new", { executor });
      const { segments, onStored } = await found;
      onStored?.();
      expect(segments).toMatchObject([{ text: "new" }]);
      expect(fleet.status()).toMatchObject({ results: { refused: 0 }, interrupted_chunks: 0 });
    },
    TIMEOUT_MS,
  );
});
