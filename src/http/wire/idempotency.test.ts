import { afterEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { apiClient, audioForm } from "../../testing/answers/api-client.ts";
import { openTestApp, type TestApp, type TestAppOptions } from "../../testing/kits/open-test-app.ts";
import { type Script, scriptedAudio } from "../../testing/kits/scripted-engine.ts";

const HINDI: Script = { seconds: 2, text: "नमस्ते" };
/** The price of 2 s at 3000 paise an hour, rounded up. */
const PRICE_PAISE = 2;

let open: TestApp[] = [];
afterEach(async () => {
  for (const testApp of open) await testApp.close();
  open = [];
});

async function openApp(options: TestAppOptions = {}): Promise<TestApp> {
  const testApp = await openTestApp(options);
  open.push(testApp);
  return testApp;
}

type Outcome = { status: number; id: string | undefined; code: string | undefined };

async function outcomeOf(response: Response): Promise<Outcome> {
  const body = (await response.json()) as { id?: string; error?: { code: string } };
  return { status: response.status, id: body.id, code: body.error?.code };
}

/** Sends a request to either endpoint. `variant` makes the body differ. */
async function send(
  testApp: TestApp,
  ask: { key: string; idempotencyKey?: string; variant?: string; uploadId?: string },
): Promise<Outcome> {
  const headers: Record<string, string> =
    ask.idempotencyKey === undefined ? {} : { "idempotency-key": ask.idempotencyKey };
  const client = testApp.as(ask.key);
  if (ask.uploadId === undefined) {
    const body = audioForm(scriptedAudio(HINDI), { language: "hi", mode: ask.variant ?? "native" });
    return outcomeOf(await client("/v1/audio/transcriptions", { method: "POST", headers, body }));
  }
  const body = JSON.stringify({
    audio: { upload_id: ask.uploadId },
    language: "hi",
    mode: ask.variant ?? "native",
  });
  return outcomeOf(
    await client("/v1/transcriptions", {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body,
    }),
  );
}

function countTranscriptions({ app }: TestApp): number {
  return (
    app.database.sqlite.query<{ n: number }, []>("SELECT count(*) AS n FROM transcriptions").get()?.n ?? -1
  );
}

function countUploads({ app }: TestApp): number {
  return app.database.sqlite.query<{ n: number }, []>("SELECT count(*) AS n FROM uploads").get()?.n ?? -1;
}

async function settled(testApp: TestApp): Promise<void> {
  const unfinished = () =>
    testApp.app.database.sqlite
      .query<{ n: number }, []>("SELECT count(*) AS n FROM transcriptions WHERE finished_at IS NULL")
      .get()?.n ?? 0;
  while (unfinished() > 0) await Bun.sleep(2);
}

describe("an idempotency key", () => {
  test("returns the original transcription, whatever its state is now", async () => {
    const testApp = await openApp();
    const client = apiClient(testApp.as(testApp.key));
    const { id: uploadId } = await client.upload(scriptedAudio(HINDI));
    const body = { audio: { upload_id: uploadId }, language: "hi" };
    const first = await client.start(body, "k");
    expect(first.status).toBe(202);
    await client.finished(first.body.id);
    const second = await client.start(body, "k");
    expect([second.status, second.body.id, second.body.state]).toEqual([200, first.body.id, "completed"]);
    await client.remove(first.body.id);
    const third = await client.start(body, "k");
    expect([third.status, third.body.id]).toEqual([200, first.body.id]);
    expect(third.body.content_deleted_at).toBeString();
    expect(countTranscriptions(testApp)).toBe(1);
  });

  test("means the same request when defaults are written out, and when fields are in another order", async () => {
    const testApp = await openApp();
    const client = apiClient(testApp.as(testApp.key));
    const { id: uploadId } = await client.upload(scriptedAudio(HINDI));
    const first = await client.start({ audio: { upload_id: uploadId }, language: "hi" }, "k");
    const second = await client.start(
      {
        model: "demo",
        channel_mode: "mix",
        diarization: false,
        timestamps: "segment",
        mode: "native",
        language: "hi",
        audio: { upload_id: uploadId },
      },
      "k",
    );
    expect([second.status, second.body.id]).toEqual([200, first.body.id]);
  });

  test("is answered even when the organization has no credit left", async () => {
    const testApp = await openApp({ creditPaise: PRICE_PAISE });
    const client = apiClient(testApp.as(testApp.key));
    const { id: uploadId } = await client.upload(scriptedAudio(HINDI));
    const first = await send(testApp, { key: testApp.key, idempotencyKey: "k", uploadId });
    await settled(testApp);
    expect((await client.usage()).credit.available_paise).toBe(0);
    expect(await send(testApp, { key: testApp.key, idempotencyKey: "k", uploadId })).toEqual({
      ...first,
      status: 200,
    });
    expect((await send(testApp, { key: testApp.key, idempotencyKey: "l", uploadId })).code).toBe(
      "insufficient_credits",
    );
  });

  test("belongs to one project and one endpoint", async () => {
    const testApp = await openApp();
    const other = testApp.accounts.createProject({ organizationId: testApp.organization.id, name: "second" });
    const otherKey = testApp.makeKey(other.id);
    const ids = new Set<string | undefined>();
    for (const key of [testApp.key, otherKey]) {
      const { id: uploadId } = await apiClient(testApp.as(key)).upload(scriptedAudio(HINDI));
      ids.add((await send(testApp, { key, idempotencyKey: "k", uploadId })).id);
      ids.add((await send(testApp, { key, idempotencyKey: "k" })).id);
    }
    expect(ids.size).toBe(4);
    await settled(testApp);
  });

  test("can be used again after a refusal", async () => {
    const testApp = await openApp({ creditPaise: 0 });
    const { id: uploadId } = await apiClient(testApp.as(testApp.key)).upload(scriptedAudio(HINDI));
    const ask = { key: testApp.key, idempotencyKey: "k", uploadId };
    expect((await send(testApp, ask)).code).toBe("insufficient_credits");
    expect((await send(testApp, { key: testApp.key, idempotencyKey: "k" })).code).toBe(
      "insufficient_credits",
    );
    testApp.app.services.credit.grant({ organizationId: testApp.organization.id, amountPaise: 100 });
    expect((await send(testApp, { ...ask, variant: "verbatim" })).status).toBe(202);
    expect((await send(testApp, { key: testApp.key, idempotencyKey: "k", variant: "verbatim" })).status).toBe(
      200,
    );
    await settled(testApp);
    expect(countUploads(testApp)).toBe(2);
  });

  test("is kept for at least 24 hours, but not for ever", async () => {
    const testApp = await openApp();
    const first = await send(testApp, { key: testApp.key, idempotencyKey: "k" });
    testApp.clock.advance(24 * 3_600_000);
    expect(await send(testApp, { key: testApp.key, idempotencyKey: "k" })).toEqual(first);
    testApp.clock.advance(24 * 3_600_000);
    expect((await send(testApp, { key: testApp.key, idempotencyKey: "k" })).id).not.toBe(first.id);
  });
});

describe("synchronous requests with one key", () => {
  test("share one place and one run of the work", async () => {
    const testApp = await openApp();
    const release = testApp.engine.hold();
    const ask = { key: testApp.key, idempotencyKey: "k" };
    const asked = Array.from({ length: 5 }, () => send(testApp, ask));
    while (testApp.engine.chunks() === 0) await Bun.sleep(1);
    asked.push(send(testApp, ask));
    const conflicting = await send(testApp, { ...ask, variant: "verbatim" });
    expect(conflicting.code).toBe("idempotency_conflict");
    release();
    const outcomes = await Promise.all(asked);
    expect(new Set(outcomes.map(({ id }) => id)).size).toBe(1);
    expect(outcomes.every(({ status }) => status === 200)).toBe(true);
    expect(testApp.engine.chunks()).toBe(1);
    expect(countTranscriptions(testApp)).toBe(1);
    expect(countUploads(testApp)).toBe(1);
    const { credit } = await apiClient(testApp.as(testApp.key)).usage();
    expect(credit).toEqual({
      balance_paise: 1_000_000 - PRICE_PAISE,
      reserved_paise: 0,
      available_paise: 1_000_000 - PRICE_PAISE,
    });
  });

  test("get the timeout again", async () => {
    const testApp = await openApp({ config: { limits: { synchronous_timeout_seconds: 1 } } });
    testApp.engine.hold();
    const ask = { key: testApp.key, idempotencyKey: "k" };
    expect((await send(testApp, ask)).code).toBe("timeout");
    expect((await send(testApp, ask)).code).toBe("timeout");
    expect(countTranscriptions(testApp)).toBe(1);
  });
});

describe("a client that goes away", () => {
  const leave = async (headers: Record<string, string>) => {
    const testApp = await openApp();
    const release = testApp.engine.hold();
    const controller = new AbortController();
    const asked = testApp
      .as(testApp.key)("/v1/audio/transcriptions", {
        method: "POST",
        headers,
        body: audioForm(scriptedAudio(HINDI), { language: "hi" }),
        signal: controller.signal,
      })
      .catch(() => undefined);
    while (testApp.engine.chunks() === 0) await Bun.sleep(1);
    controller.abort();
    await Bun.sleep(20);
    release();
    await asked;
    await settled(testApp);
    return (await apiClient(testApp.as(testApp.key)).usage()).data.map(({ state }) => state);
  };

  test("ends its work when it sent no key", async () => {
    expect(await leave({})).toEqual(["cancelled"]);
  });
  test("can repeat the request with its key and get the result", async () => {
    expect(await leave({ "idempotency-key": "k" })).toEqual(["completed"]);
  });
});

const VARIANTS = ["native", "codemix", "verbatim"] as const;
type Ask = {
  project: number;
  idempotencyKey: string | undefined;
  variant: string;
  upload: "there" | "missing";
  afterMs: number;
};

const asks = fc.array(
  fc.record<Ask>({
    project: fc.nat({ max: 1 }),
    idempotencyKey: fc.constantFrom(undefined, "a", "b"),
    variant: fc.constantFrom(...VARIANTS),
    upload: fc.constantFrom("there", "there", "there", "missing"),
    afterMs: fc.nat({ max: 4 }),
  }),
  { minLength: 1, maxLength: 14 },
);

/** Checks what must hold for all requests of one project under one key. */
function checkGroup(outcomes: { ask: Ask; outcome: Outcome }[], firstStatus: number): number {
  const answered = outcomes.filter(({ outcome }) => outcome.id !== undefined);
  const ids = new Set(answered.map(({ outcome }) => outcome.id));
  expect(ids.size).toBeLessThanOrEqual(1);
  const variants = new Set(answered.map(({ ask }) => ask.variant));
  expect(variants.size).toBeLessThanOrEqual(1);
  const firsts = answered.filter(({ outcome }) => outcome.status === firstStatus);
  if (firstStatus === 202) expect(firsts.length).toBe(ids.size);
  for (const { ask, outcome } of outcomes) {
    if (outcome.id !== undefined) continue;
    expect(["idempotency_conflict", "not_found"]).toContain(outcome.code ?? "");
    // Every client that asked for accepted work got that work.
    if (ask.upload === "there") expect(variants.has(ask.variant)).toBe(false);
  }
  return ids.size;
}

describe("under random interleavings", () => {
  test("a key is accepted once, for one request", async () => {
    const testApp = await openApp({ config: { limits: { max_queued: 0 } } });
    const other = testApp.accounts.createProject({ organizationId: testApp.organization.id, name: "second" });
    const keys = [testApp.key, testApp.makeKey(other.id)];
    const uploads = await Promise.all(
      keys.map(async (key) => (await apiClient(testApp.as(key)).upload(scriptedAudio(HINDI))).id),
    );
    let round = 0;
    await fc.assert(
      fc.asyncProperty(asks, async (list) => {
        round++;
        const before = countTranscriptions(testApp);
        const outcomes = await Promise.all(
          list.map(async (ask) => {
            await Bun.sleep(ask.afterMs);
            const uploadId = ask.upload === "there" ? uploads[ask.project] : "up_01KAJ5KZQ8D3F5G7H9J1K3M5N7";
            const idempotencyKey = ask.idempotencyKey && `${ask.idempotencyKey}${round}`;
            const outcome = await send(testApp, {
              key: keys[ask.project] ?? "",
              ...(idempotencyKey ? { idempotencyKey } : {}),
              variant: ask.variant,
              ...(uploadId ? { uploadId } : {}),
            });
            return { ask, outcome };
          }),
        );
        let accepted = outcomes.filter(({ ask, outcome }) => !ask.idempotencyKey && outcome.id).length;
        for (const project of [0, 1]) {
          for (const key of ["a", "b"]) {
            const group = outcomes.filter(({ ask }) => ask.project === project && ask.idempotencyKey === key);
            accepted += checkGroup(group, 202);
          }
        }
        expect(countTranscriptions(testApp) - before).toBe(accepted);
      }),
      { numRuns: 60 },
    );
    await settled(testApp);
    const { credit } = await apiClient(testApp.as(testApp.key)).usage();
    expect(credit.reserved_paise).toBe(0);
    expect(credit.balance_paise).toBe(1_000_000 - PRICE_PAISE * countTranscriptions(testApp));
  }, 60_000);

  test("synchronous requests with a key get one result or a conflict", async () => {
    const testApp = await openApp({ config: { engine: { synchronous_workers: 64 } } });
    let round = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ variant: fc.constantFrom(...VARIANTS), afterMs: fc.nat({ max: 4 }) }), {
          minLength: 2,
          maxLength: 8,
        }),
        async (list) => {
          round++;
          const before = countTranscriptions(testApp);
          const outcomes = await Promise.all(
            list.map(async ({ variant, afterMs }) => {
              await Bun.sleep(afterMs);
              const outcome = await send(testApp, { key: testApp.key, idempotencyKey: `k${round}`, variant });
              return {
                ask: { project: 0, idempotencyKey: "k", variant, upload: "there", afterMs } as Ask,
                outcome,
              };
            }),
          );
          expect(checkGroup(outcomes, 200)).toBe(1);
          expect(countTranscriptions(testApp) - before).toBe(1);
        },
      ),
      { numRuns: 25 },
    );
    expect(countUploads(testApp)).toBe(countTranscriptions(testApp));
  }, 60_000);
});
