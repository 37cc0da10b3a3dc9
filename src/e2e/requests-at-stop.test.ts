import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Installation, install, type RunningServer, reached, until, uploaded } from "./kit.ts";
import { concatenated } from "./samples.ts";

/** Requests during a stop are answered, refused with 503, or find no server. None fails in another way. */

let installation: Installation;
beforeAll(async () => {
  // High enough that no sender is refused for its rate while the server stops.
  installation = await install({ environment: { SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0" } });
}, 300_000);
afterAll(() => installation?.remove());

test("SIGTERM under a stream of requests: no request fails, and after the next start all accepted work is there", async () => {
  const server = await (await installation.serve()).ready();
  const api = server.api();
  const uploadId = await uploaded(api, concatenated(["12-en-long"], 8));
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

/** Sends only the first bytes of a PUT and keeps the connection open. */
async function hangingPut(server: RunningServer) {
  const { id, upload } = await server.api().createUpload(1_000_000);
  const { hostname, port, pathname } = new URL(upload.url);
  const fields = Object.entries({ host: hostname, "content-length": "1000000", ...upload.headers });
  const head = [`PUT ${pathname} HTTP/1.1`, ...fields.map(([name, value]) => `${name}: ${value}`), "", ""];
  const socket = await Bun.connect({ hostname, port: Number(port), socket: { data() {} } });
  socket.write(`${head.join("\r\n")}${"x".repeat(1_000)}`);
  await until("the first bytes have arrived", async () => {
    const answer = await fetch(upload.url, { method: "HEAD", headers: upload.headers });
    return answer.headers.get("upload-offset") === "1000";
  });
  const loggedStatus = () =>
    server
      .log()
      .split("\n")
      .filter((line) => line.includes('"method":"PUT"') && line.includes(id))
      .map((line) => (JSON.parse(line) as { status: number }).status);
  return { socket, loggedStatus };
}

test("an upload whose client leaves and an upload that a stop interrupts are logged with different statuses", async () => {
  const server = await (await installation.serve()).ready();
  const left = await hangingPut(server);
  const cut = await hangingPut(server);
  left.socket.end();
  await until("it is logged", () => left.loggedStatus().length > 0);
  expect(await server.stop()).toBe(0);
  expect([left.loggedStatus(), cut.loggedStatus()]).toEqual([[499], [503]]);
}, 120_000);
