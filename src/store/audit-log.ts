import { and, desc, eq, gte, inArray, lt, sql } from "drizzle-orm";
import type { Act, AuditAction, AuditValues } from "../domain/audit.ts";
import { type Actor, type ActorSource, currentActor } from "../lib/actor.ts";
import { cutSecrets } from "../lib/secrets.ts";
import { sha256Hex } from "../lib/sha256.ts";
import type { Store } from "./database.ts";
import { GENESIS_HASH } from "./ledger.ts";
import { auditLog } from "./schema.ts";

/** An entry of the audit log. Like the ledger, the log is append-only and chained by hash. */
export type AuditEntry = typeof auditLog.$inferSelect;

/** Longest text of a value. */
const MAX_TEXT = 300;
const PAGE = 2000;
const MAX_PROBLEMS = 100;

/**
 * Writes an entry of the audit log, in the transaction that makes the change. The actor is the one on whose behalf the
 * code runs: a command's, a request's or a console session's is set where it begins (`runAs` of lib/actor.ts), so that
 * callers name only what they do:
 *
 *     transaction(store, (tx) => {
 *       const row = markOrganizationDisabled(tx, id, nowMs);
 *       if (row) recordAct(tx, { action: "organization.disable", object: id, organizationId: id }, nowMs);
 *     });
 *
 * An act that changes only files is recorded in a transaction of its own, right after it. What changed nothing has no
 * entry. `before` and `after` hold small values and never a secret; what looks like one is cut.
 *
 * @param actor left out: `currentActor()`
 */
export function recordAct(tx: Store, act: Act, nowMs: number, actor: Actor = currentActor()): AuditEntry {
  const head = auditHead(tx);
  const row = entryAfter(head, act, nowMs, actor);
  tx.insert(auditLog).values(row).run();
  return row;
}

/** Makes the entry that follows the newest one; `recordAct` writes it. */
export function entryAfter(
  head: Pick<AuditEntry, "sequence" | "hash"> | undefined,
  act: Act,
  nowMs: number,
  actor: Actor = currentActor(),
): AuditEntry {
  const fields = {
    sequence: (head?.sequence ?? 0) + 1,
    createdAt: nowMs,
    source: actor.source,
    actor: shown(actor.name),
    via: actor.via === null ? null : shown(actor.via),
    action: act.action,
    object: act.object === undefined ? null : shown(act.object),
    organizationId: act.organizationId ?? null,
    before: valuesOf(act.before),
    after: valuesOf(act.after),
    previousHash: head?.hash ?? GENESIS_HASH,
  };
  return { ...fields, hash: auditHash(fields) };
}

/** Returns the values that differ, before and after; undefined when none does. */
export function differences(
  before: AuditValues,
  after: AuditValues,
): { before: AuditValues; after: AuditValues } | undefined {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => (before[name] ?? null) !== (after[name] ?? null),
  );
  if (names.length === 0) return undefined;
  const pick = (values: AuditValues) =>
    Object.fromEntries(names.map((name) => [name, values[name] ?? null] as const));
  return { before: pick(before), after: pick(after) };
}

function shown(text: string): string {
  return cutSecrets(text.slice(0, MAX_TEXT * 4)).slice(0, MAX_TEXT);
}

function valuesOf(values: AuditValues | undefined): string | null {
  if (values === undefined) return null;
  return JSON.stringify(values, (_, value) => (typeof value === "string" ? shown(value) : value));
}

/** Computes the hash of an entry: SHA-256 over the previous hash and all fields, as a JSON list. */
export function auditHash(entry: Omit<AuditEntry, "hash">): string {
  return sha256Hex(
    JSON.stringify([
      ...[entry.previousHash, entry.sequence, entry.createdAt, entry.source, entry.actor, entry.via],
      ...[entry.action, entry.object, entry.organizationId, entry.before, entry.after],
    ]),
  );
}

/** Which entries are listed. Times are epoch milliseconds; `toMs` is not included. */
export type AuditFilter = {
  organizationId?: string;
  object?: string;
  sources?: readonly ActorSource[];
  actor?: string;
  action?: AuditAction;
  fromMs?: number;
  toMs?: number;
};

function conditionsOf(filter: AuditFilter) {
  const { organizationId, object, sources, actor, action, fromMs, toMs } = filter;
  return [
    organizationId === undefined ? undefined : eq(auditLog.organizationId, organizationId),
    object === undefined ? undefined : eq(auditLog.object, object),
    sources === undefined ? undefined : inArray(auditLog.source, [...sources]),
    actor === undefined ? undefined : eq(auditLog.actor, actor),
    action === undefined ? undefined : eq(auditLog.action, action),
    fromMs === undefined ? undefined : gte(auditLog.createdAt, fromMs),
    toMs === undefined ? undefined : lt(auditLog.createdAt, toMs),
  ];
}

