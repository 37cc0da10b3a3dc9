import { afterEach, beforeEach, expect, test } from "bun:test";
import { EngineError } from "../../engine/protocol.ts";
import { exportAudit } from "../../store/audit-log.ts";
import { auditLedger } from "../../store/ledger-audit.ts";
import { raiseStreamed } from "../../store/transcriptions.ts";
import { openTestApp, type TestApp } from "../../testing/kits/open-test-app.ts";
import { begin, clientOf, until } from "../../testing/kits/scheduler-kit.ts";
import { retryTranscription } from "./retry.ts";
import { storyOf } from "./story.ts";

let testApp: TestApp;
beforeEach(async () => {
  testApp = await openTestApp();
});
afterEach(() => testApp.close());

/** Retries as the command line does, beside the running server. */
function retry(id: string) {
  const { database, services } = testApp.app;
  const { clock, config } = testApp;
  const { models, uploads, credit } = services;
  const deps = { database, clock, config, models, uploads, credit, estimateNextStartSeconds: () => 1 };
  const made = retryTranscription(deps, id);
  testApp.app.scheduler.onOutsideChange();
  return made;
}

const story = (id: string) => {
  const row = testApp.app.services.transcriptions.find(id);
  if (!row) throw new Error("there is no such transcription");
  return storyOf(testApp.app.database.store, row, testApp.clock.now());
};

async function ended(id: string, state: string): Promise<void> {
  await until(`${id} is ${state}`, async () => (await clientOf(testApp).get(id)).state === state);
}

/** Starts a transcription all of whose chunks fail. */
async function failed(): Promise<string> {
  testApp.engine.interfere({
    chunk: () => {
      throw new EngineError("failed", "the scripted chunk failed");
    },
  });
  const id = await begin(testApp);
  await ended(id, "failed");
  testApp.engine.interfere({});
  return id;
}

test("a failed transcription is retried as a new one, and only the new one is charged", async () => {
  const id = await failed();
  const { transcription } = retry(id);
  expect(transcription).toMatchObject({ retryOfId: id, state: "queued" });
  await ended(transcription.id, "completed");
  expect(story(id).row.state).toBe("failed");
  expect(story(id).ledger.map(({ kind }) => kind)).toEqual(["reserve", "release"]);
  expect(story(transcription.id).ledger.map(({ kind }) => kind)).toEqual(["reserve", "release", "charge"]);
  expect(story(id).retries.map((each) => each.id)).toEqual([transcription.id]);
  const acts = [...exportAudit(testApp.app.database.store)].map(
    ({ action, object }) => `${action} ${object}`,
  );
  expect(acts).toContain(`transcription.retry ${id}`);
  expect(auditLedger(testApp.app.database.store).ok).toBe(true);
});

test("what has a result, or a retry that has one or may get one, is not retried: nothing is charged twice", async () => {
  const id = await failed();
  const first = retry(id).transcription.id;
  expect(() => retry(id)).toThrow(`${id} is retried already: ${first} is`);
  await ended(first, "completed");
  expect(() => retry(id)).toThrow(`${id} is retried already: ${first} is completed`);
  expect(() => retry(first)).toThrow("was charged");
});

test("a cancelled one that was charged, because a stream has sent some of it, is not retried", async () => {
  const release = testApp.engine.hold();
  const [free, charged] = [await begin(testApp), await begin(testApp)];
  expect(raiseStreamed(testApp.app.database.store, charged, 5_000)).toBe(true);
  for (const id of [free, charged]) await clientOf(testApp).cancel(id);
  expect(raiseStreamed(testApp.app.database.store, charged, 9_000)).toBe(false);
  expect(() => retry(charged)).toThrow(`${charged} is cancelled and was charged`);
  expect(
    story(charged)
      .ledger.map(({ kind, amountPaise }) => [kind, amountPaise])
      .at(-1),
  ).toEqual(["charge", 5]);
  release();
  await ended(retry(free).transcription.id, "completed");
  expect(auditLedger(testApp.app.database.store)).toMatchObject({ ok: true, problems: [] });
});

test("a retry of a retry belongs to the first one", async () => {
  const id = await failed();
  const release = testApp.engine.hold();
  const second = retry(id).transcription.id;
  expect(() => retry(second)).toThrow("is not finished");
  await clientOf(testApp).cancel(second);
  const third = retry(second).transcription.id;
  expect(() => retry(id)).toThrow(`${id} is retried already: ${third}`);
  expect(() => retry(second)).toThrow(`${second} is retried already: ${third}`);
  release();
  await ended(third, "completed");
  expect(story(id).retries.map((each) => each.id)).toEqual([second, third]);
});

test("nothing is stored when the recording is deleted or the credit is spent", async () => {
  const id = await failed();
  const count = () => testApp.app.database.sqlite.query("SELECT count(*) AS n FROM transcriptions").get();
  const before = count();
  testApp.app.services.credit.grant({ organizationId: testApp.organization.id, amountPaise: -999_999 });
  expect(() => retry(id)).toThrow("credit");
  await clientOf(testApp).remove(id);
  expect(() => retry(id)).toThrow("deleted");
  expect(() => retry("tr_none")).toThrow("There is no transcription tr_none");
  expect(count()).toEqual(before);
});

test("the story has every state with its time, and the failures of chunks after they are removed", async () => {
  let failures = 0;
  testApp.engine.interfere({
    chunk: ({ startMs }) => {
      if (startMs === 5000 && failures++ === 0)
        throw new EngineError("crashed", "the scripted process ended");
    },
  });
  const id = await begin(testApp);
  await ended(id, "completed");
  const { row, chunks, pace } = story(id);
  expect(row.history.map(([, state]) => state)).toEqual([
    "preparing",
    "transcribing",
    "finalizing",
    "completed",
  ]);
  expect(row.history.every(([atMs]) => atMs >= row.createdAt)).toBe(true);
  expect(chunks).toMatchObject({ chunks: 4, ended: 4, gaps: 0, failures: 1, crashes: 1 });
  expect(chunks?.troubled).toEqual([
    { channel: 0, startMs: 5000, endMs: 10_000, failures: 1, crashes: 1, reason: null },
  ]);
  expect(pace.runs).toBe(1);
  expect(row.work?.means).toMatchObject({ modelSha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
});
