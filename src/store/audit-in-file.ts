import type { Database as SqliteDatabase } from "bun:sqlite";
import type { Act } from "../domain/audit.ts";
import { entryAfter } from "./audit-log.ts";
import { hasTable, rowsOnce } from "./once.ts";

/** Writes an entry into the audit log of a database of any version, from the one on that has an audit log. */
export function recordIn(sqlite: SqliteDatabase, act: Act, nowMs: number): void {
  if (!hasTable(sqlite, "audit_log")) return;
  type Head = { sequence: number; hash: string; action: string; object: string | null };
  const [head] = rowsOnce<Head>(
    sqlite,
    "SELECT sequence, hash, action, object FROM audit_log ORDER BY sequence DESC LIMIT 1",
  );
  // An earlier try was interrupted right after its entry.
  if (head?.action === act.action && head.object === (act.object ?? null)) return;
  const entry = entryAfter(head, act, nowMs);
  rowsOnce(
    sqlite,
    `INSERT INTO audit_log (sequence, created_at, source, actor, via, action, object, organization_id, before, after,
       previous_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ...[entry.sequence, entry.createdAt, entry.source, entry.actor, entry.via, entry.action],
    ...[entry.object, entry.organizationId, entry.before, entry.after, entry.previousHash, entry.hash],
  );
}
