import { and, eq, gt, lte } from "drizzle-orm";
import type { Store } from "./database.ts";
import { consoleSecrets } from "./schema.ts";

export type ConsoleSecretRow = typeof consoleSecrets.$inferSelect;
type Kind = ConsoleSecretRow["kind"];

/** Stores the hash of a link or session, and removes those that have expired. */
export function insertConsoleSecret(tx: Store, row: ConsoleSecretRow): void {
  tx.delete(consoleSecrets).where(lte(consoleSecrets.expiresAt, row.createdAt)).run();
  tx.insert(consoleSecrets).values(row).run();
}

/** What was made later than this is of a clock that was ahead: it would not end for as long. */
const MAX_AHEAD_MS = 5 * 60_000;

/** Finds what has not expired. */
export function findConsoleSecret(
  store: Store,
  kind: Kind,
  hash: string,
  nowMs: number,
): ConsoleSecretRow | undefined {
  return store
    .select()
    .from(consoleSecrets)
    .where(
      and(
        eq(consoleSecrets.hash, hash),
        eq(consoleSecrets.kind, kind),
        gt(consoleSecrets.expiresAt, nowMs),
        lte(consoleSecrets.createdAt, nowMs + MAX_AHEAD_MS),
      ),
    )
    .get();
}

/** Removes a link or session. Returns it as it was; undefined where there is none any more. */
export function takeConsoleSecret(
  tx: Store,
  kind: Kind,
  hash: string,
  nowMs: number,
): ConsoleSecretRow | undefined {
  const found = findConsoleSecret(tx, kind, hash, nowMs);
  if (found) tx.delete(consoleSecrets).where(eq(consoleSecrets.hash, hash)).run();
  return found;
}

/** Removes all links and sessions. Returns how many had not expired. */
export function deleteConsoleSecrets(tx: Store, nowMs: number): { links: number; sessions: number } {
  const rows = tx.delete(consoleSecrets).returning().all();
  const open = rows.filter(({ expiresAt }) => expiresAt > nowMs);
  const count = (kind: Kind) => open.filter((row) => row.kind === kind).length;
  return { links: count("link"), sessions: count("session") };
}
