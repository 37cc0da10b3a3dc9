const WORDS: Record<string, string> = {
  ECONNREFUSED: "nothing accepts connections at this address and port",
  ECONNRESET: "{peer} closed the connection before its answer was complete",
  EHOSTUNREACH: "{peer}'s host cannot be reached from here",
  ENETUNREACH: "{peer}'s network cannot be reached from here",
  ETIMEDOUT: "the connection was not accepted in time",
  ECONNABORTED: "the connection broke off",
  ERR_TLS_CERT_ALTNAME_INVALID: "the certificate was issued for another host name",
  CERT_HAS_EXPIRED: "the certificate has expired",
  CERT_NOT_YET_VALID: "the certificate is not valid yet (check this machine's clock)",
  CERT_REVOKED: "the certificate has been revoked",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the certificate is self-signed; put it into {ca} to trust it",
  SELF_SIGNED_CERT_IN_CHAIN: "the certificate's authority is unknown; put it into {ca} to trust it",
  UNABLE_TO_GET_ISSUER_CERT: "the certificate's authority is unknown; put it into {ca} to trust it",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    "the certificate's authority is unknown or {peer} does not send the whole chain; an own authority belongs into {ca}",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    "the certificate's authority is unknown or {peer} does not send the whole chain; an own authority belongs into {ca}",
  ResponseHeadersTooLarge: "the answer's headers are too large",
  Malformed_HTTP_Response: "the answer is not HTTP",
  InvalidHTTPResponse: "the answer is not HTTP",
};

/** How a sentence about a failed request names its parts. */
export type FailureNames = {
  /** Who was called, such as "the receiver". */
  peer: string;
  /** The setting with the file of own authorities, such as `webhooks.ca_file`. */
  authoritiesSetting: string;
};

/** Says why a request failed, so that an admin can act on it, and names the system's code. */
export function describeFailure(error: unknown, { peer, authoritiesSetting }: FailureNames): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  if (typeof code === "string") {
    const words =
      WORDS[code] ?? (/SSL|TLS|CERT/i.test(code) ? "the TLS handshake failed" : "the request failed");
    return `${words.replaceAll("{peer}", peer).replaceAll("{ca}", authoritiesSetting)} (${code})`;
  }
  // An address can contain a secret.
  const text = String(message ?? error).replace(/\bhttps?:\/\/\S+/gi, "the address");
  return `the request failed: ${text.slice(0, 200)}`;
}

/** Says why a host name has no address, and names the resolver's code. */
export function describeResolverFailure(error: unknown): string {
  const code = String((error as { code?: unknown }).code ?? error).replace(/^DNS_/, "");
  const isUnknown = ["ENOTFOUND", "ENODATA", "ENONAME"].includes(code);
  const words = isUnknown
    ? "the host name is not known to the name server"
    : "the name server gave no answer";
  return `${words} (${code.slice(0, 60)})`;
}

/** Longest wait that an answer can ask for, milliseconds. */
export const MAX_RETRY_AFTER_MS = 24 * 3_600_000;

/**
 * Reads the wait that a `Retry-After` header asks for (RFC 9110 section 10.2.3: whole seconds or an HTTP date),
 * milliseconds, at most 24 h; 0 without a header, or when it cannot be read.
 */
export function retryAfterMs(header: string | null, nowMs: number): number {
  const text = header?.trim() ?? "";
  let waitMs = 0;
  if (/^\d+$/.test(text)) waitMs = Number(text) * 1000;
  else if (/^[A-Z][a-z]{2,8},? .{10,30}$/.test(text)) waitMs = Date.parse(text) - nowMs;
  return Number.isNaN(waitMs) ? 0 : Math.min(Math.max(waitMs, 0), MAX_RETRY_AFTER_MS);
}
