/**
 * All errors that a client can receive: code, HTTP status, default message (docs/interface.md section 7).
 * `method_not_allowed` is the only addition (docs/decisions/conventions.md).
 */
export const ERROR_TABLE = {
  unauthorized: { status: 401, message: "The API key is missing or invalid." },
  forbidden: { status: 403, message: "This API key cannot access the resource." },
  not_found: { status: 404, message: "The resource was not found." },
  method_not_allowed: { status: 405, message: "This method is not allowed here." },
  invalid_request: { status: 422, message: "The request is invalid." },
  unknown_parameter: { status: 422, message: "The request has a parameter that does not exist." },
  unsupported_language: { status: 422, message: "The model does not support this language." },
  unsupported_mode: { status: 422, message: "The model does not support this mode for the language." },
  capability_unavailable: { status: 422, message: "This capability is not available yet." },
  upload_incomplete: { status: 409, message: "The upload is not complete yet." },
  result_not_ready: { status: 409, message: "The transcription is not finished yet." },
  idempotency_conflict: {
    status: 409,
    message: "This idempotency key belongs to another request.",
  },
  audio_too_large: { status: 413, message: "The audio has more bytes than allowed." },
  capacity_unavailable: { status: 503, message: "No capacity is free at the moment." },
  insufficient_credits: { status: 402, message: "The available credit does not cover this request." },
  rate_limited: { status: 429, message: "Too many requests." },
  spend_limit_reached: { status: 429, message: "The organization has reached its daily spending limit." },
  too_many_queued: { status: 429, message: "Too many transcriptions of the organization are waiting." },
  audio_decode_failed: { status: 415, message: "The audio cannot be decoded." },
  audio_too_long: { status: 413, message: "The audio is longer than allowed." },
  too_many_channels: { status: 422, message: "The audio has more channels than the model supports." },
  upload_rejected: { status: 422, message: "The upload failed verification." },
  content_deleted: { status: 410, message: "Audio and transcript of this transcription are deleted." },
  conflict: { status: 409, message: "The state of the resource does not allow this." },
  timeout: { status: 504, message: "The transcription took longer than a response may take." },
  organization_disabled: { status: 403, message: "The organization is disabled." },
  transcription_failed: { status: 500, message: "The transcription failed." },
  internal_error: { status: 500, message: "An internal error occurred." },
} as const satisfies Record<string, { status: number; message: string }>;

export type ErrorCode = keyof typeof ERROR_TABLE;
export const ERROR_CODES = Object.keys(ERROR_TABLE) as [ErrorCode, ...ErrorCode[]];

export type AppErrorOptions = {
  /** Replaces the table's message. It must not contain a path, SQL, a secret or another organization's data. */
  message?: string;
  /** Dotted name of the field, parameter or capability. */
  detail?: string | undefined;
  /** Whole seconds; sent as `Retry-After`. */
  retryAfterSeconds?: number | undefined;
  /** Methods that the path allows; sent as `Allow`. */
  allow?: string[] | undefined;
  cause?: unknown;
};

/** An error that the client receives. Any other error that is thrown becomes `internal_error`. */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly detail: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly allow: string[] | undefined;

  constructor(code: ErrorCode, options: AppErrorOptions = {}) {
    super(options.message ?? ERROR_TABLE[code].message, { cause: options.cause });
    this.name = "AppError";
    this.code = code;
    this.detail = options.detail;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.allow = options.allow;
  }

  /** Returns a copy of this error with some options replaced. */
  with(changes: AppErrorOptions): AppError {
    const { message, detail, retryAfterSeconds, allow, cause } = this;
    return new AppError(this.code, { message, detail, retryAfterSeconds, allow, cause, ...changes });
  }

  get status(): number {
    return ERROR_TABLE[this.code].status;
  }
}
