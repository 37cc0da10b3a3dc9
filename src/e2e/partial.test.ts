import { afterAll, beforeAll, expect, test } from "bun:test";
import { Webhook } from "standardwebhooks";
import {
  type Installation,
  install,
  type RunningServer,
  reached,
  type Status,
  until,
  uploaded,
} from "./kit.ts";
import { concatenated, sampleBytes } from "./samples.ts";

/** Chunks whose worker processes end become gaps. The client receives a signed event for each transcription. */

type Event = { type: string; data: { id: string; state: string; error?: { code: string; message: string } } };

let installation: Installation;
let receiver: Bun.Server<undefined>;
let secret = "";
const events: Event[] = [];

beforeAll(async () => {
  receiver = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    async fetch(request) {
      const body = await request.text();
      new Webhook(secret).verify(body, Object.fromEntries(request.headers));
      events.push(JSON.parse(body) as Event);
      return new Response(null, { status: 204 });
    },
  });
  installation = await install({
    environment: {
      SHRUTI_WEBHOOKS_ALLOW_HTTP: "true",
      SHRUTI_WEBHOOKS_ALLOWED_NETWORKS: "127.0.0.0/8",
      SHRUTI_ENGINE_WORKERS: "1",
    },
  });
}, 300_000);
afterAll(async () => {
  await receiver?.stop(true);
  await installation?.remove();
});

/** Reports whether a chunk of the transcription is a gap, after two crashes. */
function hasGap(server: RunningServer, id: string): boolean {
  const failed = server
    .log()
    .split("\n")
    .filter((line) => line.includes('"msg":"a chunk failed"') && line.includes(id))
    .map((line) => (JSON.parse(line) as { chunk: number }).chunk);
  return new Set(failed).size < failed.length;
}

/** How often, and how many times, the next process is looked for before the server is asked again. */
const [LOOK_EVERY_MS, MOST_LOOKS] = [5, 400];

/** Kills the worker process during its chunks until a chunk of the transcription is a gap. */
async function makeGap(server: RunningServer, id: string): Promise<void> {
  const killed = new Set<number>();
  const newest = () => {
    const loaded = server
      .log()
      .match(/"pid":(\d+),"msg":"model loaded"/g)
      ?.at(-1);
    return Number(/\d+/.exec(loaded ?? "")?.[0]);
  };
  await until("a chunk is set aside", async () => {
    // A short chunk is done soon after the next process has its model: that one is stopped as soon as it is there.
    for (let looks = 0; killed.has(newest()) && !hasGap(server, id) && looks < MOST_LOOKS; looks++)
      await Bun.sleep(LOOK_EVERY_MS);
    const pid = newest();
    if (killed.has(pid)) return hasGap(server, id);
    // The process is stopped first, so that it cannot finish its chunk before the check.
    process.kill(pid, "SIGSTOP");
    const { server: running } = await installation.json<Status>("status");
    if (!running?.models.some((model) => model.pid === pid && model.running > 0)) return false;
    process.kill(pid, "SIGKILL");
    killed.add(pid);
    return hasGap(server, id);
  });
}

test("partial, failed, cancelled and completed transcriptions are reported by webhook, charged and readable as they are", async () => {
  const server = await (await installation.serve()).ready();
  const api = server.api();
  const endpoint = await api.call<{ id: string; secret: string }>("POST", "/v1/webhook_endpoints", {
    url: `http://127.0.0.1:${receiver.port}/hook`,
  });
  secret = endpoint.body.secret;
  const begin = async (recording: Uint8Array<ArrayBuffer>) => {
    const request = { audio: { upload_id: await uploaded(api, recording) }, language: "en" };
    return (await api.start({ ...request, webhook_endpoint_id: endpoint.body.id })).body.id;
  };
  const eventOf = async (id: string) => {
    await until(`the event of ${id} has come`, () => events.some(({ data }) => data.id === id));
    return events.filter(({ data }) => data.id === id);
  };

  const long = concatenated(["04-en"], 24);
  const ofOneChunk = sampleBytes("01-en");
  const partial = await begin(long);
  await makeGap(server, partial);
  const ended = await reached(api, partial);
  expect(ended).toMatchObject({ state: "partial", progress: 1 });
  expect(ended.result_url).toBe(`${server.baseUrl}/v1/transcriptions/${partial}/result`);
  expect(await eventOf(partial)).toEqual([
    { type: "transcription.partial", data: { id: partial, state: "partial" } },
  ]);
  const result = await api.result(partial);
  expect(result.status).toBe("partial");
  expect(result.text).not.toBe("");
  expect(result.gaps?.length).toBeGreaterThan(0);
  for (const gap of result.gaps ?? []) {
    expect(gap).toEqual({ start: expect.any(Number), end: expect.any(Number), reason: "engine_error" });
    expect(gap.start).toBeLessThan(gap.end);
    expect(gap.end).toBeLessThanOrEqual(result.duration_seconds);
  }
  const lost = (result.gaps ?? []).reduce((sum, { start, end }) => sum + end - start, 0);
  const [usage] = (await api.usage("?limit=1")).data;
  expect(usage).toMatchObject({ transcription_id: partial, state: "partial" });
  expect(usage?.billed_seconds).toBeCloseTo(result.duration_seconds - lost, 2);
  expect(usage?.amount_paise).toBe(Math.ceil((3_000 * (usage?.billed_seconds ?? 0)) / 3_600));

  const failed = await begin(ofOneChunk);
  await makeGap(server, failed);
  expect((await reached(api, failed)).state).toBe("failed");
  expect(await eventOf(failed)).toEqual([
    {
      type: "transcription.failed",
      data: {
        id: failed,
        state: "failed",
        error: { code: "transcription_failed", message: expect.any(String) },
      },
    },
  ]);

  const cancelled = await begin(long);
  await reached(api, cancelled, ["transcribing"]);
  await api.cancel(cancelled);
  expect((await eventOf(cancelled)).map(({ type }) => type)).toEqual(["transcription.cancelled"]);
  const completed = await begin(ofOneChunk);
  expect((await eventOf(completed)).map(({ type }) => type)).toEqual(["transcription.completed"]);
  expect((await api.usage()).data.map(({ amount_paise }) => amount_paise > 0)).toEqual([
    true,
    false,
    false,
    true,
  ]);
  expect((await installation.json<{ ok: boolean }>("credit", "audit")).ok).toBe(true);
  expect(await server.stop()).toBe(0);
}, 240_000);
