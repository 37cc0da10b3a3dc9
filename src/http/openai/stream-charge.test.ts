import { describe, expect, test } from "bun:test";
import { EngineError } from "../../engine/protocol.ts";
import { chargePaise } from "../../lib/money.ts";
import { auditLedger } from "../../store/ledger-audit.ts";
import { listUnfinished } from "../../store/transcriptions.ts";
import type { TestApp } from "../../testing/kits/open-test-app.ts";
import { CHUNK_MS, clientOf, forever, until } from "../../testing/kits/scheduler-kit.ts";
import { scriptedAudio } from "../../testing/kits/scripted-engine.ts";
import { testAppOpener } from "../../testing/kits/test-app-opener.ts";
import { openCommand } from "../../testing/programs/command-beside.ts";

/**
 * Words that a stream has sent are paid, whatever ends it. What it has not sent is not charged without a result.
 */

const openApp = testAppOpener();
const PATH = "/openai/v1/audio/transcriptions";
const CREDIT_PAISE = 1_000_000;
const PRICE = 3000;
/** Takes the way of long recordings: it waits in the queue. */
const LONG_SECONDS = 90;
/** Takes a synchronous place. */
const SHORT_SECONDS = 20;

type Listener = { text: () => string; end: () => string; leave: () => void; id: string };

/** Sends a recording as a stream, and reads it in the background. */
async function listen(
  testApp: TestApp,
  seconds: number,
  headers: Record<string, string> = {},
): Promise<Listener> {
  const form = new FormData();
  form.append("file", new File([scriptedAudio({ seconds, text: "a" })], "a.wav"));
  for (const [name, value] of Object.entries({ language: "hi", stream: "true" })) form.append(name, value);
  const leaving = new AbortController();
  const response = await fetch(`${testApp.baseUrl()}${PATH}`, {
    ...{ method: "POST", body: form, signal: leaving.signal },
    headers: { authorization: `Bearer ${testApp.key}`, ...headers },
  });
  const decoder = new TextDecoder();
  let raw = "";
  let isOver = false;
  void (async () => {
    if (response.body) for await (const part of response.body) raw += decoder.decode(part, { stream: true });
  })()
    .catch(() => undefined)
    .finally(() => {
      isOver = true;
    });
  const events = () =>
    [...raw.matchAll(/^data: (\{.*\})$/gm)].map(([, json = ""]) => JSON.parse(json) as Record<string, never>);
  return {
    id: response.headers.get("x-transcription-id") ?? "",
    text: () =>
      events()
        .map(({ delta = "" }) => delta)
        .join(""),
    end: () =>
      isOver ? ((events().at(-1)?.error as { code?: string } | undefined)?.code ?? "closed") : "open",
    leave: () => leaving.abort(),
  };
}

/** Recognizes so many chunks of each recording, as `w0`, `w1`, …, and holds the others until `release`. */
function recognizeFirst(testApp: TestApp, count: number) {
  const released = Promise.withResolvers<string>();
  // Where no chunk is held, no promise waits for it.
  released.promise.catch(() => undefined);
  testApp.engine.interfere({
    async chunk({ startMs }, signal) {
      const n = startMs / CHUNK_MS;
      if (n < count) return `w${n}`;
      await Promise.race([released.promise, forever(signal)]);
      return "";
    },
  });
  return { release: released.resolve, fail: released.reject };
}

const wordsOf = (count: number) => Array.from({ length: count }, (_, n) => `w${n}`).join(" ");

function expectPaid(testApp: TestApp, id: string, expected: { state: string; billedMs: number }): void {
  const { services, database } = testApp.app;
  const row = services.transcriptions.find(id);
  const charge = Math.min(chargePaise(PRICE, expected.billedMs), row?.reservedPaise ?? 0);
  const events = database.sqlite
    .query<object, [string]>(
      "SELECT state, billed_ms AS billedMs, amount_paise AS paise FROM usage_events WHERE transcription_id = ?",
    )
    .all(id);
  expect(events).toEqual([{ ...expected, paise: charge }]);
  expect(row?.state).toBe(expected.state as never);
  expect(services.credit.show(testApp.organization.id)).toEqual({
    balancePaise: CREDIT_PAISE - charge,
    reservedPaise: 0,
    availablePaise: CREDIT_PAISE - charge,
  });
  expect(auditLedger(database.store)).toMatchObject({ ok: true, problems: [], chargedPaise: charge });
}

