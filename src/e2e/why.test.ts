import { afterAll, beforeAll, expect, test } from "bun:test";
import { closeSync, fstatSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { type Receiver, startReceiver } from "../testing/kits/webhook-kit.ts";
import { type Installation, install, type RunningServer, reached, until, uploaded } from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** An admin asks the compiled executable why something happened. */

let installation: Installation;
let server: RunningServer;
let api: ApiClient;
let receiver: Receiver;
let answers = 0;
beforeAll(async () => {
  // The first answer fails; the next attempt comes after five seconds.
  receiver = startReceiver(() => new Response(null, { status: answers++ === 0 ? 503 : 200 }));
  installation = await install({
    environment: {
      ...{ SHRUTI_WEBHOOKS_ALLOW_HTTP: "true", SHRUTI_WEBHOOKS_ALLOWED_NETWORKS: "127.0.0.0/8" },
      SHRUTI_LOG_LEVEL: "info",
    },
  });
  server = await (await installation.serve()).ready();
  api = server.api();
}, 120_000);
afterAll(async () => {
  await server?.stop();
  await installation?.remove();
  await receiver?.stop();
});

type Line = Record<string, unknown>;
const lines = () =>
  server
    .log()
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Line);
const line = (fields: Line) =>
  lines().find((each) => Object.entries(fields).every(([name, value]) => each[name] === value));

async function start(more: Record<string, string> = {}): Promise<string> {
  const upload_id = await uploaded(api, sampleBytes("01-en"));
  return (await api.start({ audio: { upload_id }, language: "en", ...more })).body.id;
}

test("the story of a transcription: states, chunks, means, speed, money and webhook deliveries", async () => {
  const endpoint = await api.call<{ id: string }>("POST", "/v1/webhook_endpoints", { url: receiver.url });
  const id = await start({ webhook_endpoint_id: endpoint.body.id });
  await reached(api, id);
  type Story = {
    history: { state: string; at: string }[];
    webhook: { state: string; attempts: { status: number }[] };
  };
  const show = () => installation.json<Story>("transcriptions", "show", id);
  await until(
    "both attempts are recorded",
    async () => (await show()).webhook?.attempts.length === 2,
    30_000,
  );
  const story = await show();
  expect(story.history.map(({ state }) => state)).toEqual([
    ...["queued", "preparing", "transcribing", "finalizing", "completed"],
  ]);
  expect(story).toMatchObject({
    ...{ state: "completed", runs: 1, device: "cpu", executable: expect.stringMatching(/^\d/), acts: [] },
    ...{ model_sha256: expect.stringMatching(/^[0-9a-f]{64}$/), times_real_time: expect.any(Number) },
    chunks: { total: expect.any(Number), gaps: 0, failures: 0, troubled: [] },
    ledger: [{ kind: "reserve" }, { kind: "release" }, { kind: "charge" }],
    webhook: { state: "delivered", attempts: [{ status: 503 }, { status: 200 }] },
  });
  const text = await installation.output("transcriptions", "show", id);
  expect(text).not.toContain("[object Object]");
  expect(text).toMatch(/\nHistory\n {2}\S+ {2}queued\n/);
  expect(text).toMatch(/ × real time; begun 1 time\n/);
  expect(text).toMatch(/\nWebhook\n {2}evt_\S+ to whe_\S+: delivered\n.* 503.*\n.* 200\n/);
  expect(line({ msg: "a transcription ended", transcription_id: id })).toMatchObject({
    ...{ state: "completed", audio_seconds: expect.any(Number), worked_seconds: expect.any(Number) },
    times_real_time: expect.any(Number),
  });
}, 60_000);

test("why an upload was rejected: the command, the line when it ended and the line of the request", async () => {
  const rejected = api.upload(new TextEncoder().encode("this is not a recording"));
  await rejected.catch(() => undefined);
  const uploads = await installation.json<{ id: string; error: Line }[]>("uploads", "list", "--rejected");
  expect(uploads).toHaveLength(1);
  expect(uploads[0]?.error).toMatchObject({ code: "audio_decode_failed", message: expect.any(String) });
  const id = uploads[0]?.id ?? "";
  expect(await installation.json("uploads", "show", id)).toMatchObject({
    history: [{ state: "allocated" }, { state: "verifying" }, { state: "rejected" }],
  });
  expect(await installation.output("uploads", "show", id)).toContain(
    "error             audio_decode_failed: ",
  );
  expect(line({ msg: "an upload ended", upload_id: id })).toMatchObject({
    ...{ state: "rejected", code: "audio_decode_failed", seconds: expect.any(Number) },
  });
  expect(line({ msg: "request", path: `/v1/uploads/${id}/complete` })).toMatchObject({
    ...{ status: 415, code: "audio_decode_failed" },
  });
}, 30_000);

