import { AppError } from "../domain/errors.ts";
import { currentActor } from "../lib/actor.ts";
import type { Clock } from "../lib/clock.ts";
import { newSecret, startOf } from "../lib/secrets.ts";
import { equalsConstantTime, sha256Hex } from "../lib/sha256.ts";
import { recordAct } from "../store/audit-log.ts";
import {
  deleteConsoleSecrets,
  findConsoleSecret,
  insertConsoleSecret,
  takeConsoleSecret,
} from "../store/console-secrets.ts";
import { type Database, transaction } from "../store/database.ts";

const LINK_MS = 10 * 60_000;
const SESSION_MS = 12 * 3_600_000;
const NO_LINK = "The link has been used, has expired, or is not complete.";
const SECRET = new RegExp(`^${startOf("consoleSecret")}[0-9A-Za-z_-]{43}$`);

/** A session, with the secret that is in the browser's cookie. */
export type ConsoleSession = {
  secret: string;
  /** What requests that change something carry beside the cookie. */
  csrfToken: string;
  /** The user who asked for the link, for the audit log. */
  name: string;
  /** Epoch milliseconds. */
  expiresAt: number;
};

/**
 * Links and sessions of admins in the console (docs/console.md section 3). The database holds their SHA-256 only. The
 * command line and the server use it side by side.
 */
export type ConsoleSessionService = {
  /** Makes a link for the user of the command. It opens one session, within ten minutes. */
  createLink(): { secret: string; expiresAt: number };
  /** Opens a session with a link, and uses the link up. @throws AppError `unauthorized` */
  open(linkSecret: string): ConsoleSession;
  /** Finds an open session. @throws AppError `unauthorized` */
  require(secret: string | undefined): ConsoleSession;
  /** Reports whether a text is the token of a session. */
  isToken(session: ConsoleSession, token: string): boolean;
  /** Ends one session. */
  end(secret: string): void;
  /** Ends all sessions and links. Returns how many there were. */
  endAll(): { links: number; sessions: number };
};

export function createConsoleSessionService({
  database,
  clock,
}: {
  database: Database;
  clock: Clock;
}): ConsoleSessionService {
  const { store } = database;
  const refused = (message: string) => new AppError("unauthorized", { message });

  return {
    createLink() {
      const nowMs = clock.now();
      const secret = newSecret("consoleSecret");
      const expiresAt = nowMs + LINK_MS;
      const { name } = currentActor();
      transaction(store, (tx) => {
        insertConsoleSecret(tx, {
          ...{ hash: sha256Hex(secret), kind: "link", madeBy: name, createdAt: nowMs, expiresAt },
        });
        recordAct(tx, { action: "session.link" }, nowMs);
      });
      return { secret, expiresAt };
    },

    open(linkSecret) {
      const nowMs = clock.now();
      const hash = sha256Hex(linkSecret);
      // A wrong link needs no transaction: many of them do not keep others from writing.
      if (!SECRET.test(linkSecret) || !findConsoleSecret(store, "link", hash, nowMs)) throw refused(NO_LINK);
      const secret = newSecret("consoleSecret");
      const expiresAt = nowMs + SESSION_MS;
      const opened = transaction(store, (tx) => {
        const link = takeConsoleSecret(tx, "link", hash, nowMs);
        if (!link) return undefined;
        const { madeBy } = link;
        insertConsoleSecret(tx, {
          ...{ hash: sha256Hex(secret), kind: "session", madeBy, createdAt: nowMs, expiresAt },
        });
        const { via } = currentActor();
        recordAct(tx, { action: "session.begin" }, nowMs, { source: "console", name: madeBy, via });
        return link;
      });
      if (!opened) throw refused(NO_LINK);
      return { secret, csrfToken: tokenOf(secret), name: opened.madeBy, expiresAt };
    },

    require(secret) {
      const found =
        secret !== undefined && SECRET.test(secret)
          ? findConsoleSecret(store, "session", sha256Hex(secret), clock.now())
          : undefined;
      if (secret === undefined || !found) {
        throw refused("There is no admin session; `shruti console` prints a link that opens one.");
      }
      return { secret, csrfToken: tokenOf(secret), name: found.madeBy, expiresAt: found.expiresAt };
    },

    isToken: ({ csrfToken }, token) => equalsConstantTime(csrfToken, token),

    end(secret) {
      transaction(store, (tx) => {
        const taken = takeConsoleSecret(tx, "session", sha256Hex(secret), clock.now());
        if (taken) recordAct(tx, { action: "session.end" }, clock.now());
      });
    },

    endAll() {
      return transaction(store, (tx) => {
        const ended = deleteConsoleSecrets(tx, clock.now());
        if (ended.links + ended.sessions > 0) {
          recordAct(tx, { action: "session.end_all", after: ended }, clock.now());
        }
        return ended;
      });
    },
  };
}

/** The token follows from the session's secret, which scripts of a page cannot read. */
function tokenOf(secret: string): string {
  return sha256Hex(`x-csrf-token ${secret}`);
}
