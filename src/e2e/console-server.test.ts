import { afterAll, beforeAll, expect, test } from "bun:test";
import type { AudioLink, Transcription, Waveform } from "../http/wire/schemas.ts";
import { type Installation, install, until, uploaded } from "./kit.ts";
import { formatOf, pcmOf, sampleBytes, secondsOf } from "./samples.ts";

/** Links, sessions, audio and waveforms of the executable, across restarts and beside the command line. */

const SAMPLE = "02-hi";

let installation: Installation;
beforeAll(async () => {
  installation = await install();
}, 300_000);
afterAll(() => installation?.remove());

type Link = { url: string };
type Opened = { cookie: string; token: string };

const secretOf = ({ url }: Link) => new URL(url).hash.replace("#admin=", "");

function askSession(baseUrl: string, secret: string): Promise<Response> {
  return fetch(`${baseUrl}/console/api/session`, {
    method: "POST",
    headers: { origin: baseUrl, "content-type": "application/json" },
    body: JSON.stringify({ token: secret }),
  });
}

async function signIn(baseUrl: string, secret: string): Promise<Opened> {
  const response = await askSession(baseUrl, secret);
  expect(response.status).toBe(200);
  const { csrf_token: token } = (await response.json()) as { csrf_token: string };
  return { token, cookie: response.headers.get("set-cookie")?.split(";")[0] ?? "" };
}

const overview = (baseUrl: string, { cookie }: Opened) =>
  fetch(`${baseUrl}/console/api/overview`, { headers: { cookie } });

test("a link works once, its session survives a restart, and the command ends it beside the server", async () => {
  const early = await installation.json<Link>("console");
  const first = await installation.serve();
  const link = await installation.json<Link>("console");
  expect(link.url).toStartWith(`${first.baseUrl}/console#admin=adm_`);
  const opened = await signIn(first.baseUrl, secretOf(link));
  expect((await askSession(first.baseUrl, secretOf(link))).status).toBe(401);
  expect((await overview(first.baseUrl, opened)).status).toBe(200);
  expect(await first.stop()).toBe(0);

  const second = await installation.serve();
  expect((await overview(second.baseUrl, opened)).status).toBe(200);
  // A link that was made before the server ran works as well.
  await signIn(second.baseUrl, secretOf(early));
  const made = await fetch(`${second.baseUrl}/console/api/organizations`, {
    method: "POST",
    headers: {
      ...{ origin: second.baseUrl, cookie: opened.cookie, "x-csrf-token": opened.token },
      "content-type": "application/json",
    },
    body: JSON.stringify({ name: "From the console" }),
  });
  expect(made.status).toBe(200);
  const { id } = (await made.json()) as { id: string };
  const [entry] = await installation.json<{ source: string; object: string }[]>(
    "audit",
    "list",
    "--limit",
    "1",
  );
  expect(entry).toMatchObject({ source: "console", object: id });
  expect(await installation.json<unknown>("console", "--end-sessions")).toEqual({ links: 0, sessions: 2 });
  expect((await overview(second.baseUrl, opened)).status).toBe(401);
  expect(await second.stop()).toBe(0);
}, 120_000);

test("a recording is heard by ranges with the samples that were sent, and its waveform shows the speech", async () => {
  const server = await (await installation.serve()).ready();
  const api = server.api();
  const uploadId = await uploaded(api, sampleBytes(SAMPLE));
  const { body } = await api.start({ audio: { upload_id: uploadId }, language: "hi" });
  await until("it is finished", async () => (await api.get(body.id)).state === "completed");
  const path = `${server.baseUrl}/v1/transcriptions/${body.id}`;
  const authorization = `Bearer ${installation.key}`;
  const transcription = (await (await fetch(path, { headers: { authorization } })).json()) as Transcription;
  const samples = Math.round((transcription.duration_seconds ?? 0) * 16_000);

  const made = await fetch(`${path}/audio_links`, { method: "POST", headers: { authorization } });
  const { url } = (await made.json()) as AudioLink;
  const head = await fetch(url, { method: "HEAD" });
  expect(head.headers.get("content-length")).toBe(String(44 + 2 * samples));
  const whole = new Uint8Array(await (await fetch(url)).arrayBuffer());
  expect(whole.length).toBe(44 + 2 * samples);
  if (formatOf(SAMPLE).rateHz === 16_000) {
    const sent = pcmOf(SAMPLE);
    expect(
      Buffer.from(whole.subarray(44, 44 + sent.length)).equals(
        Buffer.from(sent.subarray(0, whole.length - 44)),
      ),
    ).toBe(true);
  }
  const range = { from: 44 + 32_000, to: 44 + 48_000 };
  const part = await fetch(url, { headers: { range: `bytes=${range.from}-${range.to}` } });
  expect(part.status).toBe(206);
  const bytes = Buffer.from(await part.arrayBuffer());
  expect(bytes.equals(Buffer.from(whole.subarray(range.from, range.to + 1)))).toBe(true);

  const shown = await fetch(`${path}/waveform`, { headers: { authorization } });
  const waveform = (await shown.json()) as Waveform;
  const [lane] = waveform.lanes;
  expect(Buffer.from(lane?.peaks ?? "", "base64").length).toBe(Math.ceil(samples / 320));
  expect(lane?.speech?.length).toBeGreaterThan(0);
  expect(lane?.speech?.at(-1)?.[1]).toBeLessThanOrEqual(secondsOf(SAMPLE) + 0.1);

  await api.remove(body.id);
  expect((await fetch(url)).status).toBe(410);
  expect((await fetch(`${path}/waveform`, { headers: { authorization } })).status).toBe(410);
  expect(await server.stop()).toBe(0);
  expect(server.log()).not.toMatch(/adm_|alt_/);
}, 120_000);
