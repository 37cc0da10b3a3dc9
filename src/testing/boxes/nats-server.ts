import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";

/** The messaging server of Debian's package `nats-server`. Tests that need it are skipped where it is missing. */
export const NATS_SERVER: string | undefined =
  Bun.which("nats-server") ?? Bun.which("/usr/sbin/nats-server") ?? undefined;

export type NatsServer = {
  pid: number;
  /** Sends a signal. After SIGKILL it waits until the server has ended. */
  signal(signal: NodeJS.Signals): Promise<void>;
  /** Starts the server again on the same port. */
  restart(): Promise<void>;
  stop(): Promise<void>;
};

const START_WITHIN_MS = 60_000;
const MAX_LOG = 2_000;

/** Starts a messaging server with the configuration in a folder, and waits until it listens. */
export async function startNats(folder: string, port: number): Promise<NatsServer> {
  let child = spawnServer(folder);
  await listens(child, folder, port);

  async function signal(name: NodeJS.Signals): Promise<void> {
    child.kill(name);
    if (name === "SIGKILL") await child.exited;
  }

  return {
    get pid() {
      return child.pid;
    },
    signal,
    async restart() {
      child = spawnServer(folder);
      await listens(child, folder, port);
    },
    async stop() {
      // A stopped process does not end by another signal.
      await signal("SIGKILL");
    },
  };
}

function spawnServer(folder: string) {
  if (NATS_SERVER === undefined) throw new Error("there is no nats-server");
  return Bun.spawn([NATS_SERVER, "-c", join(folder, "nats.conf"), "-l", join(folder, "nats.log")], {
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  });
}

/** @throws Error when the server has ended, such as when another program has taken the port meanwhile */
async function listens(child: Bun.Subprocess, folder: string, port: number): Promise<void> {
  const deadline = Date.now() + START_WITHIN_MS;
  for (;;) {
    if (child.exitCode !== null) {
      const log = readFileSync(join(folder, "nats.log"), "utf8");
      throw new Error(`the messaging server has ended with ${child.exitCode}:\n${log.slice(-MAX_LOG)}`);
    }
    try {
      const socket = await Bun.connect({ hostname: "127.0.0.1", port, socket: { data() {} } });
      socket.end();
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await Bun.sleep(20);
    }
  }
}

/** Below the ports that the system gives to outgoing connections, which could take the port of a stopped server. */
const FIRST_PORT = 20_000;
const PORTS = 12_000;

/** Returns ports that were free a moment ago. */
export async function freePorts(count: number): Promise<number[]> {
  const servers: Server[] = [];
  while (servers.length < count) {
    const server = createServer();
    const port = FIRST_PORT + Math.floor(Math.random() * PORTS);
    const isFree = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => resolve(true));
    });
    if (isFree) servers.push(server);
  }
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
