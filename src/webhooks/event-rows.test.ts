import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { FinalState } from "../domain/transcription.ts";
import { transaction } from "../store/database.ts";
import { deliveries, deliveryAttempts, events } from "../store/schema.ts";
import { openWebhookKit } from "../testing/kits/webhook-kit.ts";
import {
  countDeliveries,
  dueDeliveries,
  listDeliveries,
  recordOutcomes,
  removeOldDeliveries,
  waitingEndpoints,
} from "./delivery-rows.ts";
import { insertEvent, updateEndpoint, validSecrets } from "./event-rows.ts";

const DAY_MS = 86_400_000;
let kit: ReturnType<typeof openWebhookKit>;
beforeEach(() => {
  kit = openWebhookKit();
});
afterEach(() => kit.close());

const addEndpoint = (name = "a") => kit.service.register(kit.caller, { url: `https://${name}.example/` });
const outcomeOf = (
  eventId: string,
  endpointId: string,
  state: "delivered" | "failed" | "pending",
  attempts: number,
) => ({
  eventId,
  endpointId,
  attempts,
  state,
  startedAtMs: kit.clock.now(),
  durationMs: 3,
  status: 500,
  error: "no",
  nextAttemptAt: state === "pending" ? kit.clock.now() + 5000 : null,
  disableReason: null,
});

describe("the outbox", () => {
  const transcription = { id: "tr_1", state: "completed" as FinalState };

  test.each([
    [transcription, '{"type":"transcription.completed","data":{"id":"tr_1","state":"completed"}}'],
    [
      { ...transcription, state: "partial" as const },
      '{"type":"transcription.partial","data":{"id":"tr_1","state":"partial"}}',
    ],
    [
      { ...transcription, state: "cancelled" as const },
      '{"type":"transcription.cancelled","data":{"id":"tr_1","state":"cancelled"}}',
    ],
    [
      {
        ...transcription,
        state: "failed" as const,
        error: { code: "audio_decode_failed" as const, message: "Ä" },
      },
      '{"type":"transcription.failed","data":{"id":"tr_1","state":"failed","error":{"code":"audio_decode_failed","message":"Ä"}}}',
    ],
  ])("the body is exactly the documented one", (finished, body) => {
    const { id: endpointId } = addEndpoint();
    const id = insertEvent(kit.database.store, { transcription: finished, endpointId, nowMs: 5 });
    const [row] = listDeliveries(kit.database.store, { eventId: id, limit: 1 });
    expect(row).toMatchObject({
      state: "pending",
      nextAttemptAt: 5,
      attempts: 0,
      event: { body, createdAt: 5 },
    });
    expect(row?.event.type).toBe(`transcription.${finished.state}`);
  });

  test("stores or drops event and delivery with the transaction", () => {
    const { id: endpointId } = addEndpoint();
    const rollBack = () =>
      transaction(kit.database.store, (tx) => {
        insertEvent(tx, { transcription, endpointId, nowMs: 5 });
        throw new Error("the final state was refused");
      });
    expect(rollBack).toThrow("refused");
    expect(kit.database.store.select().from(events).all()).toEqual([]);
    expect(kit.database.store.select().from(deliveries).all()).toEqual([]);
    expect(() =>
      insertEvent(kit.database.store, { transcription, endpointId: "whe_none", nowMs: 5 }),
    ).toThrow();
  });
});

