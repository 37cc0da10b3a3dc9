import { splitListen } from "../../lib/host-port.ts";
import { PIECE_BYTES } from "../pieces.ts";

export type ListenerOptions = {
  /** Address and port in the form host:port. */
  listen: string;
  /** PEM texts. */
  tls: { cert: string; key: string };
  routes: readonly ListenerRoute[];
};

/** A kind of request. The listener has checked neither token nor content. */
export type ListenerRoute = {
  method: "GET" | "PUT";
  path: RegExp;
  /** @param found the groups of `path` */
  answer(request: ListenerRequest, found: readonly string[]): Response | Promise<Response>;
};
export type ListenerRequest = { request: Request; token: string };

/** The HTTPS server for workers. It knows nothing of keys, projects and other requests. */
export type Listener = {
  port: number;
  /** Returns the number of answers by their status since the start. */
  answers(): ReadonlyMap<number, number>;
  close(): Promise<void>;
};

const IDLE_SECONDS = 30;

/** @throws Error when it cannot listen there */
export function openListener({ listen, tls, routes }: ListenerOptions): Listener {
  const answers = new Map<number, number>();

  function answer(request: Request): Response | Promise<Response> {
    const { pathname } = new URL(request.url);
    // `shruti doctor` of a worker asks whether it can reach this server.
    if (pathname === "/") return new Response("shruti fleet\n");
    for (const { method, path, answer: reply } of routes) {
      const found = method === request.method ? path.exec(pathname) : null;
      if (!found) continue;
      const token = /^Bearer (\S{1,200})$/.exec(request.headers.get("authorization") ?? "")?.[1];
      return token === undefined ? bare(401) : reply({ request, token }, found.slice(1));
    }
    return bare(404);
  }

  const { hostname, port } = splitListen(listen);
  const server = Bun.serve({
    hostname,
    port,
    tls,
    idleTimeout: IDLE_SECONDS,
    maxRequestBodySize: PIECE_BYTES,
    async fetch(request) {
      const response = await answer(request);
      answers.set(response.status, (answers.get(response.status) ?? 0) + 1);
      return response;
    },
    error: () => bare(500),
  });
  return {
    port: server.port ?? 0,
    answers: () => answers,
    close: () => server.stop(true),
  };
}

/** Makes an answer that is only a status. */
export function bare(status: number): Response {
  return new Response(null, { status });
}

export const BYTES_HEADERS = {
  "content-type": "application/octet-stream",
  "cache-control": "no-store",
} as const;
