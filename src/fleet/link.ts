import type { Msg, NatsConnection } from "@nats-io/transport-node";
import { nkeyAuthenticator } from "@nats-io/transport-node";
import { errorMessage } from "../lib/error-message.ts";
import { within } from "../lib/within.ts";
import { dialServer } from "./dial.ts";
import { inboxOf } from "./subjects.ts";

export type LinkOptions = {
  /** Addresses in the form tls://host:port. */
  servers: readonly string[];
  /** PEM text of the authorities that the servers' certificates must come from. */
  ca: string;
  /** The member's name and secret (NKEY seed). */
  member: string;
  seed: string;
  /** Called when the link comes up, when it breaks, and when the server refuses something. */
  onChange?: (change: LinkChange) => void;
};

export type LinkChange =
  | { state: "up"; server: string; version: string }
  | { state: "down"; problem: string }
  /** The server does not permit something, and the link stays up. */
  | { state: "refused"; problem: string };

/** A received message. `respond` sends a reply. */
export type LinkMessage = Pick<Msg, "subject" | "data" | "reply"> & { status: number | undefined };

/**
 * A connection to the messaging server that is made again whenever it breaks. Messages that are published while it is
 * down are lost, and requests fail at once: both sides repeat what matters.
 */
export type Link = {
  /** Returns the connection that is up; undefined: none is. */
  connection(): NatsConnection | undefined;
  /** Returns for how long the link has been up without a break, in milliseconds; 0: it is down. */
  upForMs(): number;
  /** Asks the server for a sign of life. Whatever it had for this member has arrived by then. @throws Error when the link is down or breaks first */
  ping(): Promise<void>;
  publish(subject: string, data?: Uint8Array | string): void;
  /** @throws Error when there is no reply in time, there is no receiver, or the link is down */
  request(subject: string, data: Uint8Array | string, timeoutMs: number): Promise<LinkMessage>;
  /**
   * Asks for a message of a stream. It keeps the subject under which it was published, so the reply is received by a
   * subscription of its own.
   *
   * @throws Error as `request` does
   */
  pull(subject: string, data: string, timeoutMs: number): Promise<LinkMessage>;
  /**
   * Waits for work on the connection. The client leaves some requests unsettled when its connection ends.
   *
   * @throws Error when the link breaks first; what the work rejects with
   */
  whileUp<T>(work: Promise<T>): Promise<T>;
  /** Receives messages, also after the link was down. */
  subscribe(
    subject: string,
    onMessage: (message: LinkMessage, respond: (data: Uint8Array) => void) => void,
  ): void;
  /** Waits until the link is up. Returns false when it was not up in time. */
  whenUp(timeoutMs: number): Promise<boolean>;
  status(): { isUp: boolean; server?: string; version?: string; problem?: string };
  close(): Promise<void>;
};

type Subscription = { subject: string; onMessage: Parameters<Link["subscribe"]>[1] };

const DIAL_TIMEOUT_MS = 2_000;
/** The longest limit of a dial, after several that had no answer in time. On a machine that is overloaded, a TLS handshake can take seconds. */
const LONGEST_DIAL_TIMEOUT_MS = 16_000;
const PING_EVERY_MS = 2_000;
const RETRY_MS = 250;
/** Pause after the server has refused the key. An admin has to act, so there is no hurry. */
const REFUSED_RETRY_MS = 2_000;
const WAIT_STEP_MS = 20;
const CLOSE_WITHIN_MS = 500;

