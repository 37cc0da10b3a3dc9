import { and, desc, eq, gte, lt, sql } from "drizzle-orm";
import type { Credit, LedgerKind } from "../domain/credit.ts";
import { AppError } from "../domain/errors.ts";
import { sha256Hex } from "../lib/sha256.ts";
import type { Store } from "./database.ts";
import { type Placeholders, prepared, preparedFor } from "./prepared.ts";
import { dailyCharges, ledger, organizations } from "./schema.ts";

/**
 * An entry of the append-only ledger (docs/decisions/money.md). Callers write inside `transaction()`, so that
 * entries, cached balances and the change of state are committed together.
 *
 * Each accepted transcription writes one `reserve` and, with its final state, one `release` of the same amount. At most
 * one `charge` follows. A free transcription writes both with 0 paise, so that the same rule holds for each
 * transcription. A charge of 0 is not written.
 */
export type LedgerEntry = typeof ledger.$inferSelect;

/** The previous hash of the first entry. */
export const GENESIS_HASH = "0".repeat(64);

/**
 * Computes the hash of an entry: SHA-256 over the previous hash and all fields, as a JSON list. Two different entries
 * never have the same list.
 */
export function entryHash(entry: Omit<LedgerEntry, "hash">): string {
  return sha256Hex(
    JSON.stringify([
      entry.previousHash,
      entry.sequence,
      entry.organizationId,
      entry.kind,
      entry.amountPaise,
      entry.transcriptionId,
      entry.note,
      entry.createdAt,
    ]),
  );
}

type NewEntry = {
  organizationId: string;
  kind: LedgerKind;
  amountPaise: number;
  transcriptionId?: string;
  note?: string;
  nowMs: number;
};

const selectHead = prepared((store: Store) =>
  store
    .select({ sequence: ledger.sequence, hash: ledger.hash })
    .from(ledger)
    .orderBy(desc(ledger.sequence))
    .limit(1)
    .prepare(),
);

const insertEntry = preparedFor((store: Store, row: Placeholders<LedgerEntry>) =>
  store.insert(ledger).values(row).prepare(),
);

function append(tx: Store, entry: NewEntry): LedgerEntry {
  const head = selectHead(tx).get();
  const fields = {
    sequence: (head?.sequence ?? 0) + 1,
    organizationId: entry.organizationId,
    kind: entry.kind,
    amountPaise: entry.amountPaise,
    transcriptionId: entry.transcriptionId ?? null,
    note: entry.note ?? null,
    createdAt: entry.nowMs,
    previousHash: head?.hash ?? GENESIS_HASH,
  };
  const row = { ...fields, hash: entryHash(fields) };
  insertEntry(tx, row).run(row);
  return row;
}

function requireAmount(name: string, paise: number): void {
  if (!Number.isSafeInteger(paise) || paise < 0)
    throw new RangeError(`${name} is not a whole amount: ${paise}`);
}

/**
 * Grants credit to an organization. A negative amount takes back a mistaken grant, up to the available credit.
 *
 * @param grant amount in whole paise, not 0
 * @throws AppError `not_found` for an unknown organization, `invalid_request` for an amount that is not valid,
 *   `insufficient_credits` when more is taken back than is available
 */
export function appendGrant(
  tx: Store,
  grant: { organizationId: string; amountPaise: number; note?: string; nowMs: number },
): LedgerEntry {
  const { organizationId, amountPaise } = grant;
  const credit = creditOf(tx, organizationId);
  if (!Number.isSafeInteger(amountPaise) || amountPaise === 0) {
    throw new AppError("invalid_request", {
      message: "The amount must be a whole, non-zero number of paise.",
      detail: "paise",
    });
  }
  if (!Number.isSafeInteger(credit.balancePaise + amountPaise)) {
    throw new AppError("invalid_request", { message: "The balance would be too large.", detail: "paise" });
  }
  if (credit.availablePaise + amountPaise < 0) throw new AppError("insufficient_credits");
  tx.update(organizations)
    .set({ balancePaise: credit.balancePaise + amountPaise })
    .where(eq(organizations.id, organizationId))
    .run();
  return append(tx, { ...grant, kind: "grant" });
}

const updateReserved = prepared((store: Store) => {
  const amountPaise = sql.placeholder("amountPaise");
  return store
    .update(organizations)
    .set({ reservedPaise: sql`${organizations.reservedPaise} + ${amountPaise}` })
    .where(
      and(
        eq(organizations.id, sql.placeholder("organizationId")),
        sql`${organizations.balancePaise} - ${organizations.reservedPaise} >= ${amountPaise}`,
      ),
    )
    .returning({ id: organizations.id })
    .prepare();
});

/**
 * Reserves credit for a transcription that is being accepted.
 *
 * @param reservation amount in whole paise, 0 included
 * @throws AppError `insufficient_credits` when the amount is more than what is available
 */
export function reserveCredit(
  tx: Store,
  reservation: { organizationId: string; transcriptionId: string; amountPaise: number; nowMs: number },
): void {
  const { organizationId, amountPaise } = reservation;
  requireAmount("the reservation", amountPaise);
  const reserved = updateReserved(tx).get({ organizationId, amountPaise });
  if (!reserved) throw new AppError("insufficient_credits");
  append(tx, { ...reservation, kind: "reserve" });
}

