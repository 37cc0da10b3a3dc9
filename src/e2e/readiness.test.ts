import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync, readdirSync, renameSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { type Installation, install, type Status, until } from "./kit.ts";
import { descendantsOf } from "./processes.ts";

/** `GET /readyz` reports weights that cannot be used, with the real engine. */

const DEMO_WEIGHTS = join(import.meta.dirname, "../../models/demo.bin");

let installation: Installation;
beforeAll(async () => {
  installation = await install();
}, 300_000);
afterAll(() => installation?.remove());

test("a damaged default model is reported at the start; the server becomes ready by itself once the weights are restored", async () => {
  await installation.output("models", "add", DEMO_WEIGHTS, "--id", "main");
  const { path } = await installation.json<{ path: string }>("models", "show", "main");
  truncateSync(path, 100_000);
  const server = await installation.serve();
  const ready = async () => {
    const answer = await fetch(`${server.baseUrl}/readyz`);
    return { status: answer.status, reasons: ((await answer.json()) as { reasons?: string[] }).reasons };
  };
  let latest = await ready();
  await until("the reason is found", async () => {
    latest = await ready();
    return latest.reasons?.[0] !== "the engine is starting";
  });
  expect(latest.status).toBe(503);
  expect(latest.reasons).toEqual([expect.stringMatching(/^the engine cannot start: .*main/)]);
  expect((await installation.json<{ server: { ready: boolean } }>("status")).server.ready).toBe(false);
  copyFileSync(DEMO_WEIGHTS, path);
  await until("it is ready", async () => (await ready()).status === 200);
  expect(await server.stop()).toBe(0);
}, 120_000);

test("when the speech detector's process ends and cannot start again, this is reported until the missing file is restored", async () => {
  const server = await (await installation.serve()).ready();
  const { server: running } = await installation.json<Status>("status");
  const models = new Set(running?.models.map(({ pid }) => pid));
  const [speech] = descendantsOf(server.pid).filter((pid) => !models.has(pid));
  const native = join(installation.dataDir, "native");
  const detector = join(native, readdirSync(native)[0] ?? "", "silero.so");
  renameSync(detector, `${detector}.away`);
  process.kill(speech ?? 0, "SIGKILL");
  const probe = () => fetch(`${server.baseUrl}/readyz`);
  await until("it is reported", async () => (await probe()).status === 503);
  expect(await (await probe()).json()).toMatchObject({
    reasons: [expect.stringMatching(/^the engine cannot start: .*silero\.so/)],
  });
  renameSync(`${detector}.away`, detector);
  await until("it is ready", async () => (await probe()).ok);
  expect(await server.stop()).toBe(0);
}, 120_000);
