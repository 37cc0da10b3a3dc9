import { Database } from "bun:sqlite";
import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { type Installation, install, reached, type Status, until, uploaded } from "./kit.ts";
import { isAlive } from "./processes.ts";
import { concatenated } from "./samples.ts";

/** The executable, whose chunks make their decoding steps together, under SIGKILL of the process that makes them. */

const RECORDINGS = 2;

let installation: Installation;
afterAll(() => installation?.remove());

/** Lets a trigger count the attempts at chunks that failed. Called before the server starts. */
function countFailures(dataDir: string): () => number {
  const database = new Database(join(dataDir, "shruti.db"));
  database.run("CREATE TABLE test_failures (position INTEGER)");
  database.run(`CREATE TRIGGER test_chunk_failures AFTER UPDATE OF failures ON chunks
    BEGIN INSERT INTO test_failures VALUES (NEW.position); END`);
  database.close();
  return () => {
    const reader = new Database(join(dataDir, "shruti.db"), { readonly: true });
    const count = reader.query<{ n: number }, []>("SELECT count(*) AS n FROM test_failures").get()?.n ?? -1;
    reader.close();
    return count;
  };
}

test("a worker process that is killed with several chunks costs none of them an attempt, and no text", async () => {
  installation = await install({ environment: { SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0" } });
  const failures = countFailures(installation.dataDir);
  const server = await (await installation.serve()).ready();
  const api = server.api();
  const upload = await uploaded(api, concatenated(["12-en-long"], 2));
  const start = async () => (await api.start({ audio: { upload_id: upload }, language: "en" })).body.id;
  const textOf = async (id: string) => {
    expect((await reached(api, id)).state).toBe("completed");
    return (await api.result(id)).text;
  };
  const expected = await textOf(await start());
  const recognizer = async (): Promise<number> => {
    let pid = 0;
    // The status is up to a second old.
    await until("the process with the model runs", async () => {
      pid = (await installation.json<Status>("status")).server?.models[0]?.pid ?? 0;
      return pid > 0 && isAlive(pid);
    });
    return pid;
  };
  /** What the log says of processes that ended: how many chunks each of them had. */
  const ended = () =>
    [...server.log().matchAll(/"tasks":(\d+),"msg":"worker ended"/g)].map(([, n]) => Number(n));
  let kills = 0;
  // A process may have ended its last chunk a moment before it is killed. Then the next one has more to do.
  while (!ended().some((chunks) => chunks > 1)) {
    const ids = await Promise.all(Array.from({ length: RECORDINGS * (kills + 1) }, start));
    await Promise.all(ids.map((id) => reached(api, id, ["transcribing", "finalizing", "completed"])));
    process.kill(await recognizer(), "SIGKILL");
    kills++;
    for (const id of ids) expect(await textOf(id)).toBe(expected);
    await until("the end of the process is noticed", () => ended().length === kills);
  }
  expect(failures()).toBe(0);
  expect(await server.stop()).toBe(0);
}, 240_000);
