import { ParseError, NotFoundError as RouteNotFoundError } from "elysia";
import { AppError } from "../../domain/errors.ts";
import { isDiskFull, isLocked, isOutOfFiles, isRefusedAccess } from "../../store/disk-full.ts";

/** The body of every non-success response (docs/interface.md section 7). */
export type ErrorBody = { error: { code: string; message: string; detail?: string } };

/** An admin must free space, which takes an unknown time; `GET /readyz` reports the full disk. */
const DISK_RETRY_SECONDS = 60;
/** The other program's transaction ends at an unknown time; `GET /readyz` reports the lock. */
const LOCK_RETRY_SECONDS = 5;
/** Files are closed as soon as other requests end. */
const FILES_RETRY_SECONDS = 2;

/**
 * Turns any thrown value into an error that a client may see. A full disk, a locked database, refused rights and too many
 * open files become `capacity_unavailable`, because they pass; everything else that is not an AppError becomes
 * `internal_error`. The thrown value is its cause.
 */
export function toAppError(thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  if (thrown instanceof ParseError) return toAppError(thrown.cause);
  if (thrown instanceof RouteNotFoundError) return new AppError("not_found");
  if (isDiskFull(thrown)) {
    return new AppError("capacity_unavailable", {
      message: "The disk has no space for this now.",
      retryAfterSeconds: DISK_RETRY_SECONDS,
      cause: thrown,
    });
  }
  if (isLocked(thrown)) {
    return new AppError("capacity_unavailable", {
      message: "Another program has locked the database.",
      retryAfterSeconds: LOCK_RETRY_SECONDS,
      cause: thrown,
    });
  }
  if (isRefusedAccess(thrown)) {
    return new AppError("capacity_unavailable", {
      message: "The server cannot write its files now.",
      retryAfterSeconds: DISK_RETRY_SECONDS,
      cause: thrown,
    });
  }
  if (isOutOfFiles(thrown)) {
    return new AppError("capacity_unavailable", { retryAfterSeconds: FILES_RETRY_SECONDS, cause: thrown });
  }
  return new AppError("internal_error", { cause: thrown });
}

/** How an error is written for clients of one interface. */
export type ErrorShape = (error: AppError) => {
  status: number;
  body: object;
  headers?: Record<string, string>;
};

/** docs/interface.md section 7. */
const ownShape: ErrorShape = (error) => {
  const body: ErrorBody = {
    error: {
      code: error.code,
      message: error.message,
      ...(error.detail === undefined ? {} : { detail: error.detail }),
    },
  };
  return { status: error.status, body };
};

/** The only place where a code becomes a response: status, body, `Retry-After`, `Allow`. */
export function errorResponse(error: AppError, shape: ErrorShape = ownShape): Response {
  const { status, body, headers: further = {} } = shape(error);
  const headers = new Headers({ ...further, "content-type": "application/json" });
  const retryAfterSeconds = error.retryAfterSeconds ?? defaultRetryAfter(error);
  if (retryAfterSeconds !== undefined) {
    headers.set("retry-after", String(Math.max(1, Math.ceil(retryAfterSeconds))));
  }
  if (error.allow) headers.set("allow", error.allow.join(", "));
  if (error.code === "unauthorized") headers.set("www-authenticate", 'Bearer realm="shruti"');
  return new Response(JSON.stringify(body), { status, headers });
}

/** Every 429 and 503 names a time (docs/interface.md section 7.2), even where the thrower knew none. */
function defaultRetryAfter(error: AppError): number | undefined {
  return error.status === 429 || error.status === 503 ? 1 : undefined;
}
