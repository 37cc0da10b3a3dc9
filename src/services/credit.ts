import type { Config } from "../config/schema.ts";
import type { Credit } from "../domain/credit.ts";
import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";
import { dayIn, nextMidnightIn } from "../lib/time.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import { appendGrant, chargedOnDay, creditOf, type LedgerEntry, listLedger } from "../store/ledger.ts";
import { type AuditReport, auditLedger, type LedgerAnchor } from "../store/ledger-audit.ts";
import type { OrganizationRow } from "../store/organizations.ts";
import { exportUsageEvents, type UsageEventRow } from "../store/usage.ts";

export type CreditServiceDeps = { database: Database; clock: Clock; config: Config };
export type CreditService = ReturnType<typeof createCreditService>;

/** An organization's money: credit, ledger, prices and the daily limit (docs/decisions.md section 7). */
export function createCreditService({ database, clock, config }: CreditServiceDeps) {
  const { store } = database;
  const { timezone } = config.billing;

  return {
    /**
     * Gives credit; a negative amount takes a mistaken grant back.
     *
     * @throws AppError `not_found`, `invalid_request`, `insufficient_credits`
     */
    grant(input: { organizationId: string; amountPaise: number; note?: string }): {
      entry: LedgerEntry;
      credit: Credit;
    } {
      checkNote(input.note);
      return transaction(store, (tx) => {
        const entry = appendGrant(tx, { ...input, nowMs: clock.now() });
        return { entry, credit: creditOf(tx, input.organizationId) };
      });
    },

    /** @throws AppError `not_found` */
    show: (organizationId: string): Credit => creditOf(store, organizationId),

    /** A page of the ledger, newest first; `after` is a sequence number. @throws AppError `not_found` */
    ledger(organizationId: string, page: { limit: number; after?: number }) {
      creditOf(store, organizationId);
      return listLedger(store, organizationId, page);
    },

    /** Proves the whole ledger; `anchor`: an entry noted earlier, which must still stand there. */
    audit: (anchor?: LedgerAnchor): AuditReport => auditLedger(store, anchor),

    /** Events of an organization, oldest first; epoch milliseconds, `toMs` not included. */
    exportUsage(organizationId: string, range: { fromMs?: number; toMs?: number }): Iterable<UsageEventRow> {
      creditOf(store, organizationId);
      return exportUsageEvents(store, organizationId, range);
    },

    /** Paise per hour of audio that an organization pays for work accepted now. */
    priceOf: (organization: Pick<OrganizationRow, "pricePaisePerAudioHour">): number =>
      organization.pricePaisePerAudioHour ?? config.billing.price_paise_per_audio_hour,

    /** The calendar day that a charge made now belongs to, as `2026-11-21`. */
    dayOf: (epochMs: number): string => dayIn(timezone, epochMs),

    /**
     * Refuses what would take the day's charges and the open reservations over the organization's limit.
     * Free work always passes.
     *
     * @param organization the row as read in this transaction
     * @param addedPaise the reservation that is about to be made
     * @throws AppError `spend_limit_reached`, to be tried again at the midnight of `billing.timezone`
     */
    checkSpending(tx: Store, organization: OrganizationRow, addedPaise: number, nowMs: number): void {
      const limitPaise = organization.dailySpendLimitPaise ?? config.billing.daily_spend_limit_paise;
      if (limitPaise === 0 || addedPaise === 0) return;
      const chargedPaise = chargedOnDay(tx, organization.id, dayIn(timezone, nowMs));
      if (chargedPaise + organization.reservedPaise + addedPaise <= limitPaise) return;
      throw new AppError("spend_limit_reached", {
        retryAfterSeconds: Math.ceil((nextMidnightIn(timezone, nowMs) - nowMs) / 1000),
        ...(addedPaise > limitPaise
          ? { message: "This transcription alone costs more than the organization may spend in a day." }
          : {}),
      });
    },
  };
}

function checkNote(note: string | undefined): void {
  if (note === undefined || (note.length <= 500 && !/\p{Cc}/u.test(note))) return;
  throw new AppError("invalid_request", {
    message: "A note has at most 500 characters and no control characters.",
    detail: "note",
  });
}
