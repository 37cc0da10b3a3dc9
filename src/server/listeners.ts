import type { Server } from "bun";
import type { Config } from "../config/schema.ts";
import { CommandError } from "../domain/command-error.ts";
import { errorMessage } from "../lib/error-message.ts";
import { splitListen } from "../lib/host-port.ts";
import type { Log } from "../lib/log.ts";
import { listeningSockets, steerTo } from "../lib/reuse-port.ts";
import { within } from "../lib/within.ts";
import type { App } from "./app.ts";
import type { Certificate } from "./tls.ts";

/** The HTTP server itself has no limit, because each route has its own limit with the documented answer. */
const NO_BODY_LIMIT = Number.MAX_SAFE_INTEGER;
/** A listener with an old certificate is kept at least this long: clients may have connections that are idle. */
const RETIRED_AT_LEAST_MS = 10_000;
const LOOK_EVERY_MS = 250;

/**
 * The listening sockets of the server. A certificate cannot be changed in a socket that listens, so a second one with the
 * new certificate takes over the port. The old one answers the requests on its connections, and asks clients to close them.
 */
export type Listeners = {
  /** The one that gets new connections. */
  current(): Server<unknown>;
  /**
   * Lets new connections use another certificate. Requests in progress are not disturbed.
   *
   * @throws Error when the port cannot be listened on a second time; the old certificate then stays
   */
  replaceCertificate(certificate: Certificate): void;
  /** Accepts no more connections, waits for requests for a limited time, and then closes all connections. */
  stop(requestsEndWithinMs: number): Promise<void>;
  /** Closes everything at once. */
  abort(): Promise<void>;
};

type Listener = {
  server: Server<unknown>;
  /** Undefined: not known. */
  descriptor: number | undefined;
  /** On the clock of `performance.now`; undefined: it is in use. */
  retiredAtMs?: number;
};

/** @throws CommandError when the address cannot be listened on */
export function openListeners(
  config: Config,
  app: Pick<App, "handle" | "idleSeconds" | "onCertificate">,
  certificate: Certificate | undefined,
  log: Log,
): Listeners {
  /** In the kernel's order of the port's sockets. */
  const all: Listener[] = [open(config, app, certificate)];
  if (certificate) app.onCertificate(certificate.endsAtMs);
  let timer: Timer | undefined;

  const current = () => {
    const found = all.find(({ retiredAtMs }) => retiredAtMs === undefined);
    if (!found) throw new Error("nothing listens");
    return found;
  };

  /** Sends new connections to the current listener. @returns false where that is not possible */
  function steer(): boolean {
    const { descriptor } = current();
    return descriptor !== undefined && steerTo(descriptor, all.indexOf(current()));
  }

  /** Closes listeners whose requests are over. */
  function look(): void {
    for (const listener of all.filter(({ retiredAtMs }) => retiredAtMs !== undefined)) {
      const isOld = performance.now() - (listener.retiredAtMs ?? 0) > RETIRED_AT_LEAST_MS;
      if (!isOld || listener.server.pendingRequests > 0) continue;
      void listener.server.stop(true);
      // The kernel puts its last socket into the free place.
      const last = all.pop();
      if (last && last !== listener) all[all.indexOf(listener)] = last;
      steer();
      log.debug("a listener with an old certificate was closed");
    }
    if (all.length > 1) timer = setTimeout(look, LOOK_EVERY_MS);
  }

  return {
    current: () => current().server,
    replaceCertificate(next) {
      const old = current();
      const added = listen({ config, app, certificate: next, port: old.server.port ?? 0 });
      old.retiredAtMs = performance.now();
      all.push(added);
      app.onCertificate(next.endsAtMs);
      if (!steer()) log.warn("new connections may get the old certificate for some seconds");
      clearTimeout(timer);
      timer = setTimeout(look, LOOK_EVERY_MS);
    },
    async stop(requestsEndWithinMs) {
      clearTimeout(timer);
      await within(requestsEndWithinMs, Promise.all(all.map(({ server }) => server.stop())));
      await Promise.all(all.map(({ server }) => server.stop(true)));
    },
    async abort() {
      clearTimeout(timer);
      await Promise.all(all.map(({ server }) => server.stop(true)));
    },
  };
}

type Options = {
  config: Config;
  app: Pick<App, "handle" | "idleSeconds">;
  certificate: Certificate | undefined;
  port: number;
};

function open(config: Config, app: Options["app"], certificate: Certificate | undefined): Listener {
  const { hostname, port } = splitListen(config.server.listen);
  try {
    if (!certificate) return listen({ config, app, certificate, port });
    // A port that may be shared could be taken from another program unnoticed. So it must be free without sharing, first.
    const probe = Bun.serve({
      hostname,
      port,
      fetch: () => new Response(null, { status: 503 }),
    });
    const free = probe.port ?? port;
    void probe.stop(true);
    return listen({ config, app, certificate, port: free });
  } catch (error) {
    const reason = errorMessage(error);
    const failure = (error as NodeJS.ErrnoException).code === "EACCES" ? "rights" : "failed";
    throw new CommandError(failure, `cannot listen on ${config.server.listen}: ${reason}`);
  }
}

function listen({ config, app, certificate, port }: Options): Listener {
  const before = certificate ? listeningSockets() : new Set<number>();
  const listener: Pick<Listener, "retiredAtMs"> = {};
  const server = Bun.serve({
    hostname: splitListen(config.server.listen).hostname,
    port,
    maxRequestBodySize: NO_BODY_LIMIT,
    idleTimeout: app.idleSeconds,
    async fetch(request, own) {
      const response = await app.handle(request, own);
      if (listener.retiredAtMs !== undefined) response.headers.set("connection", "close");
      return response;
    },
    ...(certificate ? { tls: certificate.tls, reusePort: true } : {}),
  });
  const added = certificate ? [...listeningSockets()].filter((descriptor) => !before.has(descriptor)) : [];
  return Object.assign(listener, { server, descriptor: added.length === 1 ? added[0] : undefined });
}
