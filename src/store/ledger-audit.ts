import { sql } from "drizzle-orm";
import { LEDGER_KINDS, type LedgerKind, ledgerEffect } from "../domain/credit.ts";
import { chargeSql } from "./billed-time.ts";
import type { Store } from "./database.ts";
import { entryHash, GENESIS_HASH, type LedgerEntry } from "./ledger.ts";

/** An entry of the chain that was noted earlier, outside of the database. */
export type LedgerAnchor = { sequence: number; hash: string };

export type AuditProblem = { check: string; detail: string };

export type AuditReport = {
  ok: boolean;
  entries: number;
  /** The newest entry. When it is noted elsewhere, a later audit proves that no entry up to it was rewritten. */
  head: LedgerAnchor;
  organizations: number;
  openReservations: number;
  grantedPaise: number;
  chargedPaise: number;
  reservedPaise: number;
  /** The first problems; `problemCount` counts all. */
  problems: AuditProblem[];
  problemCount: number;
};

const PAGE = 2000;
const MAX_PROBLEMS = 100;

type Totals = { balance: number; reserved: number; granted: number; charged: number };
type Report = (check: string, detail: string) => void;

/**
 * Checks the ledger and all that is derived from it, on one snapshot: the chain of hashes, the effect of each entry,
 * cached balances, pairs of reservation and release, charges against reservations, usage events and daily sums, that a
 * transcription without a result is charged for what a stream has sent and for nothing else, and that a transcription is
 * settled exactly when it is finished. Time grows with the entries, memory with the
 * organizations.
 *
 * @param anchor an entry that was noted earlier; the ledger must still contain it
 */
export function auditLedger(store: Store, anchor?: LedgerAnchor): AuditReport {
  return store.transaction((tx) => audit(tx as unknown as Store, anchor), { behavior: "deferred" });
}

function audit(store: Store, anchor: LedgerAnchor | undefined): AuditReport {
  const problems: AuditProblem[] = [];
  let problemCount = 0;
  const report: Report = (check, detail) => {
    problemCount++;
    if (problems.length < MAX_PROBLEMS) problems.push({ check, detail });
  };
  const totals = new Map<string, Totals>();
  const { head, entries } = auditChain(store, anchor, totals, report);
  auditCaches(store, totals, report);
  for (const { check, query } of PAIR_CHECKS) {
    for (const [detail] of store.values<[string]>(sql.raw(`${query} LIMIT ${MAX_PROBLEMS}`)))
      report(check, detail);
  }
  const [open] = store.values<[number]>(sql`
    SELECT (SELECT count(*) FROM ledger WHERE kind = 'reserve') - (SELECT count(*) FROM ledger WHERE kind = 'release')`);
  const sum = (of: (t: Totals) => number) => [...totals.values()].reduce((total, t) => total + of(t), 0);
  return {
    ok: problemCount === 0,
    entries,
    head,
    organizations: totals.size,
    openReservations: open?.[0] ?? 0,
    grantedPaise: sum((t) => t.granted),
    chargedPaise: sum((t) => t.charged),
    reservedPaise: sum((t) => t.reserved),
    problems,
    problemCount,
  };
}

/** Checks all entries in sequence: hashes, missing numbers and amounts. Adds them up in `totals`. */
function auditChain(
  store: Store,
  anchor: LedgerAnchor | undefined,
  totals: Map<string, Totals>,
  report: Report,
): { head: LedgerAnchor; entries: number } {
  let before: LedgerEntry | undefined;
  let entries = 0;
  let isAnchored = anchor === undefined;
  for (const entry of readEntries(store)) {
    auditLink(before, entry, report);
    auditEffect(before, entry, totals, report);
    if (anchor?.sequence === entry.sequence && anchor.hash === entry.hash) isAnchored = true;
    before = entry;
    entries++;
  }
  if (!isAnchored) report("anchor", `entry ${anchor?.sequence} is not the one with the hash noted earlier`);
  return { head: { sequence: before?.sequence ?? 0, hash: before?.hash ?? GENESIS_HASH }, entries };
}

