import type { SQLQueryBindings, Database as SqliteDatabase } from "bun:sqlite";
import { existsSync } from "node:fs";
import type { Act, AuditAction } from "../domain/audit.ts";
import { recordIn } from "./audit-in-file.ts";
import { rowsOnce } from "./once.ts";

/**
 * A restored database is from before some keys were revoked and organizations were disabled. These functions bring what
 * the previous database has closed into the copy that is about to take its place. Both may be of any version, so they
 * are read and written with plain SQL, and a column that one of them lacks is left out.
 */

/** What is closed in the restored database, because it was closed in the previous one. */
export type Closing = {
  kind: "api_key" | "organization" | "webhook_endpoint" | "fleet_worker";
  /** The identifier; of a worker, its name. */
  id: string;
  organization_id: string;
  /** `secret_is_old`: the newer secret of the endpoint is not known. */
  change: "revoked" | "disabled" | "purge_started" | "removed" | "secret_rotated" | "secret_is_old";
};

/** A change from after the backup, as a file beside the database tells it. */
export type LaterChange = { action: AuditAction; target: string; atMs: number };

/** Links and sessions of the console that a restore has ended. */
export type EndedSessions = { links: number; sessions: number };

type Rule = {
  closes: Pick<Closing, "kind" | "change">;
  action: AuditAction;
  table: string;
  /** Columns that both databases must have. */
  columns: string[];
  /** Compares the row `now` of the previous database with the row `old` of the restored one. */
  differs: string;
  /** Assignments, with the row `now` of the previous database. */
  set: string;
  organization: string;
  /** The column that a later change sets to its time; left out: a file does not tell enough to close it. */
  time?: string;
};

const KEY_ORGANIZATION = "(SELECT organization_id FROM projects WHERE projects.id = old.project_id)";
const SECRETS = ["secret", "previous_secret", "previous_secret_expires_at"];

/** In this order: what is removed needs no further change. */
const RULES: readonly Rule[] = [
  {
    closes: { kind: "api_key", change: "revoked" },
    ...{ action: "key.revoke", table: "api_keys", columns: ["revoked_at"] },
    differs: "old.hash = now.hash AND old.revoked_at IS NULL AND now.revoked_at IS NOT NULL",
    set: "revoked_at = now.revoked_at",
    time: "revoked_at",
    organization: KEY_ORGANIZATION,
  },
  {
    closes: { kind: "organization", change: "purge_started" },
    ...{ action: "organization.disable", table: "organizations", columns: ["purge_started_at", "purged_at"] },
    differs: "old.purge_started_at IS NULL AND now.purge_started_at IS NOT NULL",
    // The server and `shruti orgs purge` complete it.
    set: "purge_started_at = now.purge_started_at, purged_at = NULL, disabled_at = coalesce(old.disabled_at, now.disabled_at, now.purge_started_at)",
    organization: "old.id",
  },
  {
    closes: { kind: "organization", change: "disabled" },
    ...{ action: "organization.disable", table: "organizations", columns: ["disabled_at"] },
    differs: "old.disabled_at IS NULL AND now.disabled_at IS NOT NULL",
    set: "disabled_at = now.disabled_at",
    time: "disabled_at",
    organization: "old.id",
  },
  {
    closes: { kind: "webhook_endpoint", change: "removed" },
    ...{ action: "webhook.remove", table: "webhook_endpoints", columns: ["removed_at"] },
    differs: "old.removed_at IS NULL AND now.removed_at IS NOT NULL",
    set: "removed_at = now.removed_at",
    time: "removed_at",
    organization: "old.organization_id",
  },
  {
    closes: { kind: "webhook_endpoint", change: "disabled" },
    ...{ action: "webhook.disable", table: "webhook_endpoints", columns: ["disabled_at", "disabled_reason"] },
    differs: "old.disabled_at IS NULL AND now.disabled_at IS NOT NULL AND old.removed_at IS NULL",
    set: "disabled_at = now.disabled_at, disabled_reason = now.disabled_reason",
    time: "disabled_at",
    organization: "old.organization_id",
  },
  {
    closes: { kind: "webhook_endpoint", change: "secret_rotated" },
    ...{ action: "webhook.rotate", table: "webhook_endpoints", columns: SECRETS },
    differs: "old.secret <> now.secret AND old.removed_at IS NULL",
    set: SECRETS.map((name) => `${name} = now.${name}`).join(", "),
    organization: "old.organization_id",
  },
];

/**
 * Closes in a database what another one has closed, with entries of the audit log. The caller holds a transaction.
 *
 * @param restored the connection to the database; `previous` is attached to it under that name
 */
export function carryClosingsOver(restored: SqliteDatabase, nowMs: number): Closing[] {
  return RULES.flatMap((rule) => applyRule(restored, rule, nowMs));
}

