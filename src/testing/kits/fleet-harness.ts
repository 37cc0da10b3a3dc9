import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { InstalledModel } from "../../domain/model.ts";
import type { Engine } from "../../engine/engine.ts";
import type { ChunkExecutor } from "../../engine/executor.ts";
import { type Fleet, type OpenFleetOptions, openFleet } from "../../fleet/control/open-fleet.ts";
import { readFleetFile } from "../../fleet/fleet-folder.ts";
import { preparingCodeOf } from "../../fleet/job-id.ts";
import {
  addWorker,
  drainWorker,
  initFleet,
  natsFolderOf,
  removeWorker,
} from "../../fleet/setup/fleet-setup.ts";
import type { FetchOptions } from "../../fleet/worker/model-fetching.ts";
import { type FleetWorker, openWorker } from "../../fleet/worker/open-worker.ts";
import type { PreparingOptions } from "../../fleet/worker/preparing.ts";
import { type Log, silentLog } from "../../lib/log.ts";
import { sha256OfFile } from "../../store/file-hash.ts";
import { freePorts, type NatsServer, startNats } from "../boxes/nats-server.ts";
import { createScriptedEngine } from "./scripted-engine.ts";
import { testConfig } from "./test-config.ts";

/** The files of a fleet and its messaging server, for tests in one process. */
export type FleetWorld = {
  dataDir: string;
  nats: NatsServer;
  addresses: string[];
  audioPort: number;
  openControl(options?: ControlParts): Fleet;
  /** Adds a worker unless it was added before, and opens it. */
  openWorker(name: string, options: WorkerParts): Promise<FleetWorker>;
  /** Withdraws the rights of a worker, as `shruti fleet remove` does. */
  removeWorker(name: string): Promise<void>;
  drain(name: string, isDraining?: boolean): Promise<void>;
  /** Returns the secret key of a worker that was added. */
  seedOf(name: string): string;
  caText(): string;
  close(): Promise<void>;
};
export type ControlParts = {
  log?: Log;
  lostAfterSeconds?: number;
  local?: Engine;
  /** Addresses of the messaging server. */
  servers?: string[];
  /** Where workers fetch audio. */
  baseUrl?: string;
  dial?: OpenFleetOptions["dial"];
  /** The code of another version of the program. */
  open?: typeof openFleet;
};
export type WorkerParts = {
  executor: ChunkExecutor;
  installed: () => InstalledModel[];
  log?: Log;
  synchronousPlaces?: number;
  fetching?: FetchOptions;
  preparing?: PreparingOptions;
  sha256OfFile?: (path: string) => Promise<string>;
  /** As in `ControlParts`. */
  servers?: string[];
  open?: typeof openWorker;
};

/** Names the code with which the test's machines prepare recordings. */
const SOUND_CODE = "test";
export const PREPARING_CODE = preparingCodeOf("1.2.3", SOUND_CODE);

/** Opens the control plane of a fleet that was made, also in another process than the one that has made it. */
export function openControlOf(
  { dataDir, addresses, audioPort }: Pick<FleetWorld, "dataDir" | "addresses" | "audioPort">,
  { log = silentLog, lostAfterSeconds = 4, local = createScriptedEngine(), ...parts }: ControlParts = {},
): Fleet {
  return (parts.open ?? openFleet)({
    ...{ dataDir, local, log, version: "1.2.3", soundCode: SOUND_CODE },
    ...(parts.dial ? { dial: parts.dial } : {}),
    config: testConfig({
      fleet: {
        nats: parts.servers ?? addresses,
        base_url: parts.baseUrl ?? `https://127.0.0.1:${audioPort}`,
        listen: `127.0.0.1:${audioPort}`,
        lost_after_seconds: lostAfterSeconds,
      },
    }),
  });
}

export async function openFleetWorld(): Promise<FleetWorld> {
  const dataDir = mkdtempSync(join(tmpdir(), "shruti-fleet-"));
  const [natsPort = 0, audioPort = 0] = await freePorts(2);
  const addresses = [`tls://127.0.0.1:${natsPort}`];
  const baseUrl = `https://127.0.0.1:${audioPort}`;
  await initFleet(dataDir, { name: "main", nats: addresses, baseUrl, natsFolder: natsFolderOf(dataDir) });
  const nats = await startNats(natsFolderOf(dataDir), natsPort);
  const folderOf = (name: string) => join(dataDir, `worker-${name}`);
  const seedOf = (name: string) => readFleetFile(join(folderOf(name), "worker.key"));
  const caText = () => readFleetFile(join(dataDir, "fleet/ca.pem"));
  const added = new Set<string>();
  return {
    dataDir,
    nats,
    addresses,
    audioPort,
    openControl: (parts) => openControlOf({ dataDir, addresses, audioPort }, parts),
    async openWorker(name, { log = silentLog, synchronousPlaces = 1, open = openWorker, ...parts }) {
      if (!added.has(name)) {
        await addWorker(dataDir, name, folderOf(name), Date.now());
        await nats.signal("SIGHUP");
        added.add(name);
      }
      return open({
        ...{ servers: addresses, fleet: "main", worker: name, ca: caText(), seed: seedOf(name) },
        ...{ sha256OfFile, device: () => "cpu", placesAhead: 0, synchronousPlaces, log, version: "1.2.3" },
        ...parts,
      });
    },
    async removeWorker(name) {
      await removeWorker(dataDir, name);
      await nats.signal("SIGHUP");
    },
    async drain(name, isDraining = true) {
      await drainWorker(dataDir, name, isDraining);
    },
    seedOf,
    caText,
    async close() {
      await nats.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
