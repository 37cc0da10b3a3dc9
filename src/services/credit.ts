import type { Config } from "../config/schema.ts";
import type { Credit } from "../domain/credit.ts";
import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";
import { dayIn, nextMidnightIn } from "../lib/time.ts";
import { recordAct } from "../store/audit-log.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import { appendGrant, chargedOnDay, creditOf, type LedgerEntry, listLedger } from "../store/ledger.ts";
import { type AuditReport, auditLedger, type LedgerAnchor } from "../store/ledger-audit.ts";
import { noteLowCredit } from "../store/low-credit.ts";
import type { OrganizationRow } from "../store/organizations.ts";
import { exportUsageEvents, type UsageEventRow } from "../store/usage.ts";

export type CreditServiceDeps = { database: Database; clock: Clock; config: Config };

/** Entries, newest first. `next` is the `after` of the next page; null: this is the last one. */
export type LedgerPage = { data: LedgerEntry[]; next: number | null };
export type Grant = { organizationId: string; amountPaise: number; note?: string };

/**
 * Credit, ledger, prices and the daily limit of organizations (docs/decisions.md section 7). Admins grant credit and
 * audit the ledger; accepting a transcription uses `priceOf` and `checkSpending`.
 */
export type CreditService = {
  /**
   * Grants credit, whole paise. A negative amount takes a mistaken grant back.
   *
   * @throws AppError `not_found`; `invalid_request` for an amount or a note that is not valid;
   *   `insufficient_credits` when the available credit is less than a negative amount
   */
  grant(input: Grant): { entry: LedgerEntry; credit: Credit };
  /** Returns an organization's credit. @throws AppError `not_found` */
  show(organizationId: string): Credit;
  /**
   * Lists a page of an organization's ledger, newest first.
   *
   * @param page `after`: the sequence number of the last entry of the page before
   * @throws AppError `not_found`
   */
  ledger(organizationId: string, page: { limit: number; after?: number }): LedgerPage;
  /** Checks the whole ledger. `anchor` is an entry that was noted earlier; the ledger must still contain it. */
  audit(anchor?: LedgerAnchor): AuditReport;
  /**
   * Iterates over an organization's usage events, oldest first.
   *
   * @param range epoch milliseconds; `toMs` is not included
   * @throws AppError `not_found`
   */
  exportUsage(organizationId: string, range: { fromMs?: number; toMs?: number }): Iterable<UsageEventRow>;
  /** Returns what an organization pays for work accepted now, paise per hour of audio. */
  priceOf(organization: Pick<OrganizationRow, "pricePaisePerAudioHour">): number;
  /**
   * Refuses a reservation when the day's charges, the open reservations and it exceed the organization's limit.
   * Free work always passes.
   *
   * @param organization the row as read in this transaction
   * @param addedPaise the reservation that follows
   * @throws AppError `spend_limit_reached`, with the time until the next midnight of `billing.timezone`
   */
  checkSpending(tx: Store, organization: OrganizationRow, addedPaise: number, nowMs: number): void;
};

export function createCreditService({ database, clock, config }: CreditServiceDeps): CreditService {
  const { store } = database;
  const { timezone } = config.billing;

  return {
    grant(input) {
      checkNote(input.note);
      return transaction(store, (tx) => {
        const { organizationId } = input;
        const before = creditOf(tx, organizationId).balancePaise;
        const entry = appendGrant(tx, { ...input, nowMs: clock.now() });
        noteLowCredit(tx, input.organizationId, config.billing.low_credit_paise, clock.now());
        const credit = creditOf(tx, organizationId);
        recordAct(
          tx,
          {
            ...{ action: "credit.grant", object: organizationId, organizationId },
            before: { balance_paise: before },
            after: { balance_paise: credit.balancePaise, ledger_entry: entry.sequence, note: entry.note },
          },
          entry.createdAt,
        );
        return { entry, credit };
      });
    },
    show: (organizationId) => creditOf(store, organizationId),
    ledger(organizationId, page) {
      creditOf(store, organizationId);
      return listLedger(store, organizationId, page);
    },
    audit: (anchor) => auditLedger(store, anchor),
    exportUsage(organizationId, range) {
      creditOf(store, organizationId);
      return exportUsageEvents(store, organizationId, range);
    },
    priceOf: (organization) =>
      organization.pricePaisePerAudioHour ?? config.billing.price_paise_per_audio_hour,
    checkSpending(tx, organization, addedPaise, nowMs) {
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
