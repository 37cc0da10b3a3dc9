import { expect, test } from "bun:test";
import { describeFailure, describeResolverFailure, MAX_RETRY_AFTER_MS, retryAfterMs } from "./failures.ts";

const NOW = Date.UTC(2026, 10, 21, 4, 5, 6);

test.each([
  ["120", 120_000],
  [" 7 ", 7000],
  ["0", 0],
  ["Sat, 21 Nov 2026 04:06:06 GMT", 60_000],
  ["Saturday, 21-Nov-26 04:06:06 GMT", 60_000],
  ["Sat Nov 21 04:06:06 2026 GMT", 60_000],
  ["Sat, 21 Nov 2026 04:00:00 GMT", 0],
  ["999999999999999999999999", MAX_RETRY_AFTER_MS],
  ["Sat, 21 Nov 2099 04:00:00 GMT", MAX_RETRY_AFTER_MS],
  ["-5", 0],
  ["1.5", 0],
  ["soon", 0],
  ["", 0],
  [null, 0],
])("Retry-After %p asks for %p ms", (header, waitMs) => {
  expect(retryAfterMs(header, NOW)).toBe(waitMs);
});

test("reasons name the cause and what to do", () => {
  const names = { peer: "the receiver", authoritiesSetting: "webhooks.ca_file" };
  const describe = (code: string) => describeFailure(Object.assign(new Error("x"), { code }), names);
  expect(describe("DEPTH_ZERO_SELF_SIGNED_CERT")).toContain("put it into webhooks.ca_file");
  expect(describe("ECONNRESET")).toBe(
    "the receiver closed the connection before its answer was complete (ECONNRESET)",
  );
  expect(describe("ERR_SSL_WRONG_VERSION_NUMBER")).toContain("TLS handshake");
  expect(describeFailure(new Error("odd https://a.example/?token=x"), names)).toBe(
    "the request failed: odd the address",
  );
  expect(describeResolverFailure({ code: "DNS_ENOTFOUND" })).toBe(
    "the host name is not known to the name server (ENOTFOUND)",
  );
  expect(describeResolverFailure({ code: "DNS_ECONNREFUSED" })).toContain("no answer");
});
