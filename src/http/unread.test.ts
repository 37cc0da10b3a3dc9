import { afterAll, describe, expect, test } from "bun:test";
import { createUnread, UNREAD_LIMITS, type UnreadLimits } from "./unread.ts";

/** Small limits, so that tests need not wait. The server's own timer has steps of four seconds. */
const LIMITS: UnreadLimits = {
  ...UNREAD_LIMITS,
  maxBytes: 1_000_000,
  silenceMs: 500,
  graceMs: 500,
  leastBytesPerSecond: 100_000,
  places: 3,
  placesPerClient: 2,
  lingerSeconds: 1,
};

const closing: (() => void)[] = [];
afterAll(() => {
  for (const close of closing) close();
});

/** A server that refuses every request and handles the unread rest of its body. The path is the client's address. */
function refusingServer(limits: UnreadLimits = LIMITS) {
  const stopping = new AbortController();
  const unread = createUnread(stopping.signal, limits);
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    async fetch(request, self) {
      await unread.settle(request, self, { client: new URL(request.url).pathname });
      return new Response("no", { status: 401 });
    },
  });
  closing.push(() => void server.stop(true));
  return { port: server.port ?? 0, stopping, unread };
}

/** A connection that records when its responses arrived and when it was closed. */
async function connect(port: number) {
  let text = "";
  const startedMs = performance.now();
  const closed = Promise.withResolvers<number>();
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port,
    socket: {
      data: (_socket, data) => {
        text += data.toString();
      },
      close: () => closed.resolve(performance.now() - startedMs),
      error: () => undefined,
    },
  });
  closing.push(() => void socket.terminate());
  const answers = () => text.split("HTTP/1.1 401").length - 1;
  return {
    send: (part: string) => void socket.write(part),
    /** Sends everything, and waits when the other end does not read. */
    async sendAll(bytes: number) {
      const piece = Buffer.alloc(65_536, "a");
      for (let sent = 0; sent < bytes; ) {
        const taken = socket.write(piece.subarray(0, bytes - sent));
        if (taken < 0) return;
        sent += taken;
        if (taken < piece.length) await Bun.sleep(1);
      }
    },
    answers,
    /** Returns the milliseconds until the n-th response. */
    async answered(n = 1): Promise<number> {
      while (answers() < n) {
        if (performance.now() - startedMs > 10_000) throw new Error("no answer");
        await Bun.sleep(5);
      }
      return performance.now() - startedMs;
    },
    closed: closed.promise,
    text: () => text,
  };
}

const head = (length: number | "chunked", client = "/one") =>
  `POST ${client} HTTP/1.1\r\nHost: x\r\n${length === "chunked" ? "Transfer-Encoding: chunked" : `Content-Length: ${length}`}\r\n\r\n`;