/** Lists a page of entries, newest first. @param page `after`: the number of the last entry of the page before */
export function listAudit(
  store: Store,
  filter: AuditFilter,
  page: { limit: number; after?: number },
): { data: AuditEntry[]; next: number | null } {
  const rows = store
    .select()
    .from(auditLog)
    .where(
      and(...conditionsOf(filter), page.after === undefined ? undefined : lt(auditLog.sequence, page.after)),
    )
    .orderBy(desc(auditLog.sequence))
    .limit(page.limit + 1)
    .all();
  const data = rows.slice(0, page.limit);
  return { data, next: rows.length > page.limit ? (data.at(-1)?.sequence ?? null) : null };
}

/** Iterates over entries, oldest first, page by page. */
export function* exportAudit(store: Store, filter: AuditFilter = {}): Generator<AuditEntry> {
  let after = -1;
  for (;;) {
    const page = store
      .select()
      .from(auditLog)
      .where(and(...conditionsOf(filter), sql`${auditLog.sequence} > ${after}`))
      .orderBy(auditLog.sequence)
      .limit(PAGE)
      .all();
    for (const entry of page) {
      yield entry;
      after = entry.sequence;
    }
    if (page.length < PAGE) return;
  }
}

/** An entry that was noted earlier, outside of the database. */
export type AuditAnchor = { sequence: number; hash: string };

export type AuditVerification = {
  ok: boolean;
  entries: number;
  /** The newest entry. When it is noted elsewhere, a later check proves that nothing up to it was rewritten. */
  head: AuditAnchor;
  /** The first problems; `problemCount` counts all. */
  problems: string[];
  problemCount: number;
};

/** An entry that the log must still have, and how it is known: `noted earlier`, or `signed at …`. */
export type ExpectedEntry = AuditAnchor & { known: string };

/** Returns the newest entry; undefined for an empty log. */
export function auditHead(store: Store): AuditAnchor | undefined {
  return store
    .select({ sequence: auditLog.sequence, hash: auditLog.hash })
    .from(auditLog)
    .orderBy(desc(auditLog.sequence))
    .limit(1)
    .get();
}

/** Reports whether the log has an entry with this number and this hash. */
export function hasAuditEntry(store: Store, { sequence, hash }: AuditAnchor): boolean {
  const found = store
    .select({ hash: auditLog.hash })
    .from(auditLog)
    .where(eq(auditLog.sequence, sequence))
    .get();
  return found?.hash === hash;
}

/** Checks the whole chain on one snapshot. @param expected entries that the log must still contain */
export function verifyAudit(store: Store, expected: readonly ExpectedEntry[] = []): AuditVerification {
  return store.transaction((tx) => verifyChain(tx as unknown as Store, expected), { behavior: "deferred" });
}

function verifyChain(store: Store, expected: readonly ExpectedEntry[]): AuditVerification {
  const problems: string[] = [];
  const missing = new Set(expected);
  const bySequence = Map.groupBy(expected, ({ sequence }) => sequence);
  let before: AuditEntry | undefined;
  let entries = 0;
  let problemCount = 0;
  const report = (problem: string) => {
    problemCount++;
    if (problems.length < MAX_PROBLEMS) problems.push(problem);
  };
  for (const entry of exportAudit(store)) {
    const next = (before?.sequence ?? 0) + 1;
    if (entry.sequence !== next) report(`entries ${next} to ${entry.sequence - 1} are missing`);
    else if (entry.previousHash !== (before?.hash ?? GENESIS_HASH))
      report(`entry ${entry.sequence} does not follow the one before it`);
    if (auditHash(entry) !== entry.hash) report(`entry ${entry.sequence} was altered`);
    for (const each of bySequence.get(entry.sequence) ?? [])
      if (each.hash === entry.hash) missing.delete(each);
    before = entry;
    entries++;
  }
  const head = { sequence: before?.sequence ?? 0, hash: before?.hash ?? GENESIS_HASH };
  for (const { sequence, known } of missing) {
    const end = sequence > head.sequence ? `: the log ends at entry ${head.sequence}` : "";
    report(`entry ${sequence} is not the one with the hash ${known}${end}`);
  }
  return { ok: problemCount === 0, entries, head, problems, problemCount };
}
