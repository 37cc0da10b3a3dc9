import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { ledgerEffect } from "../domain/credit.ts";
import { AppError } from "../domain/errors.ts";
import { chargePaise } from "../lib/money.ts";
import { accept, finish, insertLedgerOwner } from "../testing/programs/ledger-work.ts";
import { type Database, openDatabase, type Store, transaction } from "./database.ts";
import { appendGrant, creditOf, listLedger, reserveCredit } from "./ledger.ts";
import { auditLedger } from "./ledger-audit.ts";

const opened: Database[] = [];
afterEach(() => {
  for (const database of opened.splice(0)) database.close();
});

/** Makes a database with organizations `org_0`, `org_1`, …. */
function openWith(organizations = 1): Database {
  const database = openDatabase(":memory:");
  opened.push(database);
  for (let n = 0; n < organizations; n++) insertLedgerOwner(database, n);
  return database;
}

const grant = (database: Database, n: number, amountPaise: number) =>
  transaction(database.store, (tx) => appendGrant(tx, { organizationId: `org_${n}`, amountPaise, nowMs: 0 }));
const code = (run: () => unknown): string => {
  try {
    run();
    return "nothing thrown";
  } catch (error) {
    return error instanceof AppError ? error.code : String(error);
  }
};

describe("ledger", () => {
  test("reserves up to exactly the available credit", () => {
    const database = openWith();
    grant(database, 0, 100);
    transaction(database.store, (tx) => accept(tx, 0, "tr_1", 60));
    expect(code(() => transaction(database.store, (tx) => accept(tx, 0, "tr_2", 41)))).toBe(
      "insufficient_credits",
    );
    transaction(database.store, (tx) => accept(tx, 0, "tr_3", 40));
    expect(code(() => transaction(database.store, (tx) => accept(tx, 0, "tr_4", 1)))).toBe(
      "insufficient_credits",
    );
    expect(creditOf(database.store, "org_0")).toEqual({
      balancePaise: 100,
      reservedPaise: 100,
      availablePaise: 0,
    });
    expect(auditLedger(database.store)).toMatchObject({ ok: true, openReservations: 2, reservedPaise: 100 });
  });

  test("settles once: with a release, and with a charge when there is a price", () => {
    const database = openWith();
    grant(database, 0, 100);
    transaction(database.store, (tx) => accept(tx, 0, "tr_1", 60));
    transaction(database.store, (tx) => accept(tx, 0, "tr_2", 40));
    transaction(database.store, (tx) => finish(tx, 0, "tr_1", 59));
    transaction(database.store, (tx) => finish(tx, 0, "tr_2", 0));
    const { data } = listLedger(database.store, "org_0", { limit: 10 });
    expect(data.map(({ kind, amountPaise }) => [kind, amountPaise]).reverse()).toEqual([
      ["grant", 100],
      ["reserve", 60],
      ["reserve", 40],
      ["release", 60],
      ["charge", 59],
      ["release", 40],
    ]);
    expect(creditOf(database.store, "org_0")).toEqual({
      balancePaise: 41,
      reservedPaise: 0,
      availablePaise: 41,
    });
    expect(() => transaction(database.store, (tx) => finish(tx, 0, "tr_1", 1))).toThrow("settled already");
    expect(auditLedger(database.store)).toMatchObject({ ok: true, entries: 6, chargedPaise: 59 });
  });

  test("refuses a charge above the reservation, and a foreign or missing reservation", () => {
    const database = openWith(2);
    grant(database, 0, 100);
    transaction(database.store, (tx) => accept(tx, 0, "tr_1", 60));
    expect(() => transaction(database.store, (tx) => finish(tx, 0, "tr_1", 61))).toThrow("exceeds");
    expect(() => transaction(database.store, (tx) => finish(tx, 1, "tr_1", 1))).toThrow("no reservation");
    expect(() => transaction(database.store, (tx) => finish(tx, 0, "tr_9", 0))).toThrow("no reservation");
    expect(creditOf(database.store, "org_0").reservedPaise).toBe(60);
  });

  test("has a reservation and a release of 0 for free work", () => {
    const database = openWith();
    transaction(database.store, (tx) => accept(tx, 0, "tr_1", 0));
    expect(auditLedger(database.store)).toMatchObject({ ok: true, openReservations: 1 });
    transaction(database.store, (tx) => finish(tx, 0, "tr_1", 0));
    expect(auditLedger(database.store)).toMatchObject({ ok: true, openReservations: 0, entries: 2 });
  });

  test("takes a grant back only as far as credit is available", () => {
    const database = openWith();
    grant(database, 0, 100);
    transaction(database.store, (tx) => accept(tx, 0, "tr_1", 60));
    expect(code(() => grant(database, 0, -41))).toBe("insufficient_credits");
    grant(database, 0, -40);
    expect(creditOf(database.store, "org_0")).toEqual({
      balancePaise: 60,
      reservedPaise: 60,
      availablePaise: 0,
    });
    expect(code(() => grant(database, 0, 0))).toBe("invalid_request");
    expect(code(() => grant(database, 0, 1.5))).toBe("invalid_request");
    expect(code(() => grant(database, 0, Number.MAX_SAFE_INTEGER))).toBe("invalid_request");
    expect(code(() => grant(database, 7, 1))).toBe("not_found");
  });

  test("lists pages, newest first, and ends with null", () => {
    const database = openWith(2);
    for (let n = 1; n <= 5; n++) {
      grant(database, 0, n);
      grant(database, 1, 100);
    }
    const first = listLedger(database.store, "org_0", { limit: 3 });
    expect(first.data.map((entry) => entry.amountPaise)).toEqual([5, 4, 3]);
    const second = listLedger(database.store, "org_0", { limit: 3, after: first.next ?? 0 });
    expect(second.data.map((entry) => entry.amountPaise)).toEqual([2, 1]);
    expect(second.next).toBeNull();
    expect(listLedger(database.store, "org_0", { limit: 5 }).next).toBeNull();
  });

  test("gives the last paisa to one of two connections", () => {
    const folder = mkdtempSync(join(tmpdir(), "shruti-ledger-"));
    const path = join(folder, "shruti.db");
    const [left, right] = [openDatabase(path), openDatabase(path)];
    left.sqlite.run("INSERT INTO organizations (id, name, created_at) VALUES ('org_0', 'o', 0)");
    grant(left, 0, 1);
    const take = (database: Database, transcriptionId: string) =>
      code(() =>
        transaction(database.store, (tx) =>
          reserveCredit(tx, { organizationId: "org_0", transcriptionId, amountPaise: 1, nowMs: 0 }),
        ),
      );
    expect([take(left, "tr_1"), take(right, "tr_2")]).toEqual(["nothing thrown", "insufficient_credits"]);
    expect(creditOf(right.store, "org_0").availablePaise).toBe(0);
    left.close();
    right.close();
    rmSync(folder, { recursive: true });
  });
});