/** Ends all unfinished work as a command does. */
async function command(testApp: TestApp, how: "cancel" | "purge"): Promise<void> {
  const opened = openCommand(testApp);
  await opened[how]();
  opened.close();
}

type Scene = { testApp: TestApp; stream: Listener; held: ReturnType<typeof recognizeFirst> };
type End = {
  by: string;
  config?: Parameters<typeof openApp>[0];
  /** Left out: the time limit ends it. */
  end?: (scene: Scene) => unknown;
  state: string;
  /** Code of the stream's last event. */
  code: string;
};
const ENDS: End[] = [
  {
    by: "the client's disconnection",
    end: ({ stream }) => stream.leave(),
    state: "cancelled",
    code: "closed",
  },
  {
    by: "a request to cancel",
    end: ({ testApp, stream }) => clientOf(testApp).cancel(stream.id),
    ...{ state: "cancelled", code: "conflict" },
  },
  {
    by: "several requests to cancel, a command and a disconnection at once",
    async end({ testApp, stream }) {
      const { cancel } = clientOf(testApp);
      const all = [cancel(stream.id), command(testApp, "cancel"), cancel(stream.id), cancel(stream.id)];
      stream.leave();
      await Promise.all(all);
    },
    ...{ state: "cancelled", code: "closed" },
  },
  {
    by: "a command that cancels",
    end: ({ testApp }) => command(testApp, "cancel"),
    ...{ state: "cancelled", code: "conflict" },
  },
  {
    by: "a purge",
    end: ({ testApp }) => command(testApp, "purge"),
    ...{ state: "cancelled", code: "content_deleted" },
  },
  {
    by: "its time limit",
    config: { config: { openai: { timeout_seconds: 1 } } },
    ...{ state: "cancelled", code: "timeout" },
  },
  {
    by: "the server's stop",
    config: { config: { server: { drain_seconds: 0 } } },
    end: ({ testApp }) => testApp.app.drain(),
    ...{ state: "cancelled", code: "capacity_unavailable" },
  },
  {
    by: "a failure of the engine",
    end: ({ held }) => held.fail(new EngineError("unusable_model", "as scripted")),
    ...{ state: "failed", code: "capacity_unavailable" },
  },
];

describe.each(ENDS)("a stream that is ended by $by", ({ config, end, state, code }) => {
  test.each([
    ["before its first text", LONG_SECONDS, 0],
    ["after its first text", LONG_SECONDS, 1],
    ["after its first text, in a synchronous place", SHORT_SECONDS, 1],
    ["after all words, before an end without words", LONG_SECONDS, LONG_SECONDS / 5 - 1],
  ])("%s: what was sent is charged", async (_, seconds, sentChunks) => {
    const testApp = await openApp({
      ...{ listens: true, ...config },
      config: { ...config?.config, openai: { enabled: true, ...config?.config?.openai } },
    });
    const held = recognizeFirst(testApp, sentChunks);
    const stream = await listen(testApp, seconds);
    await until("its text has arrived", () => stream.text() === wordsOf(sentChunks));
    const find = () => testApp.app.services.transcriptions.find(stream.id);
    await until("it runs", () => ["transcribing", "cancelled"].includes(find()?.state ?? ""));
    await end?.({ testApp, stream, held });
    await until("it has ended", () => find()?.finishedAt !== null);
    await until("its stream has ended", () => stream.end() !== "open");
    if (code === "content_deleted") expect(["content_deleted", "conflict"]).toContain(stream.end());
    else expect(stream.end()).toBe(code);
    expect(stream.text()).toBe(wordsOf(sentChunks));
    expectPaid(testApp, stream.id, { state, billedMs: sentChunks * CHUNK_MS });
  });
});

