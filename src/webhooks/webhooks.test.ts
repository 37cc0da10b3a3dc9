import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { AppError } from "../domain/errors.ts";
import { EVENT_TYPES } from "../domain/webhook.ts";
import { isId, newId } from "../lib/ids.ts";
import { isAuthentic, openWebhookKit, startReceiver } from "../testing/kits/webhook-kit.ts";
import { findEndpoint, updateEndpoint, validSecrets } from "./event-rows.ts";
import {
  MAX_ENDPOINTS_PER_PROJECT,
  ROTATION_MS,
  requireEndpoint,
  TEST_TRANSCRIPTION_ID,
} from "./webhooks.ts";

let kit: ReturnType<typeof openWebhookKit>;
beforeEach(() => {
  kit = openWebhookKit();
});
afterEach(() => kit.close());

const URL_GIVEN = "https://hooks.example/Path?q=1";
const register = (url = URL_GIVEN) => kit.service.register(kit.caller, { url });
const disable = (id: string) =>
  updateEndpoint(kit.database.store, id, { disabledAt: kit.clock.now(), disabledReason: "410" });

function refusal(work: () => unknown): Partial<AppError> {
  try {
    work();
  } catch (error) {
    if (error instanceof AppError) return { code: error.code, detail: error.detail };
    throw error;
  }
  return {};
}

describe("registration", () => {
  test("keeps the address as given and creates a new secret", () => {
    const one = register();
    expect(one).toMatchObject({ url: URL_GIVEN, disabledAt: null, ...kit.caller });
    expect(isId("webhookEndpoint", one.id)).toBe(true);
    expect(register().secret).not.toBe(one.secret);
    expect(refusal(() => register("https://169.254.169.254/"))).toEqual({
      code: "invalid_request",
      detail: "url",
    });
    expect(kit.service.list()).toHaveLength(2);
    expect(JSON.stringify(kit.service.list())).not.toContain("whsec_");
  });

  test("is limited for each project", () => {
    for (let index = 0; index < MAX_ENDPOINTS_PER_PROJECT; index++) register();
    expect(refusal(register).code).toBe("conflict");
  });
});

describe("an endpoint named by a transcription", () => {
  const require = (id: string, caller = kit.caller) =>
    refusal(() => requireEndpoint(kit.database.store, caller, id));
  const detail = "webhook_endpoint_id";

  test("must exist, belong to the project, and be able to receive", () => {
    const { id } = register();
    expect(require(id)).toEqual({});
    expect(require(newId("webhookEndpoint", 0))).toEqual({ code: "not_found", detail });
    expect(require(id, { ...kit.caller, projectId: "prj_other" })).toEqual({ code: "forbidden", detail });
    expect(require(id, { organizationId: "org_x", projectId: "prj_x" })).toEqual({
      code: "not_found",
      detail,
    });
    disable(id);
    expect(require(id)).toEqual({ code: "conflict", detail });
    kit.service.enable(id);
    expect(require(id)).toEqual({});
    kit.service.remove(id);
    expect(require(id)).toEqual({ code: "not_found", detail });
  });
});

