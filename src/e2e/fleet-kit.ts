import { join } from "node:path";
import { freePorts, type NatsServer, startNats } from "../testing/nats-server.ts";
import { type Installation, install, until } from "./kit.ts";

/** An installation that is the control plane of a fleet, with a messaging server and workers on this machine. */
export type FleetInstallation = Installation & {
  nats: NatsServer;
  /** Adds a worker with `shruti fleet add`. It is not started. */
  addWorker(name: string): Promise<FleetMember>;
  /** Returns the fleet as `shruti status` shows it. */
  fleet(): Promise<FleetNumbers>;
};

export type FleetNumbers = {
  server: { connected: boolean };
  workers: {
    name: string;
    state: string;
    places: number;
    chunks: number;
    models: string[];
    refused_messages: number;
    problem?: string;
  }[];
  chunks: number;
  tickets: { published: number; repeated: number; adopted: number };
  results: { taken: number; early: number; adopted: number; refused: number };
  interrupted_chunks: number;
  lost_workers: number;
  audio_answers: Record<string, number>;
};

export type FleetMember = {
  name: string;
  folder: string;
  start(): void;
  /** Sends a signal to the worker's main process. After SIGKILL it waits until that has ended. */
  signal(signal: NodeJS.Signals): Promise<void>;
  /** Asks the worker to finish its chunks and to end. */
  stop(): void;
  log(): string;
  exited(): Promise<number>;
};

export type FleetOptions = {
  environment?: Record<string, string>;
  /** Environment of the workers. */
  workerEnvironment?: Record<string, string>;
  creditPaise?: number;
};

export async function installFleet(options: FleetOptions = {}): Promise<FleetInstallation> {
  const [natsPort = 0, audioPort = 0] = await freePorts(2);
  const nats = `tls://127.0.0.1:${natsPort}`;
  const baseUrl = `https://127.0.0.1:${audioPort}`;
  const installation = await install({
    environment: {
      SHRUTI_FLEET_NATS: nats,
      SHRUTI_FLEET_BASE_URL: baseUrl,
      SHRUTI_FLEET_LISTEN: `127.0.0.1:${audioPort}`,
      ...options.environment,
    },
    ...(options.creditPaise === undefined ? {} : { creditPaise: options.creditPaise }),
  });
  const workers: Bun.Subprocess[] = [];
  let server: NatsServer | undefined;
  try {
    await installation.output("fleet", "init", "--nats", nats, "--base-url", baseUrl);
    server = await startNats(join(installation.dataDir, "fleet/nats"), natsPort);
  } catch (error) {
    await installation.remove();
    throw error;
  }
  const running = server;
  return {
    ...installation,
    nats: running,
    async addWorker(name) {
      const folder = join(installation.folder, name);
      await installation.output("fleet", "add", name, "--output", folder);
      const executable = join(installation.folder, "program/shruti");
      return memberOf(name, folder, executable, options.workerEnvironment ?? {}, (child) =>
        workers.push(child),
      );
    },
    async fleet() {
      const status = await installation.command("status", "--json");
      const { server: found } = JSON.parse(status.out) as { server?: { fleet?: FleetNumbers } };
      if (!found?.fleet) throw new Error(`no fleet in the status:\n${status.out}${status.err}`);
      return found.fleet;
    },
    async remove() {
      for (const child of workers) child.kill("SIGKILL");
      await Promise.all(workers.map(({ exited }) => exited));
      await running.stop();
      await installation.remove();
    },
  };
}

function memberOf(
  name: string,
  folder: string,
  executable: string,
  environment: Record<string, string>,
  onStart: (child: Bun.Subprocess) => void,
): FleetMember {
  let child: Bun.Subprocess<"ignore", "ignore", "pipe"> | undefined;
  let log = "";
  return {
    name,
    folder,
    start() {
      const own = Bun.spawn([executable, "worker", "--config", join(folder, "shruti.toml")], {
        cwd: folder,
        env: environment,
        stdin: "ignore",
        stdout: "ignore",
        stderr: "pipe",
      });
      child = own;
      onStart(own);
      void (async () => {
        const decoder = new TextDecoder();
        for await (const bytes of own.stderr) log += decoder.decode(bytes, { stream: true });
      })();
    },
    async signal(signal) {
      if (!child) throw new Error(`${name} has not been started`);
      child.kill(signal);
      if (signal === "SIGKILL") await child.exited;
    },
    stop: () => void child?.kill("SIGTERM"),
    log: () => log,
    exited: async () => (await child?.exited) ?? -1,
  };
}

/** Waits until this many workers take work. */
export async function workersPresent(fleet: FleetInstallation, count: number): Promise<void> {
  let latest = "";
  const isSo = async () => {
    try {
      const { workers } = await fleet.fleet();
      latest = JSON.stringify(workers);
      return workers.filter(({ state }) => state === "working").length === count;
    } catch (error) {
      latest = String(error);
      return false;
    }
  };
  await until(`${count} workers work`, isSo).catch((error: unknown) => {
    throw new Error(`${error}: ${latest}`);
  });
}
