import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Transcription } from "../http/wire/schemas.ts";
import {
  type Installation,
  install,
  type RunningServer,
  reached,
  type Status,
  until,
  uploaded,
} from "./kit.ts";
import { descendantsOf, isAlive, processesFrom } from "./processes.ts";
import { concatenated, sampleBytes } from "./samples.ts";

/** Tests how the server ends, orderly or killed, and the state that it leaves. */

/** Time in which a worker process notices the end of its parent. */
const CHILDREN_GONE_MS = 2_000;

let installation: Installation;
let server: RunningServer;

beforeEach(async () => {
  installation = await install();
  server = await (await installation.serve()).ready();
}, 300_000);

afterEach(() => installation?.remove());

/** Times that the long sample is repeated where work must not end before it is disturbed, also on a fast processor. */
const LONG_WORK = 8;

/** Starts the transcription of a long sample, repeated, and waits until chunks are recognized. */
async function startLongWork(times: number): Promise<Transcription> {
  const api = server.api();
  const uploadId = await uploaded(api, concatenated(["12-en-long"], times));
  const { body } = await api.start({ audio: { upload_id: uploadId }, language: "en" });
  return reached(api, body.id, ["transcribing"]);
}

const noProcessLeft = () =>
  until("no process is left", () => processesFrom(installation.folder).length === 0, CHILDREN_GONE_MS);

describe("one server for each data directory", () => {
  test("a second server is refused with status 5, and the first continues", async () => {
    const second = await installation.command("serve");
    expect(second.code).toBe(5);
    expect(second.err).toContain("another server is using the data directory");
    expect((await fetch(`${server.baseUrl}/readyz`)).ok).toBe(true);
    expect(await server.stop()).toBe(0);
    // The lock ended with the process.
    server = await (await installation.serve()).ready();
    expect(await server.stop()).toBe(0);
  }, 60_000);
});

describe("SIGTERM", () => {
  test("first ends readiness, then finishes running chunks and exits with 0; the next start continues the work", async () => {
    const { id } = await startLongWork(LONG_WORK);
    const before = await server.api().get(id);
    server.process.kill("SIGTERM");
    // Requests while chunks still run are refused with 503. A refused connection would fail this test.
    let reasons: unknown;
    await until("readiness is down", async () => {
      const answer = await fetch(`${server.baseUrl}/readyz`);
      reasons = ((await answer.json()) as { reasons?: unknown }).reasons;
      return answer.status === 503;
    });
    expect(reasons).toEqual(["the server is stopping"]);
    expect(await server.process.exited).toBe(0);
    expect(processesFrom(installation.folder)).toEqual([]);
    expect(existsSync(join(installation.dataDir, "status.json"))).toBe(false);

    server = await (await installation.serve()).ready();
    const api = server.api();
    const resumed = await api.get(id);
    expect(resumed.progress ?? 0).toBeGreaterThanOrEqual(before.progress ?? 0);
    expect((await reached(api, id)).state).toBe("completed");
    expect(readdirSync(join(installation.dataDir, "work"))).toEqual([]);
    expect(await server.stop()).toBe(0);
  }, 90_000);

  test("a second SIGTERM ends the server at once", async () => {
    await startLongWork(LONG_WORK);
    server.process.kill("SIGTERM");
    await until("it has heard the first", () => server.log().includes("stopping"));
    const secondAt = performance.now();
    server.process.kill("SIGTERM");
    expect(await server.process.exited).not.toBe(0);
    expect(performance.now() - secondAt).toBeLessThan(3_000);
    await noProcessLeft();
  }, 60_000);
});

describe("SIGKILL", () => {
  test("of the server leaves no worker process behind", async () => {
    await startLongWork(LONG_WORK);
    expect(descendantsOf(server.pid).length).toBeGreaterThanOrEqual(2);
    await server.kill();
    await noProcessLeft();
  }, 60_000);

  test("of the server during decoding: the next start decodes again, and no file of the old run is left", async () => {
    const api = server.api();
    const uploadId = await uploaded(api, concatenated(["12-en-long"], 15));
    const { body } = await api.start({ audio: { upload_id: uploadId }, language: "en" });
    // There are always two worker processes.
    await until("the recording is being decoded", () => descendantsOf(server.pid).length === 3);
    expect((await api.get(body.id)).state).toBe("preparing");
    await server.kill();
    server = await (await installation.serve()).ready();
    await reached(server.api(), body.id, ["transcribing"]);
    expect(readdirSync(join(installation.dataDir, "work"))).toEqual([body.id]);
    expect((await server.api().cancel(body.id)).state).toBe("cancelled");
    expect(await server.stop()).toBe(0);
    expect(readdirSync(join(installation.dataDir, "work"))).toEqual([]);
    await noProcessLeft();
  }, 60_000);

  test("of the worker process after the executable was replaced: the next one still runs the server's own version", async () => {
    const api = server.api();
    const uploadId = await uploaded(api, sampleBytes("01-en"));
    const executable = join(installation.folder, "program", "shruti");
    rmSync(executable);
    writeFileSync(executable, "#!/bin/sh\nexit 1\n", { mode: 0o755 });
    for (const pid of descendantsOf(server.pid)) process.kill(pid, "SIGKILL");
    const { body } = await api.start({ audio: { upload_id: uploadId }, language: "en" });
    expect((await reached(api, body.id)).state).toBe("completed");
    expect(await server.stop()).toBe(0);
  }, 60_000);

  test("of the worker process during its work: it is replaced within a moment, and no word is lost", async () => {
    const worker = async () =>
      (await installation.json<Status>("status")).server?.models.find(({ id: model }) => model === "demo");
    // A status takes longer than a minute of speech on a fast processor, so it is read before the work begins.
    await server.api().transcribe(sampleBytes("01-en"), { language: "en" });
    let first: number | undefined;
    await until("the status names the worker", async () => {
      first = (await worker())?.pid;
      return first !== undefined;
    });
    if (first === undefined) throw new Error("the status names no worker");
    const { id } = await startLongWork(LONG_WORK);
    process.kill(first, "SIGKILL");
    expect((await reached(server.api(), id)).state).toBe("completed");
    await until("the status names the next worker", async () => {
      const next = await worker();
      return next?.restarts === 1 && next.pid !== undefined && next.pid !== first && isAlive(next.pid);
    });
    const undisturbed = await startLongWork(LONG_WORK);
    await reached(server.api(), undisturbed.id);
    expect((await server.api().result(id)).text).toBe((await server.api().result(undisturbed.id)).text);
    expect(await server.stop()).toBe(0);
  }, 120_000);
});
