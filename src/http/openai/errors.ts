import { type AppError, ERROR_TABLE, type ErrorCode } from "../../domain/errors.ts";
import type { ErrorShape } from "../wire/errors.ts";
import type { OpenAiError } from "./schemas.ts";

/** Where OpenAI's status, type or code differs from this program's. */
type Translation = {
  status?: number;
  type?: string;
  code?: string;
  isFinal?: boolean;
  /** Where the error names no time itself, and its status needs one. */
  retryAfterSeconds?: number;
};

/** `Retry-After` where only a payment helps. */
const PAYMENT_SECONDS = 3_600;

const INVALID = "invalid_request_error";

/** An error that both interfaces write in the same way, but for 422: OpenAI writes 400. */
const SAME: Translation = {};

/**
 * OpenAI answers 400 to a request that cannot be understood, and its clients repeat requests after 408, 409, 429 and
 * every 5xx unless `x-should-retry` is false (`isFinal`). The table has every code, so that a new one is not forgotten.
 */
const TRANSLATIONS: Record<ErrorCode, Translation> = {
  unauthorized: { code: "invalid_api_key" },
  forbidden: { type: "permission_error" },
  organization_disabled: { type: "permission_error" },
  not_found: SAME,
  method_not_allowed: SAME,
  invalid_request: SAME,
  unknown_parameter: SAME,
  unsupported_language: SAME,
  unsupported_mode: SAME,
  capability_unavailable: SAME,
  upload_incomplete: SAME,
  result_not_ready: SAME,
  audio_too_large: SAME,
  audio_too_long: SAME,
  too_many_channels: SAME,
  upload_rejected: SAME,
  content_deleted: SAME,
  capacity_unavailable: SAME,
  transcription_failed: SAME,
  internal_error: SAME,
  audio_decode_failed: { status: 400 },
  // Clients of OpenAI know this state by its 429. They must not repeat the request, as they do after other answers of 429.
  insufficient_credits: {
    status: 429,
    type: "insufficient_quota",
    code: "insufficient_quota",
    isFinal: true,
    retryAfterSeconds: PAYMENT_SECONDS,
  },
  spend_limit_reached: { type: "insufficient_quota", isFinal: true },
  rate_limited: { type: "requests", code: "rate_limit_exceeded" },
  too_many_queued: { type: "requests" },
  idempotency_conflict: { isFinal: true },
  conflict: { isFinal: true },
  timeout: { isFinal: true },
};

/** Writes an error as OpenAI does: `type`, `param` and `code`. `param` is the field that `detail` names. */
export const openAiShape: ErrorShape = (error) => {
  const { status, type, code, isFinal, retryAfterSeconds } = translate(error);
  const body: OpenAiError = { error: { message: error.message, type, param: error.detail ?? null, code } };
  const headers = {
    ...(isFinal ? { "x-should-retry": "false" } : {}),
    ...(retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) }),
  };
  return { status, body, headers };
};

type Translated = Translation & { status: number; type: string; code: string };

function translate(error: AppError): Translated {
  const { code, status } = error;
  // The model is part of the address in OpenAI's view.
  if (code === "invalid_request" && error.detail === "model") {
    return { status: 404, type: INVALID, code: "model_not_found" };
  }
  const translation = TRANSLATIONS[code];
  return {
    ...translation,
    status: translation.status ?? statusOf(code),
    type: translation.type ?? (status >= 500 ? "server_error" : INVALID),
    code: translation.code ?? code,
  };
}

function statusOf(code: ErrorCode): number {
  const { status } = ERROR_TABLE[code];
  return status === 422 ? 400 : status;
}

/** What a client of this interface receives for a code, for the OpenAPI document. */
export function openAiAnswer(code: ErrorCode): { status: number; error: OpenAiError["error"] } {
  const { message } = ERROR_TABLE[code];
  const { status, type, code: written } = translate({ code, status: ERROR_TABLE[code].status } as AppError);
  return { status, error: { message, type, param: null, code: written } };
}