function* readEntries(store: Store): Generator<LedgerEntry> {
  type Values = [number, string, LedgerKind, number, string | null, string | null, number, string, string];
  let after = -1;
  while (true) {
    const page = store.values<Values>(sql`
      SELECT sequence, organization_id, kind, amount_paise, transcription_id, note, created_at, previous_hash, hash
      FROM ledger WHERE sequence > ${after} ORDER BY sequence LIMIT ${PAGE}`);
    for (const [
      sequence,
      organizationId,
      kind,
      amountPaise,
      transcriptionId,
      note,
      createdAt,
      previousHash,
      hash,
    ] of page) {
      yield {
        sequence,
        organizationId,
        kind,
        amountPaise,
        transcriptionId,
        note,
        createdAt,
        previousHash,
        hash,
      };
      after = sequence;
    }
    if (page.length < PAGE) return;
  }
}

function auditLink(before: LedgerEntry | undefined, entry: LedgerEntry, report: Report): void {
  const expected = (before?.sequence ?? 0) + 1;
  if (entry.sequence !== expected)
    report("chain", `entries ${expected} to ${entry.sequence - 1} are missing`);
  else if (entry.previousHash !== (before?.hash ?? GENESIS_HASH)) {
    report("chain", `entry ${entry.sequence} does not follow the one before it`);
  }
  if (entryHash(entry) !== entry.hash) report("chain", `entry ${entry.sequence} was altered`);
}

function auditEffect(
  before: LedgerEntry | undefined,
  entry: LedgerEntry,
  totals: Map<string, Totals>,
  report: Report,
): void {
  const { sequence, kind, amountPaise } = entry;
  const total = totals.get(entry.organizationId) ?? { balance: 0, reserved: 0, granted: 0, charged: 0 };
  totals.set(entry.organizationId, total);
  if (!LEDGER_KINDS.includes(kind)) {
    report("effect", `entry ${sequence} has the unknown kind ${kind}`);
    return;
  }
  const isOfTranscription = kind !== "grant";
  if (isOfTranscription !== (entry.transcriptionId !== null)) {
    report("effect", `entry ${sequence}, a ${kind}, names ${entry.transcriptionId ?? "no transcription"}`);
  }
  const isAmount = kind === "grant" ? amountPaise !== 0 : amountPaise >= (kind === "charge" ? 1 : 0);
  if (!Number.isSafeInteger(amountPaise) || !isAmount) {
    report("effect", `entry ${sequence}, a ${kind}, has the amount ${amountPaise}`);
  }
  if (kind === "charge" && (before?.kind !== "release" || before.transcriptionId !== entry.transcriptionId)) {
    report("effect", `the charge ${sequence} does not follow the release of its transcription`);
  }
  const effect = ledgerEffect(kind, amountPaise);
  total.balance += effect.balance;
  total.reserved += effect.reserved;
  if (kind === "grant") total.granted += amountPaise;
  if (kind === "charge") total.charged += amountPaise;
  if (total.reserved < 0 || total.balance < total.reserved) {
    report(
      "effect",
      `entry ${sequence} leaves ${entry.organizationId} with ${total.balance} paise of which ${total.reserved} are reserved`,
    );
  }
}

/** Checks the sums that are stored besides the ledger: balances of organizations and charges by day. */
function auditCaches(store: Store, totals: Map<string, Totals>, report: Report): void {
  const rows = store.values<[string, number, number, number]>(sql`
    SELECT o.id, o.balance_paise, o.reserved_paise,
      (SELECT coalesce(sum(d.charged_paise), 0) FROM daily_charges d WHERE d.organization_id = o.id)
    FROM organizations o`);
  for (const [id, balance, reserved, charged] of rows) {
    const total = totals.get(id) ?? { balance: 0, reserved: 0, charged: 0 };
    if (balance !== total.balance)
      report("balance", `${id} has ${balance} paise, its entries say ${total.balance}`);
    if (reserved !== total.reserved) {
      report("balance", `${id} has ${reserved} paise reserved, its entries say ${total.reserved}`);
    }
    if (charged !== total.charged) {
      report(
        "daily charges",
        `the days of ${id} add up to ${charged} paise, its charges to ${total.charged}`,
      );
    }
  }
  const known = new Set(rows.map(([id]) => id));
  for (const id of totals.keys()) {
    if (!known.has(id)) report("balance", `entries belong to ${id}, which does not exist`);
  }
}

