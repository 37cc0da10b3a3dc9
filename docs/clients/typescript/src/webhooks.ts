import { WebhookVerificationError } from "./errors.ts";
import type { CreditLowEvent, WebhookEvent } from "./types.ts";

export type Delivery = {
  /** The endpoint's secret, `whsec_…`; two of them while you change it. */
  secret: string | readonly string[];
  /** The header fields of the request: `Headers`, or an object as Node has it. */
  headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The body exactly as it came, before any parser. */
  body: string | Uint8Array;
  /** Seconds that the time of the delivery may differ from this clock; default 300. */
  toleranceSeconds?: number | undefined;
  /** Default: this clock. */
  now?: Date | undefined;
};

const PREFIX = "whsec_";
const TOLERANCE_SECONDS = 300;

/**
 * Checks the signature and time of a delivery as Standard Webhooks 1.0 says. Deliveries are repeated: compare `webhook-id` with
 * those that you have seen.
 *
 * @returns the event
 * @throws WebhookVerificationError where the request is not from your server, or too old
 */
export async function verifyWebhook(delivery: Delivery): Promise<WebhookEvent | CreditLowEvent> {
  const { headers, body, now = new Date(), toleranceSeconds = TOLERANCE_SECONDS } = delivery;
  const id = field(headers, "webhook-id");
  const timestamp = field(headers, "webhook-timestamp");
  if (!/^\d{1,12}$/.test(timestamp)) throw new WebhookVerificationError("webhook-timestamp is not a time");
  if (!(Math.abs(now.getTime() / 1000 - Number(timestamp)) <= toleranceSeconds))
    throw new WebhookVerificationError("webhook-timestamp is too far from this clock");
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const signed = concatenated(new TextEncoder().encode(`${id}.${timestamp}.`), bytes);
  const signatures = field(headers, "webhook-signature")
    .split(" ")
    .flatMap((each) => (each.startsWith("v1,") ? [fromBase64(each.slice("v1,".length))] : []));
  const secrets = typeof delivery.secret === "string" ? [delivery.secret] : delivery.secret;
  for (const secret of secrets) {
    const key = await keyOf(secret);
    for (const signature of signatures) {
      // `verify` compares in constant time.
      if (signature && (await crypto.subtle.verify("HMAC", key, signature, signed)))
        return JSON.parse(new TextDecoder().decode(bytes)) as WebhookEvent | CreditLowEvent;
    }
  }
  throw new WebhookVerificationError("no signature is right");
}

function keyOf(secret: string): Promise<CryptoKey> {
  const bytes = secret.startsWith(PREFIX) ? fromBase64(secret.slice(PREFIX.length)) : undefined;
  if (!bytes || bytes.length === 0)
    throw new WebhookVerificationError("the secret is not one of an endpoint");
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

function field(headers: Delivery["headers"], name: string): string {
  const found = headers instanceof Headers ? headers.get(name) : headerIn(headers, name);
  if (typeof found !== "string" || found === "") throw new WebhookVerificationError(`${name} is missing`);
  return found;
}

function headerIn(headers: Exclude<Delivery["headers"], Headers>, name: string): unknown {
  return Object.entries(headers).find(([each]) => each.toLowerCase() === name)?.[1];
}

function fromBase64(text: string) {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function concatenated(first: Uint8Array, second: Uint8Array) {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}
