import { and, eq, gte, isNull, sql } from "drizzle-orm";
import type { Store } from "../store/database.ts";
import { prepared } from "../store/prepared.ts";
import { organizations } from "../store/schema.ts";
import { insertCreditLowEvents, type LowCredit } from "../webhooks/event-rows.ts";

const selectBalance = prepared((store: Store) =>
  store
    .select({
      balancePaise: organizations.balancePaise,
      own: organizations.lowCreditPaise,
      lowCreditAt: organizations.lowCreditAt,
    })
    .from(organizations)
    .where(eq(organizations.id, sql.placeholder("organizationId")))
    .prepare(),
);

/**
 * Notes whether an organization's balance is below its threshold, in the transaction that changes the balance or the
 * threshold. When it has just fallen below, the events `credit.low` are written in the same transaction; the next ones
 * are written after it was at the threshold or above it again.
 *
 * @param defaultPaise threshold of organizations without one of their own; 0: none
 * @returns the organization, when its balance has just fallen below the threshold
 */
export function noteLowCredit(
  tx: Store,
  organizationId: string,
  defaultPaise: number,
  nowMs: number,
): LowCredit | undefined {
  const row = selectBalance(tx).get({ organizationId });
  if (!row) return undefined;
  const thresholdPaise = row.own ?? defaultPaise;
  const isLow = row.balancePaise < thresholdPaise;
  if (isLow === (row.lowCreditAt !== null)) return undefined;
  tx.update(organizations)
    .set({ lowCreditAt: isLow ? nowMs : null })
    .where(eq(organizations.id, organizationId))
    .run();
  if (!isLow) return undefined;
  const low = { organizationId, balancePaise: row.balancePaise, thresholdPaise };
  insertCreditLowEvents(tx, low, nowMs);
  return low;
}

/** Ends a low balance where a new threshold is not above it, so that the next fall below the threshold is noted. */
export function endLowCredit(tx: Store, organizationId: string, thresholdPaise: number): void {
  tx.update(organizations)
    .set({ lowCreditAt: null })
    .where(and(eq(organizations.id, organizationId), gte(organizations.balancePaise, thresholdPaise)))
    .run();
}

/** Lists the enabled organizations whose balances are below their thresholds now. */
export function listLowCredit(store: Store, defaultPaise: number): LowCredit[] {
  const threshold = sql<number>`coalesce(${organizations.lowCreditPaise}, ${defaultPaise})`;
  return store
    .select({
      organizationId: organizations.id,
      balancePaise: organizations.balancePaise,
      thresholdPaise: threshold,
    })
    .from(organizations)
    .where(and(isNull(organizations.disabledAt), sql`${organizations.balancePaise} < ${threshold}`))
    .all();
}
