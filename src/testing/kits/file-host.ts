import type { ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { makeCertificates } from "./webhook-kit.ts";

/** One request that the host has received. */
export type HostRequest = { method: string; path: string; query: string; headers: Headers; body: Buffer };

/** A file of which only the first bytes come: then the connection breaks off, or nothing more comes. */
export type BrokenAnswer = {
  headers: Record<string, string>;
  bytes: Uint8Array;
  then: "cut" | "hold";
  /** Whether the client has its bytes, so that the connection may break off; without it, after a moment. */
  hasArrived?: () => boolean;
  /** Called when the connection has ended. */
  onEnd?: () => void;
};

/** What a path of the host does. */
export type HostAnswer = (request: HostRequest) => Response | BrokenAnswer | Promise<Response | BrokenAnswer>;

/** How often a connection that will break off is looked at. */
const CUT_AFTER_MS = 100;

/** The name for which a host can have a certificate. */
export const HOST_NAME = "receiver.test";

/**
 * Starts an HTTPS server on 127.0.0.1, from which a server under test fetches files. `answers` says what each path does, and
 * `otherwise` what other paths do; by default they answer 404.
 *
 * @param name for which it has a certificate, and which its addresses have
 */
export async function startFileHost(
  answers: Record<string, HostAnswer>,
  otherwise: HostAnswer = () => new Response("no such file", { status: 404 }),
  name: "127.0.0.1" | typeof HOST_NAME = "127.0.0.1",
) {
  const certificates = makeCertificates();
  const requests: HostRequest[] = [];
  const certificate = name === HOST_NAME ? certificates.receiver : certificates.address;
  const server = createServer(certificate, async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const [path = "", query = ""] = (request.url ?? "").split("?");
    const headers = new Headers(
      Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
    );
    const received = { method: request.method ?? "", path, query, headers, body: Buffer.concat(parts) };
    requests.push(received);
    const answer = await (answers[path] ?? otherwise)(received);
    if (answer instanceof Response) {
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      response.end(Buffer.from(await answer.arrayBuffer()));
      return;
    }
    response.on("close", () => answer.onEnd?.());
    response.writeHead(200, answer.headers);
    response.write(answer.bytes);
    if (answer.then === "cut") cutOff(response, answer.hasArrived);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    requests,
    port,
    host: `${name}:${port}`,
    url: (path: string) => `https://${name}:${port}${path}`,
    caFile: certificates.caFile,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      certificates.remove();
    },
  };
}

/** Breaks a connection off. A client loses what it has not read by then. */
function cutOff(response: ServerResponse, hasArrived: () => boolean = () => true): void {
  const timer = setInterval(() => {
    if (hasArrived()) response.destroy();
  }, CUT_AFTER_MS);
  response.on("close", () => clearInterval(timer));
}

/** Answers with a file as web servers do: with an ETag, and with a part of it where one is asked for. */
export function fileAnswer(content: Uint8Array<ArrayBuffer>, etag = '"v1"', type = "audio/wav"): HostAnswer {
  return ({ headers }) => {
    const own = { etag, "content-type": type };
    const asked = /^bytes=(\d+)-$/.exec(headers.get("range") ?? "");
    if (!asked || headers.get("if-range") !== etag) {
      return new Response(content, { headers: { ...own, "content-length": String(content.length) } });
    }
    const start = Number(asked[1]);
    const range = { "content-range": `bytes ${start}-${content.length - 1}/${content.length}` };
    const length = { "content-length": String(content.length - start) };
    return new Response(content.slice(start), { status: 206, headers: { ...own, ...range, ...length } });
  };
}
