import { and, eq, isNull, sql } from "drizzle-orm";
import type { Store } from "./database.ts";
import { organizations } from "./schema.ts";

/** An organization whose balance is below its threshold, whole paise. */
export type LowCredit = { organizationId: string; balancePaise: number; thresholdPaise: number };

/**
 * Notes whether an organization's balance is below its threshold, in the transaction that changes the balance. A balance
 * falls with charges alone and rises with grants, so it passes a threshold once for each grant.
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
  const row = tx
    .select({
      balancePaise: organizations.balancePaise,
      own: organizations.lowCreditPaise,
      lowCreditAt: organizations.lowCreditAt,
    })
    .from(organizations)
    .where(eq(organizations.id, organizationId))
    .get();
  if (!row) return undefined;
  const thresholdPaise = row.own ?? defaultPaise;
  const isLow = row.balancePaise < thresholdPaise;
  if (isLow === (row.lowCreditAt !== null)) return undefined;
  tx.update(organizations)
    .set({ lowCreditAt: isLow ? nowMs : null })
    .where(eq(organizations.id, organizationId))
    .run();
  return isLow ? { organizationId, balancePaise: row.balancePaise, thresholdPaise } : undefined;
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
