import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import { onAbort } from "../lib/abort.ts";
import type { Clock } from "../lib/clock.ts";
import { type AddressRules, addressRules, checkEndpointUrl } from "../outbound/addresses.ts";
import { retryAfterMs } from "../outbound/failures.ts";
import { createGuardedFetch, type Resolve, readAuthorities } from "../outbound/guarded-fetch.ts";
import { describeStatus } from "./failures.ts";
import { signatureHeader } from "./signature.ts";

/** Bytes of an answer's body that are read and dropped. The connection is closed at the next byte. */
export const MAX_ANSWER_BYTES = 64 * 1024;

export type Message = {
  eventId: string;
  url: string;
  /** The current secret, then a previous one that is still valid. */
  secrets: readonly string[];
  body: string;
  /** Attempts made so far. They choose among several addresses of the host in turn. */
  attempts: number;
};

/** An attempt and how it ended. */
export type AttemptOutcome = {
  /** Epoch milliseconds, by the injected clock. */
  startedAtMs: number;
  durationMs: number;
  /** HTTP status; null when no answer began. */
  status: number | null;
  /** Why the receiver does not have the event; null: it has it. */
  error: string | null;
  /** The receiver answered 410. */
  isGone: boolean;
  /** Milliseconds that the receiver asks to wait; 0: it does not ask. */
  retryAfterMs: number;
  /** The address that was called; null when none passed the check. */
  address: string | null;
};

export type WebhookSenderDeps = { config: Config; clock: Clock; resolve?: Resolve };

/**
 * Sends events (docs/decisions/webhooks.md). An attempt resolves the host name, checks each of its addresses, and
 * connects to one of exactly these under the name's certificate. It uses no proxy, follows no redirect and shares no
 * connection. The time limit covers all of it, to the last byte of the answer.
 */
export type WebhookSender = {
  /** The rules by which addresses are refused. */
  rules: AddressRules;
  /**
   * Makes one attempt. Each failure is an outcome, not an error.
   *
   * @returns undefined when `stop` ended the attempt: then nothing shows whether the receiver has the event
   */
  send(message: Message, stop?: AbortSignal): Promise<AttemptOutcome | undefined>;
};

const AUTHORITIES_SETTING = "webhooks.ca_file";

/**
 * Creates a sender.
 *
 * @throws ConfigError when `webhooks.ca_file` or `webhooks.allowed_networks` cannot be used
 */
export function createWebhookSender({ config, clock, resolve }: WebhookSenderDeps): WebhookSender {
  const rules = addressRules(config.webhooks);
  const guarded = createGuardedFetch({
    resolve,
    authoritiesFile: config.webhooks.ca_file,
    names: { peer: "the receiver", authoritiesSetting: AUTHORITIES_SETTING },
    refusalAdvice: "where events are not sent; webhooks.allowed_networks in the config can allow it",
  });
  const limitMs = config.webhooks.timeout_seconds * 1000;

  const post = async (message: Message, attempt: AttemptOutcome, signal: AbortSignal) => {
    const url = checkEndpointUrl(message.url, rules);
    const response = await guarded.fetch({
      ...{ url, rules, signal, attempts: message.attempts },
      method: "POST",
      headers: headersOf(message, Math.floor(attempt.startedAtMs / 1000)),
      body: message.body,
      onAddress: (address) => {
        attempt.address = address;
      },
    });
    attempt.status = response.status;
    attempt.retryAfterMs = retryAfterMs(response.headers.get("retry-after"), clock.now());
    await dropBody(response);
  };

  return {
    rules,
    async send(message, stop) {
      const attempt: AttemptOutcome = {
        startedAtMs: clock.now(),
        durationMs: 0,
        status: null,
        error: null,
        isGone: false,
        retryAfterMs: 0,
        address: null,
      };
      const started = performance.now();
      const ended = new AbortController();
      const end = () => ended.abort();
      const timer = setTimeout(end, limitMs);
      const unwatch = onAbort(stop, end);
      try {
        await post(message, attempt, ended.signal);
      } catch (error) {
        if (stop?.aborted) return undefined;
        attempt.error = ended.signal.aborted
          ? describeTimeout(attempt, limitMs)
          : describe(error, guarded.describe);
      } finally {
        clearTimeout(timer);
        unwatch();
      }
      attempt.durationMs = Math.round(performance.now() - started);
      // A status that refuses says more than a broken connection. An acknowledgement must arrive whole.
      if (attempt.status !== null) attempt.error = describeStatus(attempt.status) ?? attempt.error;
      attempt.isGone = attempt.status === 410;
      return attempt;
    },
  };
}

/** Checks the settings of `[webhooks]`. @throws ConfigError when one cannot be used */
export function checkWebhookSettings({ webhooks }: Config): void {
  addressRules(webhooks);
  readAuthorities(webhooks.ca_file, AUTHORITIES_SETTING);
}

function describe(error: unknown, describeOther: (error: unknown) => string): string {
  return error instanceof AppError ? error.message : describeOther(error);
}

function describeTimeout(attempt: AttemptOutcome, limitMs: number): string {
  const limit = `within ${limitMs / 1000} s`;
  if (attempt.address === null) return `the host name was not resolved ${limit}`;
  if (attempt.status === null) return `no answer ${limit}: answer first, then do the work`;
  return `the answer was not complete ${limit}: answer first, then do the work`;
}

function headersOf(message: Message, timestampSeconds: number): Record<string, string> {
  const { eventId: id, body, secrets } = message;
  return {
    "content-type": "application/json",
    accept: "*/*",
    "user-agent": "Shruti-Webhooks/1",
    "webhook-id": id,
    "webhook-timestamp": String(timestampSeconds),
    "webhook-signature": signatureHeader(secrets, { id, timestampSeconds, body }),
  };
}

async function dropBody(response: Response): Promise<void> {
  const reader = response.body?.getReader();
  if (!reader) return;
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    bytes += value.byteLength;
    if (bytes > MAX_ANSWER_BYTES) {
      await reader.cancel();
      return;
    }
  }
}
