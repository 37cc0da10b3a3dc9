import type { Server } from "bun";

/** A request whose body arrives, and the server that it came to. */
type Connection = { request: Request; server: Server<unknown> | undefined };

/** Seconds without a byte after which a connection that sends a recording is cut. */
const SILENCE_SECONDS = 240;
const REARM_EVERY_MS = 1000;

/**
 * Keeps the connection of a slow sender open. The server's idle time is not renewed by the bytes of a body,
 * so that a client at 1 kB/s would be cut; every chunk renews it here.
 *
 * @returns a function to call with each chunk that arrives
 */
export function keepAlive({ request, server }: Connection): () => void {
  let renewedAtMs = Number.NEGATIVE_INFINITY;
  const renew = () => {
    const nowMs = performance.now();
    if (nowMs - renewedAtMs < REARM_EVERY_MS) return;
    renewedAtMs = nowMs;
    server?.timeout(request, SILENCE_SECONDS);
  };
  renew();
  return renew;
}