describe("the rest of a refused body", () => {
  test("is read before the answer, and the connection takes the next request", async () => {
    const { port } = refusingServer();
    const client = await connect(port);
    for (const bytes of [10, 50_000, 1_000_000]) {
      const before = client.answers();
      client.send(head(bytes));
      await client.sendAll(bytes - 1);
      await Bun.sleep(50);
      expect(client.answers()).toBe(before);
      client.send("z");
      await client.answered(before + 1);
    }
    expect(client.text().toLowerCase()).not.toContain("connection: close");
  });

  test("is not read when it is declared too long, and the connection is closed soon", async () => {
    const { port } = refusingServer();
    const client = await connect(port);
    client.send(head(1_000_001));
    expect(await client.answered()).toBeLessThan(400);
    const trickle = setInterval(() => client.send("a"), 100);
    expect(await client.closed).toBeLessThan(9_000);
    clearInterval(trickle);
  }, 15_000);

  test("is read up to the limit when its length is not declared", async () => {
    const { port } = refusingServer();
    const client = await connect(port);
    client.send(head("chunked"));
    for (let n = 0; n < 9; n += 1) client.send(`186a0\r\n${"a".repeat(100_000)}\r\n`);
    await Bun.sleep(50);
    expect(client.answers()).toBe(0);
    for (let n = 0; n < 2; n += 1) client.send(`186a0\r\n${"a".repeat(100_000)}\r\n`);
    await client.answered();
  });

  test("is given up when its sender sends nothing, or too little", async () => {
    const { port } = refusingServer();
    const silent = await connect(port);
    silent.send(head(1000));
    const slow = await connect(port);
    slow.send(head(1_000_000));
    const trickle = setInterval(() => slow.send("a".repeat(100)), 100);
    const [silentMs, slowMs] = await Promise.all([silent.answered(), slow.answered()]);
    clearInterval(trickle);
    expect(silentMs).toBeGreaterThan(400);
    expect(silentMs).toBeLessThan(2_500);
    expect(slowMs).toBeGreaterThan(400);
    expect(slowMs).toBeLessThan(2_500);
  });

  test("is read for a limited time, however fast it arrives", async () => {
    const { port } = refusingServer({ ...LIMITS, maxMs: 1_000, maxBytes: 1e9 });
    const client = await connect(port);
    client.send(head(900_000_000));
    const stream = setInterval(() => client.send("a".repeat(50_000)), 50);
    const ms = await client.answered();
    clearInterval(stream);
    expect(ms).toBeGreaterThan(900);
    expect(ms).toBeLessThan(3_000);
  });

  test("has places for a limited number of senders, and of senders from one address", async () => {
    const { port, unread } = refusingServer({ ...LIMITS, silenceMs: 3_000, graceMs: 9_000 });
    const begin = async (client: string) => {
      const connection = await connect(port);
      connection.send(`${head(1000, client)}a`);
      return connection;
    };
    const waiting = [await begin("/one"), await begin("/one")];
    while (unread.taken() < 2) await Bun.sleep(1);
    expect(await (await begin("/one")).answered()).toBeLessThan(1_000);
    waiting.push(await begin("/two"));
    while (unread.taken() < 3) await Bun.sleep(1);
    expect(await (await begin("/three")).answered()).toBeLessThan(1_000);
    expect(waiting.map((each) => each.answers())).toEqual([0, 0, 0]);
    for (const each of waiting) each.send("a".repeat(999));
    await Promise.all(waiting.map((each) => each.answered()));
    expect(unread.taken()).toBe(0);
    const next = await begin("/one");
    while (unread.taken() < 1) await Bun.sleep(1);
    next.send("a".repeat(999));
    await next.answered();
  });

  test("gives its place back when its sender leaves, and does not delay a stop", async () => {
    const { port, stopping, unread } = refusingServer({ ...LIMITS, silenceMs: 9_000, graceMs: 9_000 });
    const socket = await Bun.connect({ hostname: "127.0.0.1", port, socket: { data() {} } });
    socket.write(`${head(1000)}a`);
    while (unread.taken() < 1) await Bun.sleep(1);
    socket.terminate();
    while (unread.taken() > 0) await Bun.sleep(1);
    const client = await connect(port);
    client.send(`${head(1000)}a`);
    while (unread.taken() < 1) await Bun.sleep(1);
    stopping.abort();
    expect(await client.answered()).toBeLessThan(2_000);
  });
});

test("Bun closes the connection at once with `connection: close`, and reads on without it, so that field is not sent for unread bodies", async () => {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) =>
      new Response("no", {
        status: 401,
        headers: request.url.endsWith("/close") ? { connection: "close" } : {},
      }),
  });
  closing.push(() => void server.stop(true));
  const refused = await connect(server.port ?? 0);
  refused.send(head(1_000_000, "/close"));
  expect(await refused.closed).toBeLessThan(1_000);
  const kept = await connect(server.port ?? 0);
  kept.send(head(1_000_000));
  await kept.answered();
  await kept.sendAll(1_000_000);
  kept.send(head(0));
  await kept.answered(2);
});
