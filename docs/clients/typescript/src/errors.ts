import type { ErrorBodyError, Transcription, Upload } from "./types.ts";

/** The class of everything that this client throws, but for an abort by the caller's own signal. */
export class ShrutiError extends Error {
  override name = "ShrutiError";
}

/** No answer came: the address is wrong, the connection broke, or nothing listens. `cause` is what the platform reported. */
export class ConnectionError extends ShrutiError {
  override name = "ConnectionError";
}

/** No answer came within `timeoutMs`, or the end that was waited for did not come in time. */
export class TimeoutError extends ShrutiError {
  override name = "TimeoutError";
}

/** A signature of a webhook is wrong, too old, or not there. */
export class WebhookVerificationError extends ShrutiError {
  override name = "WebhookVerificationError";
}

/** A transcription has ended as `failed` or `cancelled`. */
export class TranscriptionEndedError extends ShrutiError {
  override name = "TranscriptionEndedError";

  constructor(readonly transcription: Transcription) {
    const { id, state, error } = transcription;
    super(`${id} is ${state}${error ? `: ${error.message}` : ""}`);
  }
}

/** A file was rejected after all of its bytes had arrived. */
export class UploadRejectedError extends ShrutiError {
  override name = "UploadRejectedError";

  constructor(readonly upload: Upload) {
    const { id, error } = upload;
    super(`${id} is rejected${error ? `: ${error.message ?? error.code}` : ""}`);
  }
}

/** What a refusal says. */
export type Refusal = {
  status: number;
  /** A code of the interface. `unexpected_answer`: what answered is not the server, such as a proxy before it. */
  code: ErrorBodyError["code"] | "unexpected_answer";
  message: string;
  /** The dotted name of the field, parameter or capability. */
  detail: string | undefined;
  /** Quote it when you ask for help. */
  requestId: string | undefined;
  /** Seconds after which the same request may be sent again. */
  retryAfterSeconds: number | undefined;
};

/** The server refused a request. The subclasses are for `instanceof`; `code` says it exactly. */
export class ApiError extends ShrutiError implements Refusal {
  override name = "ApiError";
  readonly status: number;
  readonly code: Refusal["code"];
  readonly detail: string | undefined;
  readonly requestId: string | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(refusal: Refusal) {
    const { status, code, message, detail, requestId, retryAfterSeconds } = refusal;
    const facts = [`${status} ${code}`, ...(detail ? [detail] : []), ...(requestId ? [requestId] : [])];
    super(`${message} (${facts.join(", ")})`);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.requestId = requestId;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** 401: the key is missing, wrong, revoked or expired. */
export class AuthenticationError extends ApiError {
  override name = "AuthenticationError";
}
/** 402: the credit does not cover the request. */
export class InsufficientCreditsError extends ApiError {
  override name = "InsufficientCreditsError";
}
/** 403: the key has not the scope, or the organization is disabled. */
export class PermissionError extends ApiError {
  override name = "PermissionError";
}
/** 404 and 410: there is no such resource, or its content is deleted. */
export class NotFoundError extends ApiError {
  override name = "NotFoundError";
}
/** 409: the state of the resource does not allow the request. */
export class ConflictError extends ApiError {
  override name = "ConflictError";
}
/** 413, 415, 422 and other refusals of what was sent. `detail` names the field. */
export class InvalidRequestError extends ApiError {
  override name = "InvalidRequestError";
}
/** 429: too many requests, or a limit of the organization. */
export class RateLimitError extends ApiError {
  override name = "RateLimitError";
}
/** 503: no capacity is free at the moment. */
export class CapacityError extends ApiError {
  override name = "CapacityError";
}
/** 500 and other statuses of servers. */
export class ServerError extends ApiError {
  override name = "ServerError";
}

const CLASSES: Readonly<Record<number, typeof ApiError>> = {
  401: AuthenticationError,
  402: InsufficientCreditsError,
  403: PermissionError,
  404: NotFoundError,
  409: ConflictError,
  410: NotFoundError,
  429: RateLimitError,
  503: CapacityError,
};

/** Makes the error of a refusal, of the class of its status. */
export function errorOf(refusal: Refusal): ApiError {
  const { status } = refusal;
  const fallback = status >= 500 ? ServerError : status >= 400 ? InvalidRequestError : ApiError;
  return new (CLASSES[status] ?? fallback)(refusal);
}
