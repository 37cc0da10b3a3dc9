import { afterEach, expect, test } from "bun:test";
import { createServer, type Server, type Socket } from "node:net";
import { until } from "../testing/kits/fleet-chunks.ts";
import { type Link, openLink } from "./link.ts";
import { makeMemberKey } from "./setup/keys.ts";

/** Links to servers that accept connections and do not answer, as when a machine hangs or a firewall has lost its memory. */

const INFO = { server_id: "silent", version: "2.9.10", proto: 1, headers: true, max_payload: 1_048_576 };
const BEGINS_TLS = `INFO ${JSON.stringify({ ...INFO, tls_required: true })}\r\n`;
const TIMEOUT_MS = 60_000;

let server: Server | undefined;
let link: Link | undefined;
const connections = new Set<Socket>();
let dials = 0;

/** Opens a server that says one thing at most, and returns its address. */
async function openSilent(greeting: string): Promise<string> {
  dials = 0;
  const opened = createServer((socket) => {
    dials++;
    connections.add(socket);
    socket.on("close", () => connections.delete(socket));
    socket.on("error", () => {});
    socket.resume();
    if (greeting !== "") socket.write(greeting);
  });
  server = opened;
  await new Promise<void>((resolve) => opened.listen(0, "127.0.0.1", resolve));
  const address = opened.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return `tls://127.0.0.1:${address.port}`;
}

afterEach(async () => {
  await link?.close();
  for (const socket of connections) socket.destroy();
  server?.close();
});

test.each([
  ["says nothing", ""],
  ["begins TLS and says no more", BEGINS_TLS],
])(
  "a dial that had no answer in time leaves no connection open: a server that %s",
  async (_, greeting) => {
    const { seed } = makeMemberKey();
    link = openLink({ servers: [await openSilent(greeting)], ca: "", member: "one", seed });
    await until(() => dials === 2, TIMEOUT_MS);
    await until(() => connections.size < 2);
    expect(link.status().isUp).toBe(false);
  },
  2 * TIMEOUT_MS,
);