function applyRule(restored: SqliteDatabase, rule: Rule, nowMs: number): Closing[] {
  const { table, columns, differs, set, organization } = rule;
  if (!columns.every((column) => ["main", "previous"].every((name) => has(restored, name, table, column))))
    return [];
  const closed = rowsOnce<{ id: string; organization_id: string | null }>(
    restored,
    `SELECT old.id AS id, ${organization} AS organization_id
     FROM main.${table} AS old JOIN previous.${table} AS now ON now.id = old.id WHERE ${differs} ORDER BY old.id`,
  );
  if (closed.length === 0) return [];
  rowsOnce(
    restored,
    `UPDATE main.${table} AS old SET ${set} FROM previous.${table} AS now WHERE now.id = old.id AND ${differs}`,
  );
  return closed.map(({ id, organization_id }) => {
    const closing = { ...rule.closes, id, organization_id: organization_id ?? "" };
    recordIn(restored, actOf(rule.action, closing), nowMs);
    return closing;
  });
}

/**
 * Closes in a database what was closed after its backup, with entries of the audit log. The caller holds a transaction.
 * What is closed already, or is not there, is left out. A newer secret of an endpoint is not known, so it is only named.
 */
export function closeLater(
  sqlite: SqliteDatabase,
  changes: readonly LaterChange[],
  nowMs: number,
): Closing[] {
  return changes.flatMap((change) => closeOne(sqlite, change, nowMs));
}

function closeOne(sqlite: SqliteDatabase, { action, target, atMs }: LaterChange, nowMs: number): Closing[] {
  if (action === "webhook.rotate") {
    const sql = "SELECT organization_id FROM webhook_endpoints WHERE id = ? AND removed_at IS NULL";
    const [row] = rowsOnce<{ organization_id: string }>(sqlite, sql, target);
    return row ? [{ kind: "webhook_endpoint", change: "secret_is_old", id: target, ...row }] : [];
  }
  const rule = RULES.find((each) => each.action === action && each.time !== undefined);
  if (!rule) return [];
  const { closes, table, time, organization } = rule;
  const [row] = rowsOnce<{ organization_id: string | null }>(
    sqlite,
    `SELECT ${organization} AS organization_id FROM ${table} AS old WHERE id = ? AND ${time} IS NULL`,
    target,
  );
  if (!row) return [];
  rowsOnce(sqlite, `UPDATE ${table} SET ${time} = ? WHERE id = ? AND ${time} IS NULL`, atMs, target);
  const closing: Closing = { ...closes, id: target, organization_id: row.organization_id ?? "" };
  recordIn(sqlite, actOf(action, closing), nowMs);
  return [closing];
}

const actOf = (action: AuditAction, { id, organization_id, change }: Closing): Act => ({
  ...{ action, object: id, after: { change, restored: true } },
  ...(organization_id === "" ? {} : { organizationId: organization_id }),
});

function has(sqlite: SqliteDatabase, database: string, table: string, column: string): boolean {
  const sql = "SELECT 1 FROM pragma_table_info(?, ?) WHERE name = ?";
  return rowsOnce(sqlite, sql, table, database, column).length > 0;
}

/** Ends all links and sessions of the console. @returns how many had not expired */
export function endSessionsIn(sqlite: SqliteDatabase, nowMs: number): EndedSessions {
  const ended = { links: 0, sessions: 0 };
  if (!has(sqlite, "main", "console_secrets", "hash")) return ended;
  const rows = rowsOnce<{ kind: string; count: number }>(
    sqlite,
    "SELECT kind, count(*) AS count FROM console_secrets WHERE expires_at > ? GROUP BY kind",
    nowMs,
  );
  for (const { kind, count } of rows) ended[kind === "link" ? "links" : "sessions"] += count;
  rowsOnce(sqlite, "DELETE FROM console_secrets");
  if (ended.links + ended.sessions > 0) recordIn(sqlite, { action: "session.end_all", after: ended }, nowMs);
  return ended;
}

/**
 * Reports whether a database is a later state of the restored one: it has the newest entry of the restored database's
 * audit log, or, in a version without an audit log, of its ledger. Then it knows all that was closed since.
 */
export function isLaterState(restored: SqliteDatabase, path: string): boolean {
  if (!existsSync(path)) return false;
  try {
    attach(restored, path);
    try {
      for (const table of ["audit_log", "ledger"]) {
        const [head] = newest(restored, "main", table, []);
        if (head) return newest(restored, "previous", table, [head.sequence])[0]?.hash === head.hash;
      }
      return false;
    } finally {
      rowsOnce(restored, "DETACH previous");
    }
  } catch {
    // It cannot be read, so it proves nothing.
    return false;
  }
}

/** Attaches a database, which is only read, under the name `previous`. @throws SQLite's error */
export function attach(restored: SqliteDatabase, path: string): void {
  rowsOnce(restored, "ATTACH ? AS previous", path);
}

function newest(
  sqlite: SqliteDatabase,
  database: string,
  table: string,
  at: SQLQueryBindings[],
): { sequence: number; hash: string }[] {
  if (!has(sqlite, database, table, "hash")) return [];
  const where = at.length > 0 ? "WHERE sequence = ?" : "";
  const sql = `SELECT sequence, hash FROM ${database}.${table} ${where} ORDER BY sequence DESC LIMIT 1`;
  return rowsOnce(sqlite, sql, ...at);
}