const updateSettled = prepared((store: Store) =>
  store
    .update(organizations)
    .set({
      reservedPaise: sql`${organizations.reservedPaise} - ${sql.placeholder("amountPaise")}`,
      balancePaise: sql`${organizations.balancePaise} - ${sql.placeholder("chargePaise")}`,
    })
    .where(eq(organizations.id, sql.placeholder("organizationId")))
    .prepare(),
);

const addToDay = prepared((store: Store) => {
  const chargePaise = sql.placeholder("chargePaise");
  return store
    .insert(dailyCharges)
    .values({
      organizationId: sql.placeholder("organizationId"),
      day: sql.placeholder("day"),
      chargedPaise: chargePaise,
    })
    .onConflictDoUpdate({
      target: [dailyCharges.organizationId, dailyCharges.day],
      set: { chargedPaise: sql`${dailyCharges.chargedPaise} + ${chargePaise}` },
    })
    .prepare();
});

/**
 * Ends the reservation of a transcription that reaches its final state: writes one release, and one charge unless it
 * is free.
 *
 * @param settlement `chargePaise` 0 for free work; `day` such as `2026-11-21`, in the billing time zone
 * @throws Error when there is no open reservation, or the charge is larger than it: both are faults of the program
 */
export function settleReservation(
  tx: Store,
  settlement: {
    organizationId: string;
    transcriptionId: string;
    chargePaise: number;
    nowMs: number;
    day: string;
  },
): void {
  const { organizationId, transcriptionId, chargePaise, nowMs, day } = settlement;
  requireAmount("the charge", chargePaise);
  const reservation = findEntry(tx, transcriptionId, "reserve");
  if (reservation?.organizationId !== organizationId) {
    throw new Error(`${transcriptionId} has no reservation of ${organizationId}`);
  }
  const amountPaise = reservation.amountPaise;
  if (findEntry(tx, transcriptionId, "release")) throw new Error(`${transcriptionId} is settled already`);
  if (chargePaise > amountPaise) {
    throw new Error(
      `${transcriptionId}: a charge of ${chargePaise} exceeds the reservation of ${amountPaise}`,
    );
  }
  updateSettled(tx).run({ organizationId, amountPaise, chargePaise });
  const entry = { organizationId, transcriptionId, nowMs };
  append(tx, { ...entry, kind: "release", amountPaise });
  if (chargePaise === 0) return;
  append(tx, { ...entry, kind: "charge", amountPaise: chargePaise });
  addToDay(tx).run({ organizationId, day, chargePaise });
}

/** Lists the entries of a transcription, oldest first: one reservation, and later its release and its charge. */
export function listEntriesOf(store: Store, transcriptionId: string): LedgerEntry[] {
  return store
    .select()
    .from(ledger)
    .where(eq(ledger.transcriptionId, transcriptionId))
    .orderBy(ledger.sequence)
    .all();
}

const selectEntry = prepared((store: Store) =>
  store
    .select()
    .from(ledger)
    .where(
      and(
        eq(ledger.transcriptionId, sql.placeholder("transcriptionId")),
        eq(ledger.kind, sql.placeholder("kind")),
      ),
    )
    .prepare(),
);

function findEntry(store: Store, transcriptionId: string, kind: LedgerKind): LedgerEntry | undefined {
  return selectEntry(store).get({ transcriptionId, kind });
}

/**
 * Returns an organization's credit, whole paise.
 *
 * @throws AppError `not_found`
 */
export function creditOf(store: Store, organizationId: string): Credit {
  const row = store
    .select({ balancePaise: organizations.balancePaise, reservedPaise: organizations.reservedPaise })
    .from(organizations)
    .where(eq(organizations.id, organizationId))
    .get();
  if (!row) throw new AppError("not_found", { message: "There is no such organization." });
  return { ...row, availablePaise: row.balancePaise - row.reservedPaise };
}

/** Returns the charges of one calendar day of the billing time zone, whole paise. */
export function chargedOnDay(store: Store, organizationId: string, day: string): number {
  const row = store
    .select({ chargedPaise: dailyCharges.chargedPaise })
    .from(dailyCharges)
    .where(and(eq(dailyCharges.organizationId, organizationId), eq(dailyCharges.day, day)))
    .get();
  return row?.chargedPaise ?? 0;
}

/**
 * Lists a page of an organization's entries, newest first.
 *
 * @param page `after`: the sequence number of the last entry of the page before
 */
export function listLedger(
  store: Store,
  organizationId: string,
  page: { limit: number; after?: number },
): { data: LedgerEntry[]; next: number | null } {
  const rows = store
    .select()
    .from(ledger)
    .where(
      and(
        eq(ledger.organizationId, organizationId),
        page.after === undefined ? undefined : lt(ledger.sequence, page.after),
      ),
    )
    .orderBy(desc(ledger.sequence))
    .limit(page.limit + 1)
    .all();
  const data = rows.slice(0, page.limit);
  return { data, next: rows.length > page.limit ? (data.at(-1)?.sequence ?? null) : null };
}

/** Sums up the grants within a time by organization, whole paise; `fromMs` included, `toMs` not. */
export function sumGrants(store: Store, range: { fromMs: number; toMs: number }): Map<string, number> {
  const rows = store
    .select({ organizationId: ledger.organizationId, paise: sql<number>`sum(${ledger.amountPaise})` })
    .from(ledger)
    .where(
      and(eq(ledger.kind, "grant"), gte(ledger.createdAt, range.fromMs), lt(ledger.createdAt, range.toMs)),
    )
    .groupBy(ledger.organizationId)
    .all();
  return new Map(rows.map(({ organizationId, paise }) => [organizationId, paise]));
}
