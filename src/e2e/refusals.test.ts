import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { type Installation, install, type RunningServer } from "./kit.ts";
import {
  REFUSAL_ENVIRONMENT,
  type RefusalCase,
  refusalCases,
  refusalClients,
  run,
} from "./refusal-clients/matrix.ts";

/**
 * Common HTTP clients see why a large request was refused. `scripts/check-refusals.ts` repeats this more often, and
 * through proxies as well.
 */

/** Sizes of bodies, and how often each is sent. */
const SIZES = [
  [51_200, 3],
  [1_000_000, 3],
  [60_000_000, 2],
] as const;
const NAMES = [
  "wrong key",
  "rate limit",
  "unknown path",
  "too large a form",
  "too large a form, chunked",
  "wrong upload token",
  "too long a PUT",
  "too long a PUT, chunked",
  "too large a JSON body",
];

const { clients, missing } = refusalClients();
if (missing.length > 0) console.warn(`Not on this machine, and not tested: ${missing.join(", ")}`);

let installation: Installation;
let server: RunningServer;
let cases: RefusalCase[];
beforeAll(async () => {
  installation = await install({ environment: REFUSAL_ENVIRONMENT });
  server = await (await installation.serve()).ready();
  cases = await refusalCases(installation, server);
}, 300_000);
afterAll(() => installation?.remove());

/** The SDK sends only the form of known length. */
const SDK_NAMES = ["wrong key", "rate limit", "unknown path", "too large a form"];

describe.each(NAMES)("%s", (name) => {
  const able = clients.filter((client) => client.name !== "OpenAI SDK" || SDK_NAMES.includes(name));
  test.each(able.map((client) => [client.name, client] as const))(
    "%s reads the answer",
    async (_name, client) => {
      const refusal = cases.find((each) => each.name === name);
      if (!refusal || !client.canSend(refusal)) throw new Error(`there is no such refusal: ${name}`);
      for (const [bytes, tries] of SIZES.filter(([size]) => size >= refusal.minBytes)) {
        const seen = await client.send(server.baseUrl, refusal, bytes, tries);
        expect({ bytes, seen }).toEqual({ bytes, seen: { [refusal.expected]: tries } });
      }
    },
    120_000,
  );
});

test("the table of refusals has exactly these names", () =>
  expect(cases.map(({ name }) => name)).toEqual(NAMES));

test("a refused body that is read and dropped takes no memory", async () => {
  const [client] = clients;
  const [refusal] = cases;
  if (!client || !refusal) throw new Error("there is nothing to send");
  const memory = async (name: string) => {
    const kib = new RegExp(`${name}:\\s+(\\d+)`).exec(
      await Bun.file(`/proc/${server.pid}/status`).text(),
    )?.[1];
    return Number(kib) / 1024;
  };
  const before = await memory("VmRSS");
  // From here on the kernel counts the peak memory from zero.
  await Bun.write(`/proc/${server.pid}/clear_refs`, "5");
  await client.send(server.baseUrl, refusal, 60_000_000, 10);
  expect((await memory("VmHWM")) - before).toBeLessThan(120);
}, 60_000);

test.each([
  ["node", "pooled.mjs"],
  ["python3", "pooled.py"],
])(
  "%s, which pools connections, gets no connection that the server has closed",
  async (runtime, script) => {
    const program = Bun.which(runtime);
    if (!program) return console.warn(`${runtime} is not installed: its pooling is not tested.`);
    const path = join(import.meta.dir, "refusal-clients", script);
    const seen = await run([program, path, `${server.baseUrl}/healthz`, "500"]);
    expect(JSON.parse(seen)).toEqual({ 200: 500 });
  },
  60_000,
);
