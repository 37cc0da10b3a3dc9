import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { ConfigError } from "../config/problems.ts";
import type { Config } from "../config/schema.ts";
import { openEngine } from "../engine/open-engine.ts";
import { readFleetFile } from "../fleet/fleet-folder.ts";
import { preparingCodeOf } from "../fleet/job-id.ts";
import { type FleetWorker, openWorker } from "../fleet/worker/open-worker.ts";
import type { Clock } from "../lib/clock.ts";
import type { Log } from "../lib/log.ts";
import { dataDirOf } from "../services/data-dir.ts";
import { extractCarriedModels } from "../services/models/carried-models.ts";
import { createModelService } from "../services/models/models.ts";
import { openDatabase } from "../store/database.ts";
import { sha256OfFile } from "../store/file-hash.ts";
import { fetchingInto } from "./fetched-models.ts";

/** A running `shruti worker`. */
export type WorkerProgram = Pick<FleetWorker, "whenConnected" | "drain" | "close">;

/**
 * Wires the worker of a fleet: the engine, the installed models and the link. It has no database and no server.
 *
 * @throws ConfigError when the config names no fleet or worker; Error when a file or the engine cannot be opened
 */
export async function openFleetWorker(
  config: Config,
  clock: Clock,
  log: Log,
  version: string,
): Promise<WorkerProgram> {
  const { fleet } = config;
  if (fleet.nats.length === 0 || fleet.worker === "") {
    throw new ConfigError(
      "fleet.nats and fleet.worker must be set; `shruti fleet add` makes a worker's config",
    );
  }
  const dataDir = dataDirOf(config);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const seed = readFleetFile(fleet.key_file || join(dataDir, "worker.key"));
  const ca = readFleetFile(fleet.ca_file || join(dataDir, "ca.pem"));
  const database = openDatabase(":memory:");
  const { engine, gpuFreeBytes, soundCode } = await openEngine(config, dataDir, log);
  // A killed process may have left recordings there.
  const preparingFolder = join(dataDir, "preparing");
  rmSync(preparingFolder, { recursive: true, force: true });
  const models = await createModelService({
    ...{ database, config, dataDir, log, clock },
    // The control plane distinguishes speakers.
    carriedModels: await extractCarriedModels(dataDir, { nets: false }),
  });
  const worker = openWorker({
    ...{ servers: fleet.nats, fleet: fleet.name, worker: fleet.worker, ca, seed, log, version },
    executor: engine,
    installed: models.list,
    sha256OfFile,
    device: () =>
      engine.status().models.find(({ device }) => device !== undefined)?.device ??
      (gpuFreeBytes === undefined ? "cpu" : "gpu"),
    // A GPU would wait for the audio of its next chunk.
    placesAhead: gpuFreeBytes === undefined ? 0 : 1,
    synchronousPlaces: fleet.synchronous_places,
    ...(fleet.preparing_places > 0
      ? {
          preparing: {
            engine,
            code: preparingCodeOf(version, soundCode),
            places: fleet.preparing_places,
            folder: preparingFolder,
            reserveBytes: config.storage.reserve_bytes,
          },
        }
      : {}),
    ...(fleet.fetch_models ? { fetching: fetchingInto(config, models) } : {}),
  });
  return {
    whenConnected: worker.whenConnected,
    drain: worker.drain,
    async close() {
      await worker.close();
      await engine.close();
      database.close();
    },
  };
}
