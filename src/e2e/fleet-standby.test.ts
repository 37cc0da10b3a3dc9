import { afterEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sha256OfFile } from "../store/file-hash.ts";
import { apiClient } from "../testing/answers/api-client.ts";
import { freePorts, NATS_SERVER } from "../testing/boxes/nats-server.ts";
import { openPartition } from "../testing/boxes/partition.ts";
import { placeBinary } from "./binary.ts";
import { openWitness } from "./fleet-faults-kit.ts";
import { type FleetInstallation, installFleet, workersPresent } from "./fleet-kit.ts";
import { openServer, reached, until, uploaded } from "./kit.ts";
import { concatenated } from "./samples.ts";

/**
 * A standby takes over from a control plane that has died, as far as one machine allows: the folder of the data takes the
 * place of a replicated device that is mounted on one machine after the other, and relays that of the floating address.
 */

const fleetTest = NATS_SERVER === undefined ? test.skip : test;
const TIMEOUT_MS = 300_000;
const ENDS_WITHIN_MS = 240_000;
const WORKERS = 2;
const TRANSCRIPTIONS = 3;

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Makes a second machine: its own executable and ports, and the data of the first. */
async function openStandby(fleet: FleetInstallation, environment: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), "shruti-standby-"));
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  const executable = join(folder, "shruti");
  await placeBinary(executable);
  return () => {
    const child = Bun.spawn([executable, "serve", "--config", fleet.configPath], {
      ...{ cwd: folder, env: environment, stdin: "ignore", stdout: "pipe", stderr: "pipe" },
    });
    cleanups.push(async () => {
      child.kill("SIGKILL");
      await child.exited;
    });
    return child;
  };
}

fleetTest(
  "a standby continues with the data and the address of a control plane that has died (needs nats-server)",
  async () => {
    const modelSha256 = await sha256OfFile(join(import.meta.dir, "../../models/demo.bin"));
    const fleet = await installFleet({
      canBeCut: true,
      creditPaise: 1_000_000_000,
      scripted: { modelSha256, places: 2, meanMs: 500 },
    });
    cleanups.push(fleet.remove);
    const { links } = fleet;
    if (!links) throw new Error("the fleet has no links");
    const witness = openWitness(fleet.dataDir);
    cleanups.push(witness.close);
    for (let n = 0; n < WORKERS; n++) (await fleet.addWorker(`worker-${n}`)).start();
    const first = await (await fleet.serve()).ready();
    const address = await openPartition(Number(new URL(first.baseUrl).port));
    cleanups.push(address.close);
    const api = apiClient((path, init = {}) => {
      const headers = new Headers(init.headers);
      if (!headers.has("authorization")) headers.set("authorization", `Bearer ${fleet.key}`);
      return fetch(`http://127.0.0.1:${address.port}${path}`, { ...init, headers, keepalive: false });
    });
    await workersPresent(fleet, WORKERS);
    const upload = await uploaded(api, concatenated(["12-en-long"], 4));
    const begin = async () => (await api.start({ audio: { upload_id: upload }, language: "en" })).body.id;
    const undisturbed = await begin();
    expect((await reached(api, undisturbed, undefined, ENDS_WITHIN_MS)).state).toBe("completed");
    const { text } = await api.result(undisturbed);
    const started: string[] = [];
    while (started.length < TRANSCRIPTIONS) started.push(await begin());
    await until(
      "workers have chunks",
      () => fleet.latest()?.workers.some(({ chunks }) => chunks > 0) ?? false,
    );

    const [audioPort = 0] = await freePorts(1);
    const standby = await openStandby(fleet, {
      SHRUTI_SERVER_LISTEN: "127.0.0.1:0",
      SHRUTI_STORAGE_RESERVE_BYTES: "0",
      SHRUTI_FLEET_NATS: `tls://127.0.0.1:${links.control.port}`,
      SHRUTI_FLEET_BASE_URL: `https://127.0.0.1:${links.audio.port}`,
      SHRUTI_FLEET_LISTEN: `127.0.0.1:${audioPort}`,
    });
    // While the first one runs, the lock on the data refuses a second.
    const tooEarly = standby();
    expect(await tooEarly.exited).not.toBe(0);
    expect(await tooEarly.stderr.text()).toMatch(/another|already|in use/i);

    await first.kill();
    const second = await openServer(standby(), fleet.key);
    links.audio.retarget(audioPort);
    address.retarget(Number(new URL(second.baseUrl).port));
    await workersPresent(fleet, WORKERS);
    const chunks = witness.ends(undisturbed).length;
    for (const id of started) {
      const { state } = await reached(api, id, undefined, ENDS_WITHIN_MS);
      const isEqual = state === "completed" && (await api.result(id)).text === text;
      expect({ state, isEqual, ends: witness.ends(id), charges: witness.charges(id) }).toEqual({
        ...{ state: "completed", isEqual: true, ends: Array.from({ length: chunks }, () => 1), charges: 1 },
      });
    }
    expect(await fleet.json<object>("credit", "audit")).toMatchObject({ ok: true, reserved_paise: 0 });
    expect(await second.stop()).toBe(0);
  },
  TIMEOUT_MS,
);
