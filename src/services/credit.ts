import type { Config } from "../config/schema.ts";
import type { Credit } from "../domain/credit.ts";
import { AppError } from "../domain/errors.ts";
import type { Clock } from "../lib/clock.ts";
import { DAY_MS, dayIn, nextMidnightIn } from "../lib/time.ts";
import { recordAct } from "../store/audit-log.ts";
import { type Database, type Store, transaction } from "../store/database.ts";
import { appendGrant, chargedOnDay, creditOf, type LedgerEntry, listLedger } from "../store/ledger.ts";
import { type AuditReport, auditLedger, type LedgerAnchor } from "../store/ledger-audit.ts";
import type { OrganizationRow } from "../store/organizations.ts";
import { exportUsageEvents, sumUsageOf, type UsageEventRow, type UsageSum } from "../store/usage.ts";
import { noteLowCredit } from "./low-credit.ts";

export type CreditServiceDeps = { database: Database; clock: Clock; config: Config };

/** Entries, newest first. `next` is the `after` of the next page; null: this is the last one. */
export type LedgerPage = { data: LedgerEntry[]; next: number | null };
export type DayOfUsage = UsageSum & { day: string };
export type Grant = { organizationId: string; amountPaise: number; note?: string };

/**
 * Credit, ledger, prices and the daily limit of organizations (docs/decisions/money.md). Admins grant credit and
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
  /**
   * Adds up what an organization used on each day of `billing.timezone`, oldest first.
   *
   * @param days `from` and `to` are included; left out: the last 30 days
   * @throws AppError `not_found`; `invalid_request` (detail `from` or `to`) for a day that does not exist, or more than
   *   366 days
   */
  usageByDay(organizationId: string, days: { from?: string; to?: string }): Promise<DayOfUsage[]>;
  /** Returns the instants of days of `billing.timezone`, `toMs` not included. @throws as `usageByDay` */
  rangeOf(days: { from?: string; to?: string }): { fromMs: number; toMs: number };
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
    async usageByDay(organizationId, days) {
      creditOf(store, organizationId);
      const { fromMs, toMs } = rangeOfDays(timezone, days, clock.now());
      const found: DayOfUsage[] = [];
      for (let startMs = fromMs; startMs < toMs; ) {
        const endMs = nextMidnightIn(timezone, startMs);
        const sum = sumUsageOf(store, organizationId, { fromMs: startMs, toMs: endMs });
        found.push({ day: dayIn(timezone, startMs), ...sum });
        startMs = endMs;
        // Other requests do not wait for a whole year.
        await Bun.sleep(0);
      }
      return found;
    },
    rangeOf: (days) => rangeOfDays(timezone, days, clock.now()),
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

const SHOWN_DAYS = 30;
const MOST_DAYS = 366;

/** Finds the instants of days in a time zone. @throws AppError `invalid_request` */
function rangeOfDays(
  timezone: string,
  { from, to }: { from?: string; to?: string },
  nowMs: number,
): { fromMs: number; toMs: number } {
  const last = to ?? dayIn(timezone, nowMs);
  const toMs = nextMidnightIn(timezone, startOfDay(timezone, last, "to"));
  const first = from ?? dayIn(timezone, toMs - (SHOWN_DAYS - 0.5) * DAY_MS);
  const fromMs = startOfDay(timezone, first, "from");
  if (fromMs >= toMs || toMs - fromMs > (MOST_DAYS + 1) * DAY_MS) {
    throw new AppError("invalid_request", {
      detail: "from",
      message: `from must be at most ${MOST_DAYS} days before to.`,
    });
  }
  return { fromMs, toMs };
}

/** Returns the first instant of a day. @throws AppError `invalid_request` */
function startOfDay(timezone: string, day: string, detail: string): number {
  const utcMs = Date.parse(`${day}T00:00:00Z`);
  // No time zone is more than 14 hours away from UTC.
  const startMs = Number.isNaN(utcMs) ? Number.NaN : nextMidnightIn(timezone, utcMs - 38 * 3_600_000);
  for (let ms = startMs, tries = 0; tries < 4 && !Number.isNaN(ms); tries++) {
    if (dayIn(timezone, ms) === day) return ms;
    ms = nextMidnightIn(timezone, ms);
  }
  throw new AppError("invalid_request", { detail, message: `${detail} must be a day such as 2026-11-21.` });
}

function checkNote(note: string | undefined): void {
  if (note === undefined || (note.length <= 500 && !/\p{Cc}/u.test(note))) return;
  throw new AppError("invalid_request", {
    message: "A note has at most 500 characters and no control characters.",
    detail: "note",
  });
}
