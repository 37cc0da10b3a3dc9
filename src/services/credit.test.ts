import { afterEach, describe, expect, test } from "bun:test";
import { AppError } from "../domain/errors.ts";
import { dayIn } from "../lib/time.ts";
import { type Database, openDatabase, transaction } from "../store/database.ts";
import { reserveCredit, settleReservation } from "../store/ledger.ts";
import { requireOrganization } from "../store/organizations.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { createAccountService } from "./accounts.ts";
import { createCreditService } from "./credit.ts";

const opened: Database[] = [];
afterEach(() => {
  for (const database of opened.splice(0)) database.close();
});

/** Makes an organization with 10 000 paise that may spend 100 of them a day. The time is 23:30 in Kolkata. */
function setUp() {
  const database = openDatabase(":memory:");
  opened.push(database);
  const clock = manualClock(Date.UTC(2026, 10, 21, 18, 0, 0, 1));
  const config = testConfig({ billing: { daily_spend_limit_paise: 100 } });
  const credit = createCreditService({ database, clock, config });
  const accounts = createAccountService({ database, clock });
  const organizationId = accounts.createOrganization({ name: "o" }).id;
  credit.grant({ organizationId, amountPaise: 10_000, note: "start" });

  /** Accepts work. Returns the refusal, if any. */
  function spend(transcriptionId: string, amountPaise: number): AppError | undefined {
    try {
      transaction(database.store, (tx) => {
        credit.checkSpending(tx, requireOrganization(tx, organizationId), amountPaise, clock.now());
        reserveCredit(tx, { organizationId, transcriptionId, amountPaise, nowMs: clock.now() });
      });
      return undefined;
    } catch (error) {
      if (error instanceof AppError) return error;
      throw error;
    }
  }
  function settle(transcriptionId: string, chargePaise: number): void {
    const day = dayIn(config.billing.timezone, clock.now());
    transaction(database.store, (tx) =>
      settleReservation(tx, { organizationId, transcriptionId, chargePaise, nowMs: clock.now(), day }),
    );
  }
  return { database, clock, credit, accounts, organizationId, spend, settle };
}

describe("daily spending limit", () => {
  test("counts charges and open reservations, to the paisa", () => {
    const { spend, settle } = setUp();
    expect(spend("tr_1", 60)).toBeUndefined();
    expect(spend("tr_2", 41)?.code).toBe("spend_limit_reached");
    settle("tr_1", 50);
    expect(spend("tr_3", 51)?.code).toBe("spend_limit_reached");
    expect(spend("tr_4", 50)).toBeUndefined();
    expect(spend("tr_5", 1)?.code).toBe("spend_limit_reached");
    expect(spend("tr_6", 0)).toBeUndefined();
  });

  test("its Retry-After is the time until midnight of the billing time zone, when work is accepted again", () => {
    const { spend, settle, clock } = setUp();
    spend("tr_1", 100);
    settle("tr_1", 100);
    const refusal = spend("tr_2", 100);
    expect(refusal?.retryAfterSeconds).toBe(1800);
    clock.advance(1799 * 1000);
    expect(spend("tr_2", 100)?.retryAfterSeconds).toBe(1);
    clock.advance(1000);
    expect(spend("tr_2", 100)).toBeUndefined();
  });

  test("the organization's own limit overrides the config, and 0 means no limit", () => {
    const { spend, accounts, organizationId } = setUp();
    accounts.setOrganization(organizationId, { dailySpendLimitPaise: 0 });
    expect(spend("tr_1", 9000)).toBeUndefined();
    accounts.setOrganization(organizationId, { dailySpendLimitPaise: 9001 });
    expect(spend("tr_2", 2)?.code).toBe("spend_limit_reached");
    expect(spend("tr_3", 1)).toBeUndefined();
  });
});

describe("credit", () => {
  test("a price of 0 is accepted", () => {
    const { credit } = setUp();
    expect(credit.priceOf({ pricePaisePerAudioHour: 0 })).toBe(0);
    expect(credit.priceOf({ pricePaisePerAudioHour: null })).toBe(3000);
  });

  test("a grant returns its entry and the new credit, and the audit agrees", () => {
    const { credit, organizationId } = setUp();
    const { entry, credit: after } = credit.grant({ organizationId, amountPaise: -1, note: "correction" });
    expect(entry).toMatchObject({ kind: "grant", amountPaise: -1, note: "correction", sequence: 2 });
    expect(after).toEqual(credit.show(organizationId));
    expect(after.availablePaise).toBe(9999);
    expect(credit.ledger(organizationId, { limit: 1 })).toMatchObject({ data: [entry], next: 2 });
    expect(credit.audit()).toMatchObject({ ok: true, head: { sequence: 2, hash: entry.hash } });
  });

  test("an unknown organization has no credit, ledger or usage", () => {
    const { credit } = setUp();
    for (const ask of [
      credit.show,
      (id: string) => credit.ledger(id, { limit: 1 }),
      (id: string) => credit.exportUsage(id, {}),
    ]) {
      expect(() => ask("org_none")).toThrow(AppError);
    }
  });
});
