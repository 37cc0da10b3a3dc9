import type { Server } from "bun";
import { onAbort } from "../lib/abort.ts";
import { giveBack } from "../lib/give-back.ts";
import { announcesBody } from "./wire/parse.ts";

/**
 * Reads the rest of a body whose request was refused before its end.
 *
 * Most clients, and most proxies, look for an answer only when they have sent everything. A server that closes
 * before that makes the kernel send a reset, and the answer is lost. So the rest is read and thrown away before the
 * answer, within bounds, because the sender may be anybody.
 */

export type UnreadLimits = {
  /** Bytes that are read of one body. */
  maxBytes: number;
  maxMs: number;
  /** A sender that sends nothing for this time gets its answer at once. */
  silenceMs: number;
  /** Bytes a second that a sender must reach once the grace time is over. */
  leastBytesPerSecond: number;
  graceMs: number;
  /** Bodies that are thrown away at once: of all clients, and of one address. */
  places: number;
  placesPerClient: number;
  /**
   * What is left over after the bounds is thrown away after the answer, by the server in native code, and the
   * connection is cut after this time. `Connection: close` would end it sooner, but it makes Bun close at once, with
   * bytes unread, and the client would lose its answer (unread.test.ts).
   */
  lingerSeconds: number;
};

export const UNREAD_LIMITS: UnreadLimits = {
  // The largest form that is refused unread is a little longer than its file.
  maxBytes: 65 * 1024 * 1024,
  maxMs: 60_000,
  silenceMs: 2_000,
  leastBytesPerSecond: 64 * 1024,
  graceMs: 5_000,
  places: 256,
  placesPerClient: 64,
  lingerSeconds: 5,
};

/** A connection without a request is closed after this time. */
export const IDLE_SECONDS = 60;
const LOOK_EVERY_MS = 250;

type Sender = { client?: string | undefined; isPatient?: boolean };

export function createUnread(stopping: AbortSignal, limits: UnreadLimits = UNREAD_LIMITS) {
  const placesOf = new Map<string, number>();
  let taken = 0;

  /** @returns gives the place back; undefined when all are taken */
  function takePlace(client: string): (() => void) | undefined {
    const own = placesOf.get(client) ?? 0;
    if (taken >= limits.places || own >= limits.placesPerClient) return undefined;
    taken += 1;
    placesOf.set(client, own + 1);
    return () => {
      taken -= 1;
      const left = (placesOf.get(client) ?? 1) - 1;
      if (left === 0) placesOf.delete(client);
      else placesOf.set(client, left);
    };
  }

  /** Reads to the end; false when a bound came first. */
  async function readRest(request: Request, client: string): Promise<boolean> {
    const { body } = request;
    // A GET's body is hidden by the server.
    if (!body || body.locked || stopping.aborted) return false;
    if (!request.bodyUsed && Number(request.headers.get("content-length") ?? 0) > limits.maxBytes)
      return false;
    const leave = takePlace(client);
    if (!leave) return false;
    try {
      return await throwAway(body, limits, stopping);
    } finally {
      leave();
    }
  }

  return {
    /**
     * Throws away what is left of a request's body, and sets how long its connection may be idle after the answer.
     *
     * @param sender.client its address
     * @param sender.isPatient false: the rest is left to the server, which throws it away after the answer
     */
    async settle(
      request: Request,
      server: Server<unknown> | undefined,
      { client = "", isPatient = true }: Sender,
    ): Promise<void> {
      if (!announcesBody(request)) return server?.timeout(request, IDLE_SECONDS);
      // While the body is read, its bounds here hold and no others.
      server?.timeout(request, 0);
      const isRead = isPatient && (await readRest(request, client));
      server?.timeout(request, isRead ? IDLE_SECONDS : limits.lingerSeconds);
    },
    /** Bodies that are being thrown away now. */
    taken: () => taken,
  };
}

async function throwAway(
  body: ReadableStream<Uint8Array>,
  limits: UnreadLimits,
  stopping: AbortSignal,
): Promise<boolean> {
  const reader = body.getReader();
  const startedMs = performance.now();
  let lastMs = startedMs;
  let bytes = 0;
  let isCut = false;
  // Cancelling ends a read that would otherwise wait for a silent client.
  const cut = () => {
    isCut = true;
    void reader.cancel().catch(() => undefined);
  };
  const watch = setInterval(() => {
    if (isOver(limits, { nowMs: performance.now(), startedMs, lastMs, bytes })) cut();
  }, LOOK_EVERY_MS);
  const unwatch = onAbort(stopping, cut);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return !isCut;
      lastMs = performance.now();
      bytes += value.byteLength;
      giveBack(value);
      if (bytes > limits.maxBytes && !isCut) cut();
    }
  } catch {
    // The client has gone; the answer reaches no one.
    return false;
  } finally {
    clearInterval(watch);
    unwatch();
    reader.releaseLock();
  }
}

type Progress = { nowMs: number; startedMs: number; lastMs: number; bytes: number };

function isOver(limits: UnreadLimits, { nowMs, startedMs, lastMs, bytes }: Progress): boolean {
  const elapsedMs = nowMs - startedMs;
  if (elapsedMs > limits.maxMs || nowMs - lastMs > limits.silenceMs) return true;
  const judgedSeconds = (elapsedMs - limits.graceMs) / 1000;
  return judgedSeconds > 0 && bytes < judgedSeconds * limits.leastBytesPerSecond;
}
