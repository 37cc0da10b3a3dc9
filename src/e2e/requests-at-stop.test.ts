import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Installation, install, reached, uploaded } from "./kit.ts";
import { concatenated } from "./samples.ts";

/** Requests during a stop are answered, sent away with 503 or find no server; none is a fault of the program's. */

let installation: Installation;
beforeAll(async () => {
  installation = await install();
}, 300_000);
afterAll(() => installation?.remove());

test("SIGTERM under a stream of requests: no request fails, and the next start has them all", async () => {
  const server = await (await installation.serve()).ready();
  const api = server.api();
  const uploadId = await uploaded(api, concatenated(["12-en-long"], 2));
  const { id } = (await api.start({ audio: { upload_id: uploadId }, language: "en" })).body;
  await reached(api, id, ["transcribing"]);

  const outcomes = new Map<string, number>();
  const accepted: string[] = [];
  const headers = { authorization: `Bearer ${installation.key}`, "content-type": "application/json" };
  const start = { method: "POST", body: JSON.stringify({ audio: { upload_id: uploadId }, language: "en" }) };
  const announce = { method: "POST", body: JSON.stringify({ bytes: 1000 }) };
  const requests: [path: string, init: RequestInit][] = [
    ["/v1/transcriptions", start],
    ["/v1/transcriptions?limit=100", {}],
    ["/v1/usage", {}],
    ["/v1/uploads", announce],
    ["/metrics", {}],
  ];
  let isGone = false;
  async function ask([path, init]: (typeof requests)[number]): Promise<string> {
    let answer: Response;
    try {
      answer = await fetch(`${server.baseUrl}${path}`, { ...init, headers });
    } catch {
      return "no connection";
    }
    const text = await answer.text();
    if (answer.status === 202) accepted.push((JSON.parse(text) as { id: string }).id);
    if (answer.ok) return "answered";
    return `${path}: ${answer.status} ${text}`;
  }
  const senders = requests.map(async (request) => {
    while (!isGone) {
      const outcome = await ask(request);
      const key = outcome.includes('503 {"error":{"code":"capacity_unavailable"') ? "sent away" : outcome;
      outcomes.set(key, (outcomes.get(key) ?? 0) + 1);
      await Bun.sleep(1);
    }
  });
  server.process.kill("SIGTERM");
  expect(await server.process.exited).toBe(0);
  isGone = true;
  await Promise.all(senders);

  const proper = new Set(["answered", "sent away", "no connection"]);
  expect([...outcomes.keys()].filter((key) => !proper.has(key))).toEqual([]);
  expect(outcomes.get("answered")).toBeGreaterThan(0);
  expect(server.log()).not.toContain("a request failed");
  const faults = server
    .log()
    .split("\n")
    .filter((line) => line.includes('"level":"error"'));
  expect(faults).toEqual([]);

  const again = await (await installation.serve()).ready();
  expect(accepted.length).toBeGreaterThan(0);
  for (const each of accepted) expect((await again.api().get(each)).state).not.toBe("failed");
  for (const each of [id, ...accepted]) await again.api().cancel(each);
  expect(await again.stop()).toBe(0);
}, 120_000);