describe("what is due", () => {
  test("is found endpoint by endpoint, without disabled endpoints", () => {
    const [a, b, c, idle] = ["a", "b", "c", "d"].map((name) => addEndpoint(name).id) as [
      string,
      string,
      string,
      string,
    ];
    const first = kit.clock.now();
    kit.finish(a, 3);
    kit.finish(c, 1);
    kit.clock.advance(1000);
    kit.finish(b, 2);
    updateEndpoint(kit.database.store, c, { disabledAt: 1 });
    const { organizationId } = kit.caller;
    expect(waitingEndpoints(kit.database)).toEqual([
      { endpointId: a, organizationId, firstAttemptAt: first },
      { endpointId: b, organizationId, firstAttemptAt: first + 1000 },
    ]);
    const due = (endpointId: string, nowMs: number) =>
      dueDeliveries(kit.database, { endpointId, nowMs, limit: 2 });
    expect(due(a, first)).toHaveLength(2);
    expect(due(b, first)).toHaveLength(0);
    expect(due(b, first + 1000)).toHaveLength(2);
    expect(due(idle, first)).toEqual([]);
    expect(countDeliveries(kit.database)).toEqual({ pending: 5, paused: 1, oldestPendingAt: first });
  });

  test("is read from the index, however long a backlog is", () => {
    const { id } = addEndpoint("busy");
    const copies = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)";
    kit.finish(id);
    kit.database.sqlite.run("CREATE TEMP TABLE model AS SELECT * FROM events");
    kit.database.sqlite.run(
      `${copies} INSERT INTO events (id, transcription_id, endpoint_id, type, body, created_at) SELECT id || i, transcription_id, endpoint_id, type, body, created_at FROM model, n`,
    );
    kit.database.sqlite.run(
      `${copies} INSERT INTO deliveries (event_id, endpoint_id, state, next_attempt_at)
       SELECT id || i, endpoint_id, 'pending', created_at FROM model, n`,
    );
    expect(countDeliveries(kit.database).pending).toBe(50_001);
    addEndpoint("calm");
    const timed = (work: () => unknown) => {
      const started = performance.now();
      for (let round = 0; round < 20; round++) work();
      return performance.now() - started;
    };
    const looking = timed(() => {
      waitingEndpoints(kit.database);
      dueDeliveries(kit.database, { endpointId: id, nowMs: kit.clock.now(), limit: 4 });
    });
    expect(looking).toBeLessThan(timed(() => countDeliveries(kit.database)) / 4);
  });
});

describe("outcomes", () => {
  test("change pending deliveries only, and record every attempt", () => {
    const { id } = addEndpoint();
    const [one, two] = kit.finish(id, 2) as [string, string];
    const record = (eventId: string, state: "delivered" | "failed" | "pending", attempts = 0) =>
      recordOutcomes(kit.database, [outcomeOf(eventId, id, state, attempts)], kit.clock.now());
    record(one, "pending");
    record(one, "failed", 1);
    record(one, "delivered", 2);
    record(two, "delivered");
    record("evt_unknown", "delivered");
    const rows = listDeliveries(kit.database.store, { endpointId: id, limit: 10 });
    expect(rows.map(({ eventId, state, attempts }) => ({ eventId, state, attempts }))).toEqual([
      { eventId: two, state: "delivered", attempts: 1 },
      { eventId: one, state: "failed", attempts: 2 },
    ]);
    expect(kit.database.store.select().from(deliveryAttempts).all()).toHaveLength(4);
  });
});

test("old deliveries are removed with their attempts, in batches, and pending ones are kept", () => {
  const [a, b] = [addEndpoint("a").id, addEndpoint("b").id];
  const delivered = kit.finish(a, 5);
  const [late, failed, pending] = kit.finish(a, 3) as [string, string, string];
  const [paused] = kit.finish(b, 1) as [string];
  updateEndpoint(kit.database.store, b, { disabledAt: kit.clock.now() });
  const record = (ids: string[], state: "delivered" | "failed" | "pending") =>
    recordOutcomes(
      kit.database,
      ids.map((id) => outcomeOf(id, a, state, 0)),
      kit.clock.now(),
    );
  record(delivered, "delivered");
  record([failed], "failed");
  record([pending], "pending");
  kit.clock.advance(3 * DAY_MS);
  record([late], "delivered");
  const [young] = kit.finish(a, 1) as [string];
  record([young], "delivered");
  kit.clock.advance(28 * DAY_MS);

  const before = kit.clock.now() - 30 * DAY_MS;
  expect(removeOldDeliveries(kit.database.store, { nowMs: before, wrong: [] }, 4)).toBe(4);
  expect(removeOldDeliveries(kit.database.store, { nowMs: before, wrong: [] }, 4)).toBe(3);
  expect(removeOldDeliveries(kit.database.store, { nowMs: before, wrong: [] }, 4)).toBe(0);
  const left = kit.database.store.select({ id: deliveries.eventId }).from(deliveries).all();
  expect(left.map(({ id }) => id).sort()).toEqual([late, pending, young].sort());
  expect(kit.database.store.select().from(events).all()).toHaveLength(3);
  expect(kit.database.store.select().from(deliveryAttempts).all()).toHaveLength(3);
  expect(paused).toBeDefined();
});

test("a replaced secret signs until it expires", () => {
  const rotated = { secret: "new", previousSecret: "old", previousSecretExpiresAt: 100 };
  expect(validSecrets(rotated, 99)).toEqual(["new", "old"]);
  expect(validSecrets(rotated, 100)).toEqual(["new"]);
  expect(validSecrets({ secret: "only", previousSecret: null, previousSecretExpiresAt: null }, 0)).toEqual([
    "only",
  ]);
});
