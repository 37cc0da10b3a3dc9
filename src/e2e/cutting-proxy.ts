import { connect, createServer, type Socket } from "node:net";

export type CuttingProxy = {
  baseUrl: string;
  /** Passes connections on to this port of this machine from now on. */
  leadTo(port: number): void;
  /** Cuts the next connection on which the client has sent so many bytes. */
  cutAfter(bytes: number): void;
  /** Returns how many connections were cut. */
  cuts(): number;
  close(): void;
};

/** Starts a proxy of TCP connections that cuts some of them, as a broken network does. */
export async function openCuttingProxy(): Promise<CuttingProxy> {
  let target = { host: "127.0.0.1", port: 0 };
  let limit = Number.POSITIVE_INFINITY;
  let cuts = 0;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(target);
    let sent = 0;
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.on("data", (piece) => {
      sent += piece.length;
      if (sent <= limit) return;
      limit = Number.POSITIVE_INFINITY;
      cuts++;
      client.resetAndDestroy();
    });
    client.pipe(upstream).pipe(client);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const address = server.address();
  if (typeof address !== "object" || address === null) throw new Error("the proxy has no port");
  return {
    baseUrl: `http://127.0.0.1:${address.port}`,
    leadTo(port) {
      target = { host: "127.0.0.1", port };
    },
    cutAfter(bytes) {
      limit = bytes;
    },
    cuts: () => cuts,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
