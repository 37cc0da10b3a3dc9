import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Installation, install, type RunningServer, until } from "./kit.ts";
import { concatenated } from "./samples.ts";

/** Words that a stream of the OpenAI layer has sent are paid, whatever ends it. */

/** The first recording takes a synchronous place, the second one waits in the queue. */
const SHORT = concatenated(["04-en"], 3);
const LONG = concatenated(["04-en"], 7);
const PRICE = 3000;

let installation: Installation;
let server: RunningServer;
/** Segments of `LONG`, with which `SHORT` begins. */
let segments: { start: number; text: string }[];

const start = async () => (await installation.serve()).ready();
const post = (file: Uint8Array<ArrayBuffer>, fields: Record<string, string>, signal?: AbortSignal) => {
  const form = new FormData();
  form.append("file", new File([file], "a.wav"));
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  return fetch(`${server.baseUrl}/openai/v1/audio/transcriptions`, {
    ...{ method: "POST", body: form, headers: { authorization: `Bearer ${installation.key}` } },
    ...(signal ? { signal } : {}),
  });
};

beforeAll(async () => {
  installation = await install({
    environment: {
      SHRUTI_OPENAI_ENABLED: "true",
      SHRUTI_OPENAI_DEFAULT_LANGUAGE: "en",
      SHRUTI_LIMITS_SYNCHRONOUS_MAX_DURATION_SECONDS: "30",
      // Chunks are recognized one after the other, so that the stream can be ended between two of them.
      SHRUTI_ENGINE_WORKERS: "1",
      SHRUTI_ENGINE_PRECISION: "exact",
    },
  });
  server = await start();
  const whole = await post(LONG, { response_format: "verbose_json" });
  ({ segments } = (await whole.json()) as { segments: typeof segments });
}, 120_000);
afterAll(() => installation.remove());

/** Reads a stream up to some parts of its text, and calls a function then. @returns the text that has arrived */
async function readUntil(file: Uint8Array<ArrayBuffer>, parts: number, end: (id: string) => unknown) {
  const leaving = new AbortController();
  const response = await post(file, { stream: "true" }, leaving.signal);
  const id = response.headers.get("x-transcription-id") ?? "";
  const decoder = new TextDecoder();
  let raw = "";
  let text = "";
  let isOver = false;
  try {
    for await (const piece of response.body ?? []) {
      raw += decoder.decode(piece, { stream: true });
      const deltas = [...raw.matchAll(/^data: (\{"type":"transcript\.text\.delta".*\})$/gm)];
      text = deltas.map(([, json = ""]) => (JSON.parse(json) as { delta: string }).delta).join("");
      if (deltas.length < parts || isOver) continue;
      isOver = true;
      if ((await end(id)) === "leave") leaving.abort();
    }
  } catch (error) {
    // The client has left, or the server is dead.
    if (!isOver) throw error;
  }
  return { id, text };
}

/** Expects that each word that has arrived is paid, and no more than a chunk beside it. */
async function expectPaid({ id, text }: { id: string; text: string }, seconds: number): Promise<void> {
  await until("it has ended", async () => (await server.api().get(id)).finished_at !== null);
  expect((await server.api().get(id)).state).toBe("cancelled");
  const event = (await server.api().usage()).data.find((each) => each.transcription_id === id);
  const billedMs = Math.round((event?.billed_seconds ?? 0) * 1000);
  expect(billedMs).toBeGreaterThan(0);
  expect(billedMs).toBeLessThan(seconds * 1000);
  expect(event?.amount_paise).toBe(Math.ceil((PRICE * billedMs) / 3_600_000));
  const paid = segments.filter((segment) => segment.start * 1000 < billedMs);
  // Each segment begins with the space before it.
  expect(
    paid
      .map((segment) => segment.text)
      .join("")
      .trimStart(),
  ).toStartWith(text);
  const { code, out } = await installation.command("credit", "audit");
  expect([code, out]).toEqual([0, expect.stringContaining("the ledger holds")]);
}

test("the connection is closed once the wanted words have arrived", async () => {
  const read = await readUntil(LONG, 4, () => "leave");
  expect(read.text).not.toBe("");
  await expectPaid(read, 70);
});

test("a command cancels it", async () => {
  const read = await readUntil(LONG, 3, (id) => installation.output("transcriptions", "cancel", id, "--yes"));
  await expectPaid(read, 70);
});

test("kill -9: a short one is cancelled by the next start, a long one continues", async () => {
  const short = await readUntil(SHORT, 2, () => server.kill());
  server = await start();
  await expectPaid(short, 30);
  const long = await readUntil(LONG, 3, () => server.kill());
  server = await start();
  await until("it has ended", async () => (await server.api().get(long.id)).finished_at !== null);
  const { data, credit } = await server.api().usage();
  expect(data[0]).toMatchObject({ transcription_id: long.id, state: "completed", billed_seconds: 70 });
  const sum = data.reduce((total, { amount_paise }) => total + amount_paise, 0);
  expect(credit).toMatchObject({ balance_paise: 1_000_000 - sum, reserved_paise: 0 });
  expect(await installation.output("credit", "audit")).toContain("the ledger holds");
  expect(await server.stop()).toBe(0);
}, 60_000);
