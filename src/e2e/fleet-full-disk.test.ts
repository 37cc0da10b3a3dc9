import { Database } from "bun:sqlite";
import { afterEach, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import { fillDisk, mayMountDisks, unmountDisk } from "../testing/boxes/small-disk.ts";
import { openWitness } from "./fleet-faults-kit.ts";
import { installFleet, workersPresent } from "./fleet-kit.ts";
import { emptyLog, heldAt, placeWithSmallDisk } from "./held-server.ts";
import { reached, until, uploaded } from "./kit.ts";
import { concatenated } from "./samples.ts";

/** A disk that gets full under a control plane. */

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

test.skipIf(NATS_SERVER === undefined || !mayMountDisks())(
  "a control plane whose disk gets full while a worker returns results stores no chunk twice and loses none (needs nats-server, and root on Linux)",
  async () => {
    const fleet = await installFleet({ place: placeWithSmallDisk(300) });
    cleanups.push(fleet.remove, () => unmountDisk(fleet.dataDir));
    const { dataDir } = fleet;
    const witness = openWitness(dataDir);
    const database = new Database(join(dataDir, "shruti.db"), { readonly: true });
    cleanups.push(witness.close, () => database.close());
    const progress = database.query<{ state: string; ended: number; waiting: number }, [string]>(
      `SELECT t.state, count(*) FILTER (WHERE c.state <> 'waiting') AS ended,
         count(*) FILTER (WHERE c.state = 'waiting') AS waiting
       FROM transcriptions t LEFT JOIN chunks c ON c.transcription_id = t.id WHERE t.id = ?`,
    );
    const server = await fleet.serve();
    const worker = await fleet.addWorker("one");
    worker.start();
    await server.ready();
    await workersPresent(fleet, 1);
    const api = server.api();
    const upload = await uploaded(api, concatenated(["12-en-long"], 4));
    const start = async () => (await api.start({ audio: { upload_id: upload }, language: "en" })).body.id;
    const undisturbed = await start();
    expect((await reached(api, undisturbed)).state).toBe("completed");

    const filler = join(dataDir, "filler");
    let id = await start();
    const look = () => progress.get(id) ?? { state: "missing", ended: 0, waiting: 0 };
    // Some chunks are with the worker then.
    const isAmid = ({ ended, waiting }: ReturnType<typeof look>) =>
      ended > 0 && waiting > 4 && emptyLog(dataDir);
    while (!(await heldAt(server, look, isAmid))) id = await start();
    const held = look();
    fillDisk(filler);
    server.process.kill("SIGCONT");
    await until("a result cannot be stored", () => server.log().includes("disk is full"));
    expect(look()).toEqual(held);
    expect(witness.charges(id)).toBe(0);
    rmSync(filler);
    expect((await reached(api, id)).state).toBe("completed");
    expect((await api.result(id)).text).toBe((await api.result(undisturbed)).text);
    expect(witness.ends(id).filter((count) => count !== 1)).toEqual([]);
    expect(witness.ends(id).length).toBe(held.ended + held.waiting);
    expect(witness.charges(id)).toBe(1);
    expect((await fleet.json<{ ok: boolean }>("credit", "audit")).ok).toBe(true);
    await until("the worker has given all results", async () => {
      const { workers, results } = await fleet.fleet();
      return results.refused === 0 && workers.every(({ chunks }) => chunks === 0);
    });
    expect(await server.stop()).toBe(0);
  },
  180_000,
);
