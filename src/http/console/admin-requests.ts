import { AppError } from "../../domain/errors.ts";
import { TRANSCRIPTION_STATES, type TranscriptionState } from "../../domain/transcription.ts";
import type { OrganizationSettings } from "../../store/organizations.ts";
import type * as wire from "../wire/console.ts";

/** Reads what an admin's requests say, as far as their schemas cannot check it. */

/** Takes the settings that a change names; the others stay. */
export function settingsOf(body: wire.OrganizationChange): Partial<OrganizationSettings> {
  const settings = {
    name: body.name,
    pricePaisePerAudioHour: body.price_paise_per_audio_hour,
    dailySpendLimitPaise: body.daily_spend_limit_paise,
    maxQueued: body.max_queued,
    requestsPerSecond: body.requests_per_second,
    maxStoredBytes: body.max_stored_bytes,
    weight: body.weight,
  };
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as Partial<OrganizationSettings>;
}

/** The rules of `shruti credit grant`. @throws AppError `invalid_request` */
export function checkGrant(amountPaise: number, note: string | undefined): void {
  if (amountPaise === 0) {
    throw new AppError("invalid_request", { detail: "amount_paise", message: "The amount must not be 0." });
  }
  if (amountPaise < 0 && (note ?? "").trim() === "") {
    throw new AppError("invalid_request", {
      detail: "note",
      message: "An amount that is taken back needs a note.",
    });
  }
}

/** Reads the cursor of a page of the ledger. @throws AppError `invalid_request` */
export function sequenceOf(after: string): number {
  if (/^\d{1,15}$/.test(after)) return Number(after);
  throw new AppError("invalid_request", { detail: "after", message: "after must be the `next` of a page." });
}

const TIME = /^\d{4}-\d{2}-\d{2}T[\d:.]+(Z|[+-]\d{2}:\d{2})$/;

/** @throws AppError `invalid_request` for other texts than times, and for a time that has passed */
export function expiryOf(text: string, nowMs: number): number {
  const expiresAt = TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (expiresAt > nowMs) return expiresAt;
  throw new AppError("invalid_request", {
    detail: "expires_at",
    message: "expires_at must be an RFC 3339 time in the future.",
  });
}

/** @throws AppError `invalid_request` */
export function statesOf(text: string): TranscriptionState[] {
  return text.split(",").map((word) => {
    const state = TRANSCRIPTION_STATES.find((candidate) => candidate === word);
    if (state) return state;
    throw new AppError("invalid_request", {
      detail: "state",
      message: `state must be some of ${TRANSCRIPTION_STATES.join(", ")}, separated by commas.`,
    });
  });
}