describe("audit", () => {
  /** Makes a ledger with one entry of each kind. */
  function lived(): Database {
    const database = openWith();
    grant(database, 0, 1000);
    for (const [id, reserved] of [
      ["tr_1", 60],
      ["tr_2", 40],
      ["tr_3", 30],
    ] as const) {
      transaction(database.store, (tx) => accept(tx, 0, id, reserved));
    }
    transaction(database.store, (tx) => finish(tx, 0, "tr_1", 50));
    transaction(database.store, (tx) => finish(tx, 0, "tr_2", 0));
    expect(auditLedger(database.store).problems).toEqual([]);
    return database;
  }

  const tampered: [string, string, string][] = [
    ["an amount", "UPDATE ledger SET amount_paise = 2000 WHERE sequence = 1", "entry 1 was altered"],
    ["a note", "UPDATE ledger SET note = 'x' WHERE sequence = 1", "entry 1 was altered"],
    ["a removed entry", "DELETE FROM ledger WHERE sequence = 2", "entries 2 to 2 are missing"],
    ["a removed end", "DELETE FROM ledger WHERE sequence = 7", "belongs to no release"],
    ["a foreign hash", "UPDATE ledger SET previous_hash = 'x' WHERE sequence = 3", "entry 3 does not follow"],
    ["a balance", "UPDATE organizations SET balance_paise = 951", "951 paise, its entries say 950"],
    ["a reservation", "UPDATE organizations SET reserved_paise = 0", "0 paise reserved, its entries say 30"],
    ["a day", "UPDATE daily_charges SET charged_paise = 49", "add up to 49 paise, its charges to 50"],
    [
      "a usage event",
      "UPDATE usage_events SET amount_paise = 49 WHERE transcription_id = 'tr_1'",
      "says 49 paise",
    ],
    [
      "a failure that was charged",
      "UPDATE usage_events SET state = 'failed' WHERE transcription_id = 'tr_1'",
      "failed, says 1000 ms and 50 paise, but a stream has sent the text of 0 ms",
    ],
    [
      "what a stream has sent",
      `UPDATE usage_events SET state = 'cancelled', billed_ms = 600 WHERE transcription_id = 'tr_2';
       UPDATE transcriptions SET streamed_ms = 600 WHERE id = 'tr_2'`,
      "cancelled, says 600 ms and 0 paise, but a stream has sent the text of 600 ms",
    ],
    ["a lost usage event", "DELETE FROM usage_events WHERE transcription_id = 'tr_2'", "has no usage event"],
    ["a reopened record", "UPDATE transcriptions SET state = 'queued' WHERE id = 'tr_1'", "released already"],
    ["an unsettled record", "UPDATE transcriptions SET state = 'failed' WHERE id = 'tr_3'", "still open"],
    ["another price", "UPDATE transcriptions SET reserved_paise = 1 WHERE id = 'tr_3'", "another's"],
    ["a lost record", "DELETE FROM transcriptions WHERE id = 'tr_3'", "belongs to no transcription"],
    ["a lost organization", "PRAGMA foreign_keys = OFF; DELETE FROM organizations", "does not exist"],
  ];
  for (const [name, statement, finding] of tampered) {
    test(`finds a change outside the program: ${name}`, () => {
      const database = lived();
      for (const [trigger] of database.sqlite
        .query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        .values() as [string][]) {
        database.sqlite.run(`DROP TRIGGER ${trigger}`);
      }
      database.sqlite.run(statement);
      const report = auditLedger(database.store);
      expect(report.ok).toBe(false);
      expect(report.problems.map(({ detail }) => detail).join("\n")).toContain(finding);
    });
  }

  test("finds a rewritten ledger by a hash that was noted earlier", () => {
    const database = lived();
    const { head } = auditLedger(database.store);
    grant(database, 0, 5);
    expect(auditLedger(database.store, head).ok).toBe(true);
    expect(auditLedger(database.store, { ...head, hash: "0".repeat(64) }).problems).toEqual([
      { check: "anchor", detail: `entry ${head.sequence} is not the one with the hash noted earlier` },
    ]);
  });
});

