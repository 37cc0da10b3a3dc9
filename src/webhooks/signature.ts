import { createHmac } from "node:crypto";
import { newSecret, startOf } from "../lib/secrets.ts";

const PREFIX = startOf("webhookSecret");

/** Makes a signing secret: `whsec_` and the standard base64 of 32 random bytes (docs/decisions/webhooks.md). */
export function newSigningSecret(): string {
  return newSecret("webhookSecret", "base64");
}

/**
 * Computes the value of `webhook-signature` (Standard Webhooks 1.0): one `v1,<base64 HMAC-SHA256>` for each secret,
 * separated by spaces, over `<id>.<timestamp>.<body>`. The key is the decoded secret.
 *
 * @param timestampSeconds Unix time of the attempt, whole seconds
 */
export function signatureHeader(
  secrets: readonly string[],
  message: { id: string; timestampSeconds: number; body: string },
): string {
  const signed = `${message.id}.${message.timestampSeconds}.${message.body}`;
  return secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(PREFIX.length), "base64");
      return `v1,${createHmac("sha256", key).update(signed).digest("base64")}`;
    })
    .join(" ");
}
