import { AppError } from "../../domain/errors.ts";

const HEADER = "Idempotency-Key";

/**
 * The caller's idempotency key, if there is one (docs/decisions/idempotency.md).
 *
 * @throws AppError `invalid_request` for anything but 1 to 255 printable ASCII characters
 */
export function idempotencyKeyOf(request: Request): string | undefined {
  const key = request.headers.get(HEADER);
  if (key === null) return undefined;
  // Printable ASCII is 0x20 to 0x7e (RFC 20); white space at the ends never arrives (RFC 9110 section 5.5).
  if (!/^[\x20-\x7e]{1,255}$/.test(key)) {
    throw new AppError("invalid_request", {
      detail: HEADER,
      message: `${HEADER} must be 1 to 255 printable ASCII characters.`,
    });
  }
  return key;
}
