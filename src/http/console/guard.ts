import type { TObject, TSchema } from "@sinclair/typebox";
import ipaddr from "ipaddr.js";
import type { Config } from "../../config/schema.ts";
import { AppError } from "../../domain/errors.ts";
import type { Clock } from "../../lib/clock.ts";
import { derivedFrom } from "../../lib/derived.ts";
import { type Network, parseNetwork } from "../../outbound/addresses.ts";
import type { ConsoleSession, ConsoleSessionService } from "../../services/console-sessions.ts";
import { contextOf } from "../context.ts";
import { NO_FIELDS, readingHooks } from "../route.ts";
import { readEmptyBody, readJson, readQuery } from "../wire/parse.ts";

export const COOKIE = "shruti_console";
const TOKEN_FIELD = "x-csrf-token";
/** A proxy that is not trusted hides who asks. Its requests seem to come from its own address. */
const PROXY_FIELDS = ["x-forwarded-for", "forwarded", "x-real-ip", "via"];
const LOOPBACK = ["127.0.0.0/8", "::1/128"];

export type GuardDeps = {
  config: Config;
  clock: Clock;
  sessions: ConsoleSessionService;
  /** Address of the server for clients. */
  baseUrl: () => string;
};

/** Decides who may use the admin part of the console (docs/console.md section 3). */
export type Guard = {
  /**
   * Checks from where a request comes: the network, then the page.
   *
   * @throws AppError `forbidden` (detail `network` or `origin`)
   */
  admit(request: Request): void;
  /**
   * Does the same, and checks the session; of requests that change something also the token.
   *
   * @throws AppError `forbidden` (detail also `x-csrf-token`), `unauthorized`
   */
  requireAdmin(request: Request): ConsoleSession;
  /** Opens a session with the secret of a link. @throws AppError `rate_limited`, `unauthorized` */
  signIn(linkSecret: string): ConsoleSession;
  /** Writes the cookie of a session; with undefined it ends. */
  cookieOf(request: Request, session: ConsoleSession | undefined): string;
};

export function createGuard({ config, clock, sessions, baseUrl }: GuardDeps): Guard {
  const networks = derivedFrom(
    () => config.console.admin_from,
    (named) =>
      (named.length === 0 ? LOOPBACK : named).map((text) => parseNetwork(text, "console.admin_from")),
  );
  const tries = createTries(clock);

  function admit(request: Request): void {
    const { address, isKnown, isProxied } = contextOf(request).client;
    if (!isProxied && PROXY_FIELDS.some((field) => request.headers.has(field))) {
      throw new AppError("forbidden", {
        detail: "network",
        message: "The request came through a proxy that is not in server.trusted_proxies.",
      });
    }
    if (!isKnown || address === undefined || !networks().some((network) => isWithin(address, network))) {
      throw new AppError("forbidden", {
        detail: "network",
        message: "The console takes no admin from this address; console.admin_from names networks.",
      });
    }
    checkOrigin(request, baseUrl());
  }

  return {
    admit,
    requireAdmin(request) {
      admit(request);
      const session = sessions.require(cookieIn(request));
      if (!isRead(request) && !sessions.isToken(session, request.headers.get(TOKEN_FIELD) ?? "")) {
        throw new AppError("forbidden", {
          detail: TOKEN_FIELD,
          message: "The token of the session is missing or wrong.",
        });
      }
      contextOf(request).admin = session.name;
      return session;
    },
    signIn(linkSecret) {
      try {
        return sessions.open(linkSecret);
      } catch (error) {
        // Only wrong links wait. A right one always works: its 256 bits cannot be guessed, however many are tried.
        const waitSeconds = tries.waitSeconds();
        if (waitSeconds > 0) throw new AppError("rate_limited", { retryAfterSeconds: waitSeconds });
        tries.countWrong();
        throw error;
      }
    },
    cookieOf(request, session) {
      const own = new URL(baseUrl());
      const origin = request.headers.get("origin");
      // A proxy may serve the program below a path of its own.
      const prefix = origin === own.origin ? own.pathname.replace(/\/$/, "") : "";
      const seconds = session ? Math.floor((session.expiresAt - clock.now()) / 1000) : 0;
      return [
        `${COOKIE}=${session?.secret ?? ""}`,
        `Path=${prefix}/console`,
        `Max-Age=${seconds}`,
        "HttpOnly",
        "SameSite=Strict",
        ...(origin?.startsWith("https:") ? ["Secure"] : []),
      ].join("; ");
    },
  };
}

function isRead({ method }: Request): boolean {
  return method === "GET" || method === "HEAD";
}

function isWithin(text: string, [network, bits]: Network): boolean {
  const address = ipaddr.process(text);
  return address.kind() === network.kind() && address.match(network, bits);
}

/**
 * Refuses requests that another page has sent. A browser says which page it was in `Sec-Fetch-Site` or `Origin`;
 * requests that change something need one of them.
 *
 * @throws AppError `forbidden`
 */
function checkOrigin(request: Request, baseUrl: string): void {
  const { headers } = request;
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  const isOwnSite = site === null || site === "same-origin" || (site === "none" && isRead(request));
  const isOwnOrigin =
    origin === null || origin === new URL(baseUrl).origin || hostOf(origin) === headers.get("host");
  const isNamed = isRead(request) || site !== null || origin !== null;
  if (isOwnSite && isOwnOrigin && isNamed) return;
  throw new AppError("forbidden", {
    detail: "origin",
    message: "Only the console's own page may ask for this.",
  });
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

function cookieIn(request: Request): string | undefined {
  for (const pair of (request.headers.get("cookie") ?? "").slice(0, 8192).split(";")) {
    const [name, value] = pair.split("=", 2);
    if (name?.trim() === COOKIE) return value?.trim();
  }
  return undefined;
}

const TRIES = 10;
const TRY_EVERY_MS = 6_000;

/** Counts wrong tries of links, of all clients together: ten at once, and ten in a minute. */
function createTries(clock: Clock) {
  let left = TRIES;
  let atMs = clock.now();
  return {
    /** Returns the seconds until the next try; 0: now. */
    waitSeconds(): number {
      const nowMs = clock.now();
      left = Math.min(TRIES, left + Math.max(0, nowMs - atMs) / TRY_EVERY_MS);
      atMs = nowMs;
      return left < 1 ? Math.ceil(((1 - left) * TRY_EVERY_MS) / 1000) : 0;
    },
    countWrong(): void {
      left -= 1;
    },
  };
}

/**
 * A route's hooks: the request is checked, then its query and body are read and validated strictly, once. `operation` of
 * http/route.ts does the same for routes with a key.
 */
export function adminOperation<
  Query extends TObject = typeof NO_FIELDS,
  Body extends TSchema | undefined = undefined,
>(
  check: (request: Request) => unknown,
  { query = NO_FIELDS as unknown as Query, body }: { query?: Query; body?: Body } = {},
) {
  const look = (request: Request) => {
    check(request);
    return readQuery(contextOf(request).search, query);
  };
  return readingHooks<Query, Body>(look, async (request) => {
    if (body) return readJson(request, body);
    await readEmptyBody(request, NO_FIELDS);
    return null;
  });
}
