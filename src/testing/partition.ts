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

/**
 * @param firstTarget port on this machine
 * @param slowMs connections begin this much later, as towards a machine that is overloaded
 */
export async function openPartition(firstTarget: number, slowMs = 0): Promise<Partition> {
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
    from.on("data", (bytes: Uint8Array) => {
      direction.held.push(bytes);
      pass(direction);
    });
    const end = () => {
      direction.hasEnded = true;
      sockets.delete(from);
      pass(direction);
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
    if (slowMs === 0) return begin();
    client.on("error", () => {});
    setTimeout(begin, slowMs);
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