/** One step of the program, chosen by random numbers. */
type Step =
  | { kind: "grant"; organization: number; paise: number; crash: boolean }
  | { kind: "accept"; organization: number; price: number; billedMs: number; crash: boolean }
  | { kind: "finish"; pick: number; shareMs: number; crash: boolean };

const organization = fc.nat(2);
const crash = fc.boolean();
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    fc.record({
      kind: fc.constant("grant" as const),
      organization,
      paise: fc.integer({ min: -500, max: 5000 }),
      crash,
    }),
    fc.record({
      kind: fc.constant("accept" as const),
      organization,
      price: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 1_000_000 })),
      billedMs: fc.nat(20_000_000),
      crash,
    }),
    fc.record({ kind: fc.constant("finish" as const), pick: fc.nat(), shareMs: fc.nat(20_000_000), crash }),
  ),
  { maxLength: 60 },
);

/** The ledger as plain sums in big integers, without SQL. */
class Model {
  readonly granted = [0n, 0n, 0n];
  readonly charged = [0n, 0n, 0n];
  readonly open = new Map<
    string,
    { organization: number; price: bigint; billedMs: bigint; reserved: bigint }
  >();

  static price(price: bigint, ms: bigint): bigint {
    const exact = price * ms;
    return exact / 3_600_000n + (exact % 3_600_000n === 0n ? 0n : 1n);
  }