export function openLink(options: LinkOptions): Link {
  const subscriptions: Subscription[] = [];
  const waiting = new Set<(error: Error) => void>();
  let current: NatsConnection | undefined;
  let upSince = 0;
  let problem: string | undefined = "not connected yet";
  let isClosed = false;

  function listen(connection: NatsConnection, { subject, onMessage }: Subscription): void {
    connection.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) onMessage(plain(message), (data) => quietly(() => message.respond(data)));
      },
    });
  }

  function use(connection: NatsConnection): void {
    for (const subscription of subscriptions) listen(connection, subscription);
    current = connection;
    upSince = performance.now();
    problem = undefined;
    const version = connection.info?.version ?? "unknown";
    options.onChange?.({ state: "up", server: connection.getServer(), version });
  }

  function whileUp<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      waiting.add(reject);
      work.then(resolve, reject).finally(() => waiting.delete(reject));
    });
  }

  function drop(reason: string): void {
    current = undefined;
    for (const reject of waiting) reject(new Error(`not connected: ${reason}`));
    waiting.clear();
    const isNews = problem !== reason;
    problem = reason;
    if (isNews && !isClosed) options.onChange?.({ state: "down", problem: reason });
  }

  /** Keeps a connection until the link is closed. The client's own reconnection can hang behind a server that stalls. */
  async function keep(): Promise<void> {
    let patienceMs = DIAL_TIMEOUT_MS;
    while (!isClosed) {
      try {
        const connection = await dial(options, patienceMs);
        patienceMs = DIAL_TIMEOUT_MS;
        if (isClosed) return void connection.close();
        use(connection);
        drop(
          await endOf(connection, (refused) => options.onChange?.({ state: "refused", problem: refused })),
        );
      } catch (error) {
        drop(describe(error));
        if (/timeout/i.test(problem ?? "")) patienceMs = Math.min(2 * patienceMs, LONGEST_DIAL_TIMEOUT_MS);
      }
      if (!isClosed)
        await Bun.sleep(/authorization|authentication/i.test(problem ?? "") ? REFUSED_RETRY_MS : RETRY_MS);
    }
  }

  const kept = keep();
  return {
    connection: () => current,
    upForMs: () => (current ? performance.now() - upSince : 0),
    async ping() {
      if (!current) throw new Error(`not connected: ${problem}`);
      await whileUp(current.flush());
    },
    publish: (subject, data) => quietly(() => current?.publish(subject, data)),
    whileUp,
    async request(subject, data, timeoutMs) {
      if (!current) throw new Error(`not connected: ${problem}`);
      return plain(await whileUp(current.request(subject, data, { timeout: timeoutMs })));
    },
    async pull(subject, data, timeoutMs) {
      if (!current) throw new Error(`not connected: ${problem}`);
      return plain(await whileUp(current.request(subject, data, { timeout: timeoutMs, noMux: true })));
    },
    subscribe(subject, onMessage) {
      subscriptions.push({ subject, onMessage });
      // A connection that is just closing is replaced by one that listens to this, too.
      quietly(() => current && listen(current, { subject, onMessage }));
    },
    async whenUp(timeoutMs) {
      const deadline = performance.now() + timeoutMs;
      while (!current && performance.now() < deadline) await Bun.sleep(WAIT_STEP_MS);
      return current !== undefined;
    },
    status: () => ({
      isUp: current !== undefined,
      ...(current ? { server: current.getServer(), version: current.info?.version ?? "unknown" } : {}),
      ...(problem === undefined ? {} : { problem }),
    }),
    async close() {
      isClosed = true;
      // A server that stalls must not hold up the end of the program.
      await within(CLOSE_WITHIN_MS, current?.flush().catch(() => {}) ?? Promise.resolve());
      await within(CLOSE_WITHIN_MS, current?.close().catch(() => {}) ?? Promise.resolve());
      await within(CLOSE_WITHIN_MS, kept);
    },
  };
}

/** Sends something that may be lost: the client throws when its connection has just been closed. */
function quietly(send: () => unknown): void {
  try {
    send();
  } catch {
    // Both sides repeat what matters.
  }
}

function dial({ servers, ca, member, seed }: LinkOptions, timeoutMs: number): Promise<NatsConnection> {
  return dialServer({
    servers: servers.map((server) => server.replace(/^tls:\/\//, "")),
    tls: { ca },
    authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)),
    name: member,
    inboxPrefix: inboxOf(member),
    timeout: timeoutMs,
    pingInterval: PING_EVERY_MS,
    maxPingOut: 2,
    reconnect: false,
  });
}

/** Waits until a connection has ended or does not react any more, and returns why. */
async function endOf(connection: NatsConnection, onRefusal: (problem: string) => void): Promise<string> {
  const closed = connection.closed().then((error) => (error ? describe(error) : "the connection was closed"));
  const stalled = (async () => {
    for await (const status of connection.status()) {
      if (status.type === "staleConnection") return "the server does not react";
      if (status.type === "error") onRefusal(describe(status.error));
    }
    return closed;
  })();
  const reason = await Promise.race([closed, stalled]);
  // A stalled connection may never finish closing.
  void connection.close().catch(() => {});
  return reason;
}

function plain({ subject, data, reply, headers }: Msg): LinkMessage {
  const status = headers?.code ? headers.code : undefined;
  return { subject, data, status, ...(reply === undefined ? {} : { reply }) };
}

/** Some failures of TLS have no useful message of their own. */
function describe(error: unknown): string {
  const message = errorMessage(error);
  return message === "" || message === "undefined error" ? "the TLS connection failed" : message;
}
