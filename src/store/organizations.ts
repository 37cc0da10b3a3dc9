import { and, asc, eq, isNotNull, isNull, ne, sql } from "drizzle-orm";
import { AppError } from "../domain/errors.ts";
import type { Store } from "./database.ts";
import { prepared } from "./prepared.ts";
import { organizations } from "./schema.ts";

export type OrganizationRow = typeof organizations.$inferSelect;

/** What an admin may set; null returns a setting to the config's value. Credit, enabling and disabling have functions of their own. */
export type OrganizationSettings = Pick<
  OrganizationRow,
  | "name"
  | "pricePaisePerAudioHour"
  | "dailySpendLimitPaise"
  | "maxQueued"
  | "requestsPerSecond"
  | "maxStoredBytes"
  | "lowCreditPaise"
  | "weight"
>;

export function insertOrganization(
  tx: Store,
  row: { id: string; createdAt: number; name: string } & Partial<OrganizationSettings>,
): OrganizationRow {
  return tx.insert(organizations).values(row).returning().get();
}

const selectById = prepared((store: Store) =>
  store
    .select()
    .from(organizations)
    .where(eq(organizations.id, sql.placeholder("id")))
    .prepare(),
);

export function findOrganization(store: Store, id: string): OrganizationRow | undefined {
  return selectById(store).get({ id });
}

/** @throws AppError `not_found` */
export function requireOrganization(store: Store, id: string): OrganizationRow {
  const row = findOrganization(store, id);
  if (!row) throw new AppError("not_found", { message: `There is no organization ${id}.` });
  return row;
}

const selectOther = prepared((store: Store) =>
  store
    .select({ id: organizations.id })
    .from(organizations)
    .where(and(ne(organizations.id, sql.placeholder("id")), isNull(organizations.disabledAt)))
    .limit(1)
    .prepare(),
);

/** Reports whether an enabled organization exists beside this one. */
export function hasOtherOrganization(store: Store, id: string): boolean {
  return selectOther(store).get({ id }) !== undefined;
}

/** Lists all organizations, oldest first. */
export function listOrganizations(store: Store): OrganizationRow[] {
  return store.select().from(organizations).orderBy(asc(organizations.id)).all();
}

/** Changes at least one setting. Returns the row after the change; undefined when there is none. */
export function updateOrganization(
  tx: Store,
  id: string,
  settings: Partial<OrganizationSettings>,
): OrganizationRow | undefined {
  return tx.update(organizations).set(settings).where(eq(organizations.id, id)).returning().get();
}

/**
 * Marks that the purge of an organization has begun, and disables it.
 *
 * @returns undefined when a purge had begun and had not ended, or there is no such organization
 */
export function markPurgeStarted(tx: Store, id: string, nowMs: number): OrganizationRow | undefined {
  const isRunning = sql`purge_started_at IS NOT NULL AND purged_at IS NULL`;
  return tx
    .update(organizations)
    .set({ purgeStartedAt: nowMs, purgedAt: null, disabledAt: sql`coalesce(disabled_at, ${nowMs})` })
    .where(and(eq(organizations.id, id), sql`NOT (${isRunning})`))
    .returning()
    .get();
}

/** Marks that nothing is left to purge. Returns undefined when it was marked before. */
export function markPurged(tx: Store, id: string, nowMs: number): OrganizationRow | undefined {
  return tx
    .update(organizations)
    .set({ purgedAt: nowMs })
    .where(and(eq(organizations.id, id), isNull(organizations.purgedAt)))
    .returning()
    .get();
}

/** Lists the organizations whose purge has begun and not ended. */
export function listPurging(store: Store): OrganizationRow[] {
  return store
    .select()
    .from(organizations)
    .where(and(isNotNull(organizations.purgeStartedAt), isNull(organizations.purgedAt)))
    .all();
}

/** Disables an enabled organization; returns undefined when it was disabled already or does not exist. */
export function markOrganizationDisabled(tx: Store, id: string, nowMs: number): OrganizationRow | undefined {
  return tx
    .update(organizations)
    .set({ disabledAt: nowMs })
    .where(and(eq(organizations.id, id), isNull(organizations.disabledAt)))
    .returning()
    .get();
}

/** Enables a disabled organization; returns undefined when it was enabled already or does not exist. */
export function markOrganizationEnabled(tx: Store, id: string): OrganizationRow | undefined {
  return tx
    .update(organizations)
    .set({ disabledAt: null })
    .where(
      and(
        eq(organizations.id, id),
        isNotNull(organizations.disabledAt),
        // A customer who has left comes back as a new organization.
        isNull(organizations.purgeStartedAt),
      ),
    )
    .returning()
    .get();
}