const FINAL = "('completed', 'partial', 'failed', 'cancelled')";

/** Each query selects the violations of one rule, with one sentence in each row. Each join uses a unique index. */
const PAIR_CHECKS: readonly { check: string; query: string }[] = [
  {
    check: "release",
    query: `
      SELECT 'the release ' || e.sequence || ' has no reservation of the same amount'
      FROM ledger e LEFT JOIN ledger r ON r.transcription_id = e.transcription_id AND r.kind = 'reserve'
      WHERE e.kind = 'release' AND (r.sequence IS NULL OR r.sequence > e.sequence
        OR r.amount_paise <> e.amount_paise OR r.organization_id <> e.organization_id)`,
  },
  {
    check: "charge",
    query: `
      SELECT 'the charge ' || e.sequence || ' is larger than its reservation, or has none'
      FROM ledger e LEFT JOIN ledger r ON r.transcription_id = e.transcription_id AND r.kind = 'reserve'
      WHERE e.kind = 'charge' AND (r.sequence IS NULL OR e.amount_paise > r.amount_paise
        OR r.organization_id <> e.organization_id)`,
  },
  {
    check: "usage",
    query: `
      SELECT 'the usage event ' || u.id || ' says ' || u.amount_paise || ' paise, the ledger ' || coalesce(c.amount_paise, 0)
      FROM usage_events u LEFT JOIN ledger c ON c.transcription_id = u.transcription_id AND c.kind = 'charge'
      WHERE u.amount_paise <> coalesce(c.amount_paise, 0) OR u.organization_id <> coalesce(c.organization_id, u.organization_id)`,
  },
  {
    check: "usage",
    query: `
      SELECT 'the usage event ' || u.id || ' belongs to no release'
      FROM usage_events u LEFT JOIN ledger e ON e.transcription_id = u.transcription_id AND e.kind = 'release'
      WHERE e.sequence IS NULL`,
  },
  {
    check: "streams",
    query: `
      SELECT 'the usage event ' || u.id || ', ' || u.state || ', says ' || u.billed_ms || ' ms and ' || u.amount_paise
        || ' paise, but a stream has sent the text of ' || t.streamed_ms || ' ms'
      FROM usage_events u JOIN transcriptions t ON t.id = u.transcription_id
      WHERE u.state IN ('failed', 'cancelled') AND (u.billed_ms <> t.streamed_ms
        OR u.amount_paise <> min(t.reserved_paise, ${chargeSql("t.price_paise_per_audio_hour", "t.streamed_ms")}))`,
  },
  {
    check: "usage",
    query: `
      SELECT 'the ' || e.kind || ' ' || e.sequence || ' has no usage event'
      FROM ledger e LEFT JOIN usage_events u ON u.transcription_id = e.transcription_id
      WHERE e.kind IN ('release', 'charge') AND u.id IS NULL`,
  },
  {
    check: "transcriptions",
    query: `
      SELECT t.id || ' is ' || t.state || CASE
        WHEN r.sequence IS NULL THEN ' and has no reservation'
        WHEN r.amount_paise <> t.reserved_paise OR r.organization_id <> t.organization_id THEN ' and its reservation is another''s'
        WHEN e.sequence IS NULL THEN ' and its reservation is still open'
        ELSE ' and its reservation is released already' END
      FROM transcriptions t
      LEFT JOIN ledger r ON r.transcription_id = t.id AND r.kind = 'reserve'
      LEFT JOIN ledger e ON e.transcription_id = t.id AND e.kind = 'release'
      WHERE NOT (t.state = 'queued' AND t.awaits_audio AND r.sequence IS NULL AND t.reserved_paise = 0)
        AND (r.sequence IS NULL OR r.amount_paise <> t.reserved_paise OR r.organization_id <> t.organization_id
        OR (t.state IN ${FINAL}) <> (e.sequence IS NOT NULL))`,
  },
  {
    check: "transcriptions",
    query: `
      SELECT 'the reservation ' || r.sequence || ' belongs to no transcription'
      FROM ledger r LEFT JOIN transcriptions t ON t.id = r.transcription_id
      WHERE r.kind = 'reserve' AND t.id IS NULL`,
  },
];
