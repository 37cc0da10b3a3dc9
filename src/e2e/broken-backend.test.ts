import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { backendMark } from "../native/backend-files.ts";
import { expectUtterances } from "./expect-utterances.ts";
import { type Installation, install, setInConfig, until } from "./kit.ts";
import { sampleBytes, utterancesIn } from "./samples.ts";

/** A GPU backend that ends every process that loads it, as broken drivers do: half of a library with the mark of a whole one. */

let installation: Installation;

beforeAll(async () => {
  installation = await install();
  const server = await (await installation.serve()).ready();
  await server.stop();
  const native = join(installation.dataDir, "native");
  const library = readFileSync(join(native, readdirSync(native)[0] ?? "", "libggml-base.so"));
  const [engine] = (await findings()).filter(({ check }) => check === "engine");
  const version = /whisper\.cpp ([0-9.]+)/.exec(engine?.detail ?? "")?.[1] ?? "";
  const backends = join(installation.dataDir, "backends");
  mkdirSync(backends);
  const broken = Buffer.concat([library.subarray(0, library.length / 2), Buffer.from(backendMark(version))]);
  writeFileSync(join(backends, "libggml-vulkan.so"), broken);
}, 60_000);

afterAll(() => installation?.remove());

async function findings(): Promise<{ check: string; ok: boolean; detail: string }[]> {
  return JSON.parse((await installation.command("doctor", "--json")).out);
}

test.each([
  ["cpu", 0],
  ["auto", 1],
])(
  "with device = %s the processor does the work, and %d workers are lost to it",
  async (device, lost) => {
    setInConfig(installation, "device", device);
    const server = await (await installation.serve()).ready();
    expectUtterances(
      await server.api().transcribe(sampleBytes("01-en"), { language: "en" }),
      utterancesIn("01-en"),
    );
    expect(server.log().split('"msg":"worker ended"').length - 1).toBe(lost);
    expect(server.log().includes("no GPU can be used, the processor takes its place")).toBe(
      device === "auto",
    );
    expect(await server.stop()).toBe(0);
    await until("the lock is free", async () => (await installation.command("orgs", "list")).code === 0);
  },
  60_000,
);

test("a device that is named stops the start", async () => {
  setInConfig(installation, "device", "vulkan");
  const { code, err } = await installation.command("serve");
  expect(code).toBe(1);
  expect(err).toContain('engine.device = "vulkan": no vulkan device was found');
}, 60_000);

test("doctor names it", async () => {
  setInConfig(installation, "device", "auto");
  const wrong = (await findings()).filter(({ ok }) => !ok);
  expect(wrong).toMatchObject([{ check: "backend", detail: expect.stringContaining("a worker ended") }]);
}, 60_000);
