import { createServer, connect as dial, type Socket } from "node:net";

/**
 * A network link that can be cut: a TCP relay on this machine. While it is cut, connections stay open and nothing passes,
 * neither bytes nor the ends of connections. Both sides notice only silence, as when packets are dropped.
 */
export type Partition = {
  /** Where clients connect. */
  port: number;
  cut(): void;
  /**
   * Lets everything pass again.
   *
   * @param forgets connections of the time before stay silent for ever, as behind a firewall that has lost its memory.
   *   Otherwise what was held back arrives, as after TCP has sent it again
   */
  mend(forgets?: boolean): void;
  /** Leads new connections to another port, as a floating address does after a takeover. */
  retarget(port: number): void;
  close(): void;
};

/** One direction of a connection. */
type Direction = { from: Socket; to: Socket; held: Uint8Array[]; hasEnded: boolean };

/** Delays, milliseconds, as on a way to a machine that is far or overloaded. */
export type Delays = {
  /** Connections begin this much later. */
  beginMs?: number;
  /** Whatever is sent arrives this much later. */
  lagMs?: number;
};

/** @param firstTarget port on this machine */
export async function openPartition(
  firstTarget: number,
  { beginMs = 0, lagMs = 0 }: Delays = {},
): Promise<Partition> {
  let targetPort = firstTarget;
  const directions = new Set<Direction>();
  const sockets = new Set<Socket>();
  let isCut = false;

  function pass(direction: Direction): void {
    if (isCut || !directions.has(direction)) return;
    for (const bytes of direction.held.splice(0)) direction.to.write(bytes);
    if (!direction.hasEnded) return;
    directions.delete(direction);
    direction.to.destroySoon();
  }

  function relay(from: Socket, to: Socket): void {
    const direction: Direction = { from, to, held: [], hasEnded: false };
    directions.add(direction);
    sockets.add(from);
    from.setNoDelay(true);
    const later = (act: () => void) => (lagMs === 0 ? act() : void setTimeout(act, lagMs));
    from.on("data", (bytes: Uint8Array) =>
      later(() => {
        direction.held.push(bytes);
        pass(direction);
      }),
    );
    const end = () => {
      sockets.delete(from);
      later(() => {
        direction.hasEnded = true;
        pass(direction);
      });
    };
    from.on("error", end);
    from.on("close", end);
    from.on("end", end);
  }

  const server = createServer((client) => {
    const begin = () => {
      const target = dial(targetPort, "127.0.0.1");
      relay(client, target);
      relay(target, client);
    };
    if (beginMs === 0) return begin();
    client.on("error", () => {});
    setTimeout(begin, beginMs);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as { port: number }).port,
    cut() {
      isCut = true;
    },
    mend(forgets = false) {
      isCut = false;
      if (forgets) directions.clear();
      for (const direction of [...directions]) pass(direction);
    },
    retarget(port) {
      targetPort = port;
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