test("a stream that is read to its end is charged once, for all of the recording", async () => {
  const testApp = await openApp({ listens: true, config: { openai: { enabled: true } } });
  const held = recognizeFirst(testApp, 3);
  const stream = await listen(testApp, LONG_SECONDS);
  await until("some text has arrived", () => stream.text() === wordsOf(3));
  held.release("");
  await until("its stream has ended", () => stream.end() !== "open");
  expectPaid(testApp, stream.id, { state: "completed", billedMs: LONG_SECONDS * 1000 });
});

test("an answer at the end shows no text before it: cancelled, it is free", async () => {
  const testApp = await openApp({ listens: true, config: { openai: { enabled: true } } });
  recognizeFirst(testApp, 2);
  const form = new FormData();
  form.append("file", new File([scriptedAudio({ seconds: LONG_SECONDS, text: "a" })], "a.wav"));
  form.append("language", "hi");
  const answer = testApp.as(testApp.key)(PATH, { method: "POST", body: form });
  const { store } = testApp.app.database;
  await until("two chunks have ended", () => listUnfinished(store)[0]?.progressMs === 2 * CHUNK_MS);
  const id = listUnfinished(store)[0]?.id ?? "";
  await clientOf(testApp).cancel(id);
  expect((await answer).status).toBe(409);
  expectPaid(testApp, id, { state: "cancelled", billedMs: 0 });
});

test("a second request with the same key sees the first one's text, and what either has seen is charged once", async () => {
  const testApp = await openApp({ listens: true, config: { openai: { enabled: true } } });
  const turns = [1, 3];
  let count = 0;
  const next = Promise.withResolvers<void>();
  testApp.engine.interfere({
    async chunk({ startMs }, signal) {
      const n = startMs / CHUNK_MS;
      if (n >= (turns[count] ?? 0)) await Promise.race([next.promise, forever(signal)]);
      if (n >= (turns[1] ?? 0)) await forever(signal);
      return `w${n}`;
    },
  });
  const key = { "idempotency-key": "k" };
  const first = await listen(testApp, LONG_SECONDS, key);
  await until("the first word has arrived", () => first.text() === wordsOf(1));
  first.leave();
  await until("it has left", () => first.end() !== "open");
  const second = await listen(testApp, LONG_SECONDS, key);
  expect(second.id).toBe(first.id);
  count = 1;
  next.resolve();
  await until("the second one has all words", () => second.text() === wordsOf(3));
  await clientOf(testApp).cancel(second.id);
  await until("its stream has ended", () => second.end() !== "open");
  expectPaid(testApp, second.id, { state: "cancelled", billedMs: 3 * CHUNK_MS });
});

test("text is not sent where its charge cannot be stored, and is sent with what follows", async () => {
  const testApp = await openApp({ listens: true, config: { openai: { enabled: true } } });
  const { sqlite } = testApp.app.database;
  sqlite.run(`CREATE TRIGGER refuse BEFORE UPDATE OF streamed_ms ON transcriptions WHEN new.streamed_ms > 0
    BEGIN SELECT RAISE(ABORT, 'as scripted'); END`);
  const next = Promise.withResolvers<void>();
  testApp.engine.interfere({
    async chunk({ startMs }, signal) {
      const n = startMs / CHUNK_MS;
      if (n === 1) await next.promise;
      if (n > 1) await forever(signal);
      return `w${n}`;
    },
  });
  const stream = await listen(testApp, LONG_SECONDS);
  const find = () => testApp.app.services.transcriptions.find(stream.id);
  await until("a chunk has ended", () => (find()?.progressMs ?? 0) > 0);
  await Bun.sleep(100);
  expect(stream.text()).toBe("");
  sqlite.run("DROP TRIGGER refuse");
  next.resolve();
  await until("the text has arrived", () => stream.text() === wordsOf(2));
  stream.leave();
  await until("it has ended", () => find()?.finishedAt !== null);
  expectPaid(testApp, stream.id, { state: "cancelled", billedMs: 2 * CHUNK_MS });
});
