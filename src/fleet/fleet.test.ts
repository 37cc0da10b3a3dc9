import { afterAll, beforeAll, describe } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { InstalledModel } from "../domain/model.ts";
import { pcmOf } from "../e2e/samples.ts";
import { FAMILIES } from "../families/families.ts";
import { extractNativeFiles, type NativeFiles } from "../native/native-files.ts";
import { sha256OfFile } from "../store/file-hash.ts";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import { describeExecutor } from "../testing/kits/executor-contract.ts";
import { type FleetWorld, openFleetWorld } from "../testing/kits/fleet-harness.ts";
import { openLocal, spawnReal } from "../testing/kits/pool-harness.ts";

const DEMO = join(import.meta.dir, "../../models/demo.bin");
const describeFleet = NATS_SERVER === undefined ? describe.skip : describe;

describeFleet("a fleet with a real messaging server (needs nats-server)", () => {
  let world: FleetWorld;
  let folder: string;
  let nativeFiles: NativeFiles;
  let model: InstalledModel;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "shruti-fleet-pool-"));
    nativeFiles = await extractNativeFiles(folder);
    writeFileSync(join(folder, "speech.pcm"), new Uint8Array(pcmOf("04-en").buffer));
    mkdirSync(join(folder, "broken"));
    writeFileSync(join(folder, "broken/weights.bin"), "no weights");
    model = {
      ...{ id: "m", name: "m", version: "1", family: "whisper", sha256: await sha256OfFile(DEMO), bytes: 1 },
      ...{
        languages: [],
        licence: "none",
        source: "",
        decoding: {},
        files: { weights: DEMO },
        embedded: false,
      },
    };
    world = await openFleetWorld();
  });
  afterAll(async () => {
    await world.close();
    rmSync(folder, { recursive: true, force: true });
  });

  describeExecutor({
    name: "the fleet's executor, with whisper on a worker",
    async open() {
      const files = { good: model.files, bad: { weights: join(folder, "broken/weights.bin") } };
      const pool = openLocal(folder, "whisper", FAMILIES.of("whisper"), files, spawnReal, nativeFiles);
      const fleet = world.openControl({ lostAfterSeconds: 2 });
      const worker = await world.openWorker("one", { executor: pool.executor, installed: () => [model] });
      const { sha256 } = model;
      const withHash = <T extends typeof pool.job>(job: T): T => ({
        ...job,
        model: { ...job.model, sha256 },
      });
      const signal = AbortSignal.timeout(10_000);
      for (;;) {
        signal.throwIfAborted();
        if (fleet.status().workers.some(({ state }) => state === "working")) break;
        await Bun.sleep(20);
      }
      return {
        executor: fleet.engine,
        job: withHash(pool.job),
        ...(pool.bytesJob ? { bytesJob: withHash(pool.bytesJob) } : {}),
        disturb: pool.disturb,
        async close() {
          await fleet.engine.close();
          await worker.close();
          await pool.close();
        },
      };
    },
    // A real process cannot be made to reply twice.
    without: ["twice"],
  });
});