  reserved(n: number): bigint {
    return [...this.open.values()].reduce((sum, o) => sum + (o.organization === n ? o.reserved : 0n), 0n);
  }

  available(n: number): bigint {
    return (this.granted[n] ?? 0n) - (this.charged[n] ?? 0n) - this.reserved(n);
  }
}

describe("ledger against a model", () => {
  test("random grants, acceptances and endings agree with it, some of them interrupted by a crash", () => {
    fc.assert(
      fc.property(steps, (sequence) => {
        const database = openWith(3);
        const model = new Model();
        sequence.forEach((step, index) => {
          run(database, model, step, `tr_${index}`);
        });
        for (let n = 0; n < 3; n++) {
          const { balancePaise, reservedPaise } = creditOf(database.store, `org_${n}`);
          expect(BigInt(balancePaise)).toBe((model.granted[n] ?? 0n) - (model.charged[n] ?? 0n));
          expect(BigInt(reservedPaise)).toBe(model.reserved(n));
          const { data } = listLedger(database.store, `org_${n}`, { limit: 1000 });
          const effects = data.map(({ kind, amountPaise }) => ledgerEffect(kind, amountPaise));
          expect(effects.reduce((sum, { balance }) => sum + balance, 0)).toBe(balancePaise);
        }
        const report = auditLedger(database.store);
        expect(report.problems).toEqual([]);
        expect(report.openReservations).toBe(model.open.size);
        database.close();
      }),
      { numRuns: 60 },
    );
  });
});

class Crash extends Error {}

/** Does a step in the database, and in the model if it must have succeeded. */
function run(database: Database, model: Model, step: Step, id: string): void {
  const attempt = (work: (tx: Store) => void): string =>
    code(() =>
      transaction(database.store, (tx) => {
        work(tx);
        if (step.crash) throw new Crash("power cut");
      }),
    );
  const expected = (refusal: string | undefined) =>
    refusal ?? (step.crash ? "Error: power cut" : "nothing thrown");
  if (step.kind === "grant") {
    const n = step.organization;
    const outcome = attempt((tx) => {
      appendGrant(tx, { organizationId: `org_${n}`, amountPaise: step.paise, nowMs: 0 });
    });
    const tooMuch = model.available(n) + BigInt(step.paise) < 0n ? "insufficient_credits" : undefined;
    expect(outcome).toBe(expected(step.paise === 0 ? "invalid_request" : tooMuch));
    if (outcome === "nothing thrown") model.granted[n] = (model.granted[n] ?? 0n) + BigInt(step.paise);
    return;
  }
  if (step.kind === "accept") {
    const { organization: n, price, billedMs } = step;
    const reserved = Model.price(BigInt(price), BigInt(billedMs));
    const outcome = attempt((tx) => accept(tx, n, id, chargePaise(price, billedMs)));
    expect(outcome).toBe(expected(reserved > model.available(n) ? "insufficient_credits" : undefined));
    if (outcome === "nothing thrown") {
      model.open.set(id, { organization: n, price: BigInt(price), billedMs: BigInt(billedMs), reserved });
    }
    return;
  }
  const chosen = [...model.open].at(step.pick % Math.max(1, model.open.size));
  if (!chosen) return;
  const [transcriptionId, { organization: n, price, billedMs }] = chosen;
  const transcribedMs = BigInt(step.shareMs) % (billedMs + 1n);
  const charge = Model.price(price, transcribedMs);
  const day = step.shareMs % 2 === 0 ? "2026-11-21" : "2026-11-22";
  const outcome = attempt((tx) =>
    finish(tx, n, transcriptionId, chargePaise(Number(price), Number(transcribedMs)), day),
  );
  expect(outcome).toBe(expected(undefined));
  if (outcome === "nothing thrown") {
    model.charged[n] = (model.charged[n] ?? 0n) + charge;
    model.open.delete(transcriptionId);
  }
}