test("why a transcription failed: the list, the story and the log, with types that have their names", async () => {
  const upload_id = await uploaded(api, sampleBytes("01-en"));
  writeFileSync(join(installation.dataDir, "uploads", upload_id), "damaged on the disk");
  const { id } = (await api.start({ audio: { upload_id }, language: "en" })).body;
  await reached(api, id, ["failed"]);
  const listed = await installation.json<{ id: string; error: Line }[]>(
    ...["transcriptions", "list", "--failed", "--since", "1h", "--org", installation.organizationId],
  );
  expect(listed.map((each) => each.id)).toEqual([id]);
  const { code, message } = listed[0]?.error ?? {};
  expect(code).toBe("audio_decode_failed");
  expect(await installation.output("transcriptions", "list", "--failed")).toContain(String(code));
  const shown = await installation.output("transcriptions", "show", id);
  expect(shown).toContain(`${code}: ${message}`);
  expect(shown).not.toContain("[object Object]");
  expect(line({ msg: "a transcription ended", transcription_id: id })).toMatchObject({
    ...{ state: "failed", code, reason: message },
  });
  // A minifier had shortened the names of classes to two letters.
  const { err } = line({ msg: "transcription failed", transcription_id: id }) as { err: { type: string } };
  expect(err.type).toBe("AppError");
}, 60_000);

test("a cancelled transcription is retried, and is charged once", async () => {
  const id = await start();
  await api.cancel(id);
  const isCancelled = (await api.get(id)).state === "cancelled";
  expect(isCancelled).toBe(true);
  const retry = (await installation.output("transcriptions", "retry", id)).trim();
  await reached(api, retry, ["completed"]);
  const again = await installation.command("transcriptions", "retry", id);
  expect(again.code).toBe(5);
  expect(again.err).toContain(`retried already: ${retry} is completed`);
  const ledger = async (of: string) =>
    (await installation.json<{ ledger: { kind: string }[] }>("transcriptions", "show", of)).ledger;
  expect((await ledger(id)).map(({ kind }) => kind)).toEqual(["reserve", "release"]);
  expect((await ledger(retry)).map(({ kind }) => kind)).toEqual(["reserve", "release", "charge"]);
  await installation.output("credit", "audit");
  const shown = await installation.json<{ acts: Line[]; retries: Line[] }>("transcriptions", "show", id);
  expect(shown.retries).toEqual([{ id: retry, state: "completed" }]);
  expect(shown.acts.map(({ action, source }) => `${action} ${source}`)).toEqual([
    ...["transcription.cancel api_key", "transcription.retry command_line"],
  ]);
}, 60_000);

test("polls of monitors leave no lines while they are good", async () => {
  for (const path of ["/healthz", "/readyz", "/metrics"])
    expect((await fetch(server.baseUrl + path)).status).toBe(200);
  await api.list();
  await until(
    "the request after them is in the log",
    () => line({ msg: "request", path: "/v1/transcriptions" }) !== undefined,
  );
  const polls = lines().filter(({ path }) => /healthz|readyz|metrics/.test(String(path)));
  // Before it was ready, each answer of /readyz said so.
  expect(polls.filter(({ status }) => Number(status) < 400)).toEqual([]);
});

test("systemd's journal gets priorities, and a file gets none", async () => {
  const path = join(installation.folder, "journal");
  const written = async (environment: (stream: string) => Record<string, string>) => {
    const descriptor = openSync(path, "w");
    const { dev, ino } = fstatSync(descriptor);
    const child = Bun.spawn([join(installation.folder, "program", "shruti"), "serve"], {
      cwd: installation.folder,
      env: {
        ...{
          SHRUTI_CONFIG: installation.configPath,
          SHRUTI_STORAGE_DATA_DIR: join(installation.folder, "other"),
        },
        ...{ SHRUTI_SERVER_LISTEN: "127.0.0.1:0", ...environment(`${dev}:${ino}`) },
      },
      ...{ stdin: "ignore", stdout: "ignore", stderr: descriptor },
    });
    try {
      await until("it listens", () => readFileSync(path, "utf8").includes('"listening"'));
    } finally {
      child.kill();
      await child.exited;
      closeSync(descriptor);
    }
    return readFileSync(path, "utf8").trimEnd().split("\n");
  };
  const data = ["--data", join(installation.folder, "other")];
  const program = join(installation.folder, "program", "shruti");
  const made = Bun.spawnSync(
    [program, "--config", join(installation.folder, "other.toml"), "init", ...data],
    { env: {} },
  );
  expect(made.exitCode).toBe(0);
  const journal = await written((stream) => ({ JOURNAL_STREAM: stream }));
  expect(journal.every((each) => /^<[2-7]>\{/.test(each))).toBe(true);
  expect(journal.some((each) => each.startsWith('<6>{"level":"info"'))).toBe(true);
  const file = await written(() => ({ JOURNAL_STREAM: "1:1" }));
  expect(file.every((each) => each.startsWith("{"))).toBe(true);
}, 60_000);