describe("actions of admins", () => {
  test("disabling an endpoint lets its events wait with the reason, and they are due once it is enabled", () => {
    const { id } = register();
    const [before] = kit.finish(id);
    disable(id);
    const [after] = kit.finish(id);
    for (const row of kit.service.deliveries({ endpointId: id })) {
      expect(row).toMatchObject({ state: "pending", reason: "waiting until the endpoint is enabled (410)" });
    }
    expect(refusal(() => kit.service.redeliver(after ?? "")).code).toBe("conflict");
    kit.clock.advance(5000);
    kit.service.enable(id);
    expect(kit.service.deliveries().map(({ eventId, nextAttemptAt }) => [eventId, nextAttemptAt])).toEqual([
      [after, kit.clock.now()],
      [before, kit.clock.now()],
    ] as never);
    expect(refusal(() => kit.service.enable("whe_none")).code).toBe("not_found");
  });

  test("removing an endpoint ends its waiting events, deletes the secrets and cannot be undone", () => {
    const { id } = register();
    kit.finish(id, 2);
    kit.service.remove(id);
    expect(kit.service.list()).toEqual([]);
    expect(findEndpoint(kit.database.store, id)?.secret).toBe("");
    const [late] = kit.finish(id);
    for (const row of kit.service.deliveries({ endpointId: id })) {
      expect(row.state).toBe("failed");
      expect(row.reason).toContain("removed");
    }
    expect(refusal(() => kit.service.redeliver(late ?? "")).code).toBe("conflict");
    for (const again of [kit.service.remove, kit.service.enable, kit.service.rotate]) {
      expect(refusal(() => again(id)).code).toBe("not_found");
    }
  });

  test("redelivery starts again, for one event or for all that failed", () => {
    const { id } = register();
    const ids = kit.finish(id, 3);
    kit.database.sqlite.run(
      "UPDATE deliveries SET state = 'failed', attempts = 10, failed_at = 1, next_attempt_at = NULL",
    );
    const expected = {
      state: "pending",
      attempts: 0,
      nextAttemptAt: kit.clock.now(),
      failedAt: null,
    } as const;
    expect(kit.service.redeliver(ids[1] ?? "")).toMatchObject(expected);
    expect(kit.service.list()[0]).toMatchObject({ pending: 1, failed: 2 });
    expect(kit.service.redeliverFailed(id)).toBe(2);
    expect(kit.service.delivery(ids[0] ?? "")).toMatchObject({ ...expected, history: [] });
    expect(refusal(() => kit.service.redeliver("evt_none")).code).toBe("not_found");
    expect(refusal(() => kit.service.delivery("evt_none")).code).toBe("not_found");
    expect(refusal(() => kit.service.deliveries({ endpointId: "whe_none" })).code).toBe("not_found");
  });

  test("rotation keeps the previous secret valid for a day, or not at all", () => {
    const { id, secret } = register();
    const secrets = () => {
      const row = findEndpoint(kit.database.store, id);
      return row ? validSecrets(row, kit.clock.now()) : [];
    };
    const rotated = kit.service.rotate(id);
    expect(secrets()).toEqual([rotated.secret, secret]);
    kit.clock.advance(ROTATION_MS - 1);
    expect(secrets()).toHaveLength(2);
    kit.clock.advance(1);
    expect(secrets()).toEqual([rotated.secret]);
    const replaced = kit.service.rotate(id, 0);
    expect(secrets()).toEqual([replaced.secret]);
  });

  test.each(EVENT_TYPES)(
    "a test delivery of %s is signed, refers to no transcription, and is not stored",
    async (type) => {
      const receiver = startReceiver();
      const { id, secret } = register(receiver.url);
      disable(id);
      expect(await kit.service.test(id, type)).toMatchObject({ status: 204, error: null });
      await receiver.stop();
      const [received] = receiver.received;
      expect(received && isAuthentic(received, secret)).toBe(true);
      expect(JSON.parse(received?.body ?? "")).toMatchObject({ type, data: { id: TEST_TRANSCRIPTION_ID } });
      expect(kit.service.deliveries()).toEqual([]);
    },
  );

  test("deliveries are listed in pages, newest first, and removed after their time", async () => {
    const { id } = register();
    const ids = kit.finish(id, 5).reverse();
    const first = kit.service.deliveries({ limit: 3 }).map(({ eventId }) => eventId);
    const rest = kit.service.deliveries({ limit: 3, after: first[2] ?? "" }).map(({ eventId }) => eventId);
    expect([...first, ...rest]).toEqual(ids);
    expect(kit.service.deliveries({ state: "failed" })).toEqual([]);
    kit.database.sqlite.run("UPDATE deliveries SET state = 'delivered', delivered_at = ?", [kit.clock.now()]);
    kit.clock.advance(30 * 86_400_000);
    expect(await kit.service.removeOld({ nowMs: kit.clock.now(), wrong: [] })).toBe(0);
    kit.clock.advance(1);
    expect(await kit.service.removeOld({ nowMs: kit.clock.now(), wrong: [] })).toBe(5);
    expect(kit.service.deliveries()).toEqual([]);
  });
});
