import type { Link, LinkMessage } from "../link.ts";
import { MessageError, readPrepareTicket, readTicket } from "../messages.ts";
import type { Subjects, Urgency } from "../subjects.ts";
import type { AnyTicket } from "./running.ts";

/** What a place of the worker is for: chunks of two kinds, or recordings that are prepared. */
export type PlaceKind = Urgency | "prepare";

/** Work that tickets are asked for. */
export type Offer = {
  /** SHA-256 of a model, or of the code that prepares. */
  hash: string;
  /** By which tickets are found; left out: by that hash. */
  queue?: string;
  /** How many places of a kind may have this work at once; left out: all. */
  places?: number;
};

export type PullingDeps = {
  link: Pick<Link, "pull" | "publish">;
  subjects: Subjects;
  /** Returns the work for which such a place may be used now. */
  offers: (kind: PlaceKind) => readonly Offer[];
  /** Reports whether more work may begin. */
  mayPull: (kind: PlaceKind) => boolean;
  /** Does a ticket's work. The place is taken until it resolves. */
  run: (ticket: AnyTicket, kind: PlaceKind) => Promise<unknown>;
  onBadTicket: (reason: string) => void;
};

/** Asks for tickets: one request for each free place. */
export type Pulling = {
  /** Sets the number of places. Places that are taken away end with their present work. */
  setPlaces(places: Record<PlaceKind, number>): void;
  /** Ends all places for good. Tickets that arrive for requests that wait are still worked on. */
  stop(): void;
  /** Returns the number of places that have not ended. */
  openPlaces(): number;
};

/** With one model a place waits this long for a ticket; with several models, it looks at each in turn for a short time. */
const LONG_WAIT_MS = 5_000;
const SHORT_WAIT_MS = 250;
/**
 * The server answers at the end of the wait. A later reply is lost, and a ticket in it counts as delivered. On a machine that
 * is overloaded, replies wait for seconds until this process reads them.
 */
const MARGIN_MS = 5_000;
/** A server of version 2.9 does not answer for a consumer that is missing. */
const MARGIN_OF_FIRST_MS = 1_000;
const PAUSE_MS = 200;
/** Statuses of the server at the end of a wait without a ticket. */
const NO_TICKET = [404, 408];
const NANOSECONDS = 1_000_000;

export function createPulling({ link, subjects, run, ...deps }: PullingDeps): Pulling {
  const wanted: Record<PlaceKind, number> = { a: 0, s: 0, prepare: 0 };
  const open: Record<PlaceKind, number> = { a: 0, s: 0, prepare: 0 };
  /** Consumers that have answered. */
  const present = new Set<string>();
  const used = createUses();
  let isStopped = false;

  /** Waits for one ticket. Undefined: there was none. */
  async function pull(kind: PlaceKind, queue: string, waitMs: number): Promise<LinkMessage | undefined> {
    const consumer = subjects.consumer(queue, kind === "prepare" ? "a" : kind);
    const [expiresMs, marginMs] = present.has(consumer)
      ? [waitMs, MARGIN_MS]
      : [SHORT_WAIT_MS, MARGIN_OF_FIRST_MS];
    const ask = JSON.stringify({ batch: 1, expires: expiresMs * NANOSECONDS });
    const subject = `$JS.API.CONSUMER.MSG.NEXT.${subjects.stream}.${consumer}`;
    let message: LinkMessage;
    try {
      message = await link.pull(subject, ask, expiresMs + marginMs);
    } catch (error) {
      present.delete(consumer);
      throw error;
    }
    present.add(consumer);
    if (message.status === undefined) return message;
    // The server refuses at once when it has too many requests, or is about to remove the consumer.
    if (!NO_TICKET.includes(message.status)) await Bun.sleep(PAUSE_MS);
    return undefined;
  }

  async function work(kind: PlaceKind, message: LinkMessage): Promise<void> {
    // An acknowledged ticket leaves the stream. The result does not depend on it.
    const acknowledge = () => message.reply !== undefined && link.publish(message.reply, "+ACK");
    try {
      await run(kind === "prepare" ? readPrepareTicket(message.data) : readTicket(message.data), kind);
    } catch (error) {
      if (!(error instanceof MessageError)) throw error;
      deps.onBadTicket(error.message);
    } finally {
      acknowledge();
    }
  }

  async function keepPlace(kind: PlaceKind, turn: number): Promise<void> {
    for (let n = turn; !isStopped && open[kind] <= wanted[kind]; n++) {
      const offers = deps.offers(kind);
      const free = offers.filter(({ hash, places = wanted[kind] }) => used.count(kind, hash) < places);
      const offer = free[n % Math.max(1, free.length)];
      if (offer === undefined || !deps.mayPull(kind)) {
        await Bun.sleep(PAUSE_MS);
        continue;
      }
      const { hash, queue = hash } = offer;
      const leave = used.enter(kind, hash);
      try {
        const message = await pull(kind, queue, offers.length === 1 ? LONG_WAIT_MS : SHORT_WAIT_MS);
        if (message) await work(kind, message);
      } catch {
        // The link is down, or the control plane has not made the consumer yet. Without the pause, requests that fail at
        // once would keep the event loop from everything else, such as connecting again.
        await Bun.sleep(PAUSE_MS);
      } finally {
        leave();
      }
    }
    open[kind]--;
  }

  return {
    setPlaces(places) {
      for (const kind of ["a", "s", "prepare"] as const) {
        wanted[kind] = places[kind];
        while (!isStopped && open[kind] < wanted[kind]) void keepPlace(kind, open[kind]++);
      }
    },
    stop() {
      isStopped = true;
    },
    openPlaces: () => open.a + open.s + open.prepare,
  };
}

/** Counts the places of each kind that ask for each work, or have it. */
function createUses() {
  const counts = new Map<string, number>();
  const count = (kind: PlaceKind, hash: string) => counts.get(`${kind} ${hash}`) ?? 0;
  const add = (kind: PlaceKind, hash: string, change: 1 | -1) => {
    const now = count(kind, hash) + change;
    if (now === 0) counts.delete(`${kind} ${hash}`);
    else counts.set(`${kind} ${hash}`, now);
  };
  return {
    count,
    /** Counts one more until the returned function is called. */
    enter(kind: PlaceKind, hash: string): () => void {
      add(kind, hash, 1);
      return () => add(kind, hash, -1);
    },
  };
}
