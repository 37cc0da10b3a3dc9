import { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { getCACertificates } from "node:tls";
import { ConfigError } from "../config/problems.ts";
import type { Config } from "../config/schema.ts";
import { AppError } from "../domain/errors.ts";
import { onAbort, untilAborted } from "../lib/abort.ts";
import type { Clock } from "../lib/clock.ts";
import { readRegularFile } from "../lib/regular-file.ts";
import { type AddressRules, addressRules, checkEndpointUrl, hostOf, refusalOf } from "./addresses.ts";
import { describeFailure, describeResolverFailure, describeStatus, retryAfterMs } from "./failures.ts";
import { signatureHeader } from "./signature.ts";

/** Bytes of an answer's body that are read and dropped. The connection is closed at the next byte. */
export const MAX_ANSWER_BYTES = 64 * 1024;

/** Finds the addresses of a host name, in the system's order of preference. */
export type Resolve = (hostName: string) => Promise<string[]>;

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

/**
 * Bun's own resolver reads /etc/hosts and asks the name servers without a thread. `node:dns` uses the thread pool that
 * file access needs too: 64 names of a silent name server delayed a read by 9.7 s.
 */
const resolveBySystem: Resolve = async (hostName) =>
  (await Bun.dns.lookup(hostName)).map(({ address }) => address);

/**
 * Creates a sender.
 *
 * @throws ConfigError when `webhooks.ca_file` or `webhooks.allowed_networks` cannot be used
 */
export function createWebhookSender({
  config,
  clock,
  resolve = resolveBySystem,
}: WebhookSenderDeps): WebhookSender {
  const rules = addressRules(config.webhooks);
  const ownAuthorities = readAuthorities(config.webhooks.ca_file);
  const limitMs = config.webhooks.timeout_seconds * 1000;
  let authorities: string[] | undefined;

  const post = async (message: Message, attempt: AttemptOutcome, signal: AbortSignal) => {
    const url = checkEndpointUrl(message.url, rules);
    const address = await pickAddress(url, message.attempts, rules, resolve, signal);
    attempt.address = address;
    authorities ??= [
      ...new Set([...getCACertificates("default"), ...getCACertificates("system"), ...ownAuthorities]),
    ];
    const response = await fetch(pinned(url, address), {
      method: "POST",
      headers: headersOf(message, url, Math.floor(attempt.startedAtMs / 1000)),
      body: message.body,
      redirect: "manual",
      keepalive: false,
      proxy: false,
      decompress: false,
      signal,
      tls: {
        rejectUnauthorized: true,
        ca: authorities,
        // RFC 6066 section 3: an address is not a server name. The certificate is checked against the address.
        ...(isIP(hostOf(url)) === 0 ? { serverName: hostOf(url) } : {}),
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
        attempt.error = ended.signal.aborted ? describeTimeout(attempt, limitMs) : describe(error);
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
  readAuthorities(webhooks.ca_file);
}

/** The authorities of a whole system take some hundred kilobytes. */
const MAX_PEM_BYTES = 16 * 1024 * 1024;

function readAuthorities(path: string): string[] {
  if (path === "") return [];
  const refuse = (cause: unknown) =>
    new ConfigError(`webhooks.ca_file: ${path} cannot be used as a PEM file of certificates`, { cause });
  try {
    const found =
      readRegularFile(path, MAX_PEM_BYTES).match(
        /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g,
      ) ?? [];
    if (found.length === 0) throw new Error("no certificate in it");
    return found.map((pem) => new X509Certificate(pem).toString());
  } catch (error) {
    throw refuse(error);
  }
}

/** Checks each address of the URL's host, and returns the one that this attempt calls. */
async function pickAddress(
  url: URL,
  attempts: number,
  rules: AddressRules,
  resolve: Resolve,
  signal: AbortSignal,
): Promise<string> {
  const host = hostOf(url);
  const addresses = isIP(host) === 0 ? await untilAborted(resolved(host, resolve), signal) : [host];
  for (const address of addresses) {
    const refusal = refusalOf(address, rules);
    if (refusal) {
      throw new AddressRefused(
        `${refusal}, where events are not sent; webhooks.allowed_networks in the config can allow it`,
      );
    }
  }
  const address = addresses[attempts % addresses.length];
  if (address === undefined) throw new AddressRefused("the host name has no address");
  return address;
}

class AddressRefused extends Error {}

async function resolved(host: string, resolve: Resolve): Promise<string[]> {
  try {
    return await resolve(host);
  } catch (error) {
    throw new AddressRefused(describeResolverFailure(error));
  }
}

function describe(error: unknown): string {
  return error instanceof AddressRefused || error instanceof AppError
    ? error.message
    : describeFailure(error);
}

function describeTimeout(attempt: AttemptOutcome, limitMs: number): string {
  const limit = `within ${limitMs / 1000} s`;
  if (attempt.address === null) return `the host name was not resolved ${limit}`;
  if (attempt.status === null) return `no answer ${limit}: answer first, then do the work`;
  return `the answer was not complete ${limit}: answer first, then do the work`;
}

function pinned(url: URL, address: string): string {
  const host = isIP(address) === 6 ? `[${address}]` : address;
  return `${url.protocol}//${host}${url.port === "" ? "" : `:${url.port}`}${url.pathname}${url.search}`;
}

function headersOf(message: Message, url: URL, timestampSeconds: number): Record<string, string> {
  const { eventId: id, body, secrets } = message;
  return {
    host: url.host,
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
