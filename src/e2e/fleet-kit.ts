import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readServerStatus } from "../server/status-file.ts";
import { freePorts, type NatsServer, startNats } from "../testing/boxes/nats-server.ts";
import { openPartition, type Partition } from "../testing/boxes/partition.ts";
import type { ScriptedWorker } from "../testing/programs/scripted-fleet-worker.ts";
import { type Installation, install, until } from "./kit.ts";

/** An installation that is the control plane of a fleet, with a messaging server and workers on this machine. */
export type FleetInstallation = Installation & {
  nats: NatsServer;
  /**
   * Adds a worker with `shruti fleet add`. It is not started.
   *
   * @param other runs instead of `shruti worker`; left out: as `FleetOptions.scripted` says
   */
  addWorker(name: string, other?: ScriptedProgram): Promise<FleetMember>;
  /** Returns the fleet as `shruti status` shows it. */
  fleet(): Promise<FleetNumbers>;
  /**
   * Returns the same without a process of its own; undefined: no server runs.
   *
   * @param sinceMs only a status that was written after this time, milliseconds since 1970
   */
  latest(sinceMs?: number): FleetNumbers | undefined;
  /** The links that can be cut. Those of workers are in `FleetMember`. */
  links: FleetLinks | undefined;
};

export type FleetLinks = {
  /** The link from the control plane to the messaging server. */
  control: Partition;
  /** The links from all workers to the control plane's audio. */
  audio: Partition;
};

export type FleetNumbers = {
  server: { connected: boolean };
  workers: {
    name: string;
    state: string;
    places: number;
    chunks: number;
    preparing_places: number;
    preparing: number;
    models: string[];
    refused_messages: number;
    problem?: string;
  }[];
  chunks: number;
  tickets: { published: number; repeated: number; adopted: number };
  preparations: { prepared: number; failed: number; here: number };
  results: { taken: number; prepared: number; early: number; adopted: number; refused: number };
  interrupted_chunks: number;
  lost_workers: number;
  audio_answers: Record<string, number>;
};

export type FleetMember = {
  name: string;
  folder: string;
  /** To the messaging server; undefined: it cannot be cut. */
  link: Partition | undefined;
  start(): void;
  /** Sends a signal to the worker's main process. After SIGKILL it waits until that has ended. */
  signal(signal: NodeJS.Signals): Promise<void>;
  /** Asks the worker to finish its chunks and to end. */
  stop(): void;
  log(): string;
  isRunning(): boolean;
  exited(): Promise<number>;
};

/** A worker that waits instead of recognizing, and its program: this version's (`SCRIPTED_WORKER`), or that of another. */
export type ScriptedProgram = { path: string; script: ScriptedWorker };

export type FleetOptions = {
  environment?: Record<string, string>;
  /** Environment of the workers. */
  workerEnvironment?: Record<string, string>;
  creditPaise?: number;
  /** Provides the executable at a path, as `InstallOptions` says. */
  place?: (path: string) => Promise<void>;
  /** All links lead through relays of this process that can be cut. */
  canBeCut?: boolean;
  /** Workers wait instead of recognizing. Default: the executable, with its engine. */
  scripted?: ScriptedWorker;
};

const WORKERS_WITHIN_MS = 120_000;
/** A path that begins in `src/`. */
export const SCRIPTED_WORKER = "testing/programs/scripted-fleet-worker.ts";

export async function installFleet(options: FleetOptions = {}): Promise<FleetInstallation> {
  const [natsPort = 0, audioPort = 0] = await freePorts(2);
  const links = options.canBeCut
    ? { control: await openPartition(natsPort), audio: await openPartition(audioPort) }
    : undefined;
  const nats = `tls://127.0.0.1:${natsPort}`;
  const baseUrl = `https://127.0.0.1:${links?.audio.port ?? audioPort}`;
  const installation = await install({
    environment: {
      SHRUTI_FLEET_NATS: links ? `tls://127.0.0.1:${links.control.port}` : nats,
      SHRUTI_FLEET_BASE_URL: baseUrl,
      SHRUTI_FLEET_LISTEN: `127.0.0.1:${audioPort}`,
      ...options.environment,
    },
    ...(options.creditPaise === undefined ? {} : { creditPaise: options.creditPaise }),
    ...(options.place ? { place: options.place } : {}),
  });
  const workers: Bun.Subprocess[] = [];
  const relays: Partition[] = links ? [links.control, links.audio] : [];
  let server: NatsServer | undefined;
  try {
    await installation.output("fleet", "init", "--nats", nats, "--base-url", baseUrl);
    server = await startNats(join(installation.dataDir, "fleet/nats"), natsPort);
  } catch (error) {
    await installation.remove();
    throw error;
  }
  const running = server;
  const executable = join(installation.folder, "program/shruti");
  const latest = (sinceMs = 0) => {
    const status = readServerStatus(installation.dataDir);
    return status && Date.parse(status.updated_at) >= sinceMs ? status.fleet : undefined;
  };
  const scripted = options.scripted && {
    path: join(import.meta.dir, "..", SCRIPTED_WORKER),
    script: options.scripted,
  };
  return {
    ...installation,
    nats: running,
    links,
    async addWorker(name, other = scripted) {
      const folder = join(installation.folder, name);
      await installation.output("fleet", "add", name, "--output", folder);
      const link = links && (await openPartition(natsPort));
      if (link) {
        relays.push(link);
        const config = join(folder, "shruti.toml");
        writeFileSync(config, readFileSync(config, "utf8").replace(nats, `tls://127.0.0.1:${link.port}`));
      }
      const command = other
        ? [process.execPath, other.path, folder, JSON.stringify(other.script)]
        : [executable, "worker", "--config", join(folder, "shruti.toml")];
      const program = { command, environment: options.workerEnvironment ?? {} };
      return memberOf({ name, folder, link }, program, (child) => workers.push(child));
    },
    async fleet() {
      const status = await installation.command("status", "--json");
      const { server: found } = JSON.parse(status.out) as { server?: { fleet?: FleetNumbers } };
      if (!found?.fleet) throw new Error(`no fleet in the status:\n${status.out}${status.err}`);
      return found.fleet;
    },
    latest,
    async remove() {
      for (const child of workers) child.kill("SIGKILL");
      await Promise.all(workers.map(({ exited }) => exited));
      await running.stop();
      for (const relay of relays) relay.close();
      await installation.remove();
    },
  };
}

function memberOf(
  facts: Pick<FleetMember, "name" | "folder" | "link">,
  { command, environment }: { command: string[]; environment: Record<string, string> },
  onStart: (child: Bun.Subprocess) => void,
): FleetMember {
  let child: Bun.Subprocess<"ignore", "ignore", "pipe"> | undefined;
  let log = "";
  return {
    ...facts,
    start() {
      const own = Bun.spawn(command, {
        cwd: facts.folder,
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
      if (!child) throw new Error(`${facts.name} has not been started`);
      child.kill(signal);
      if (signal === "SIGKILL") await child.exited;
    },
    stop: () => void child?.kill("SIGTERM"),
    log: () => log,
    isRunning: () => child !== undefined && child.exitCode === null && child.signalCode === null,
    exited: async () => (await child?.exited) ?? -1,
  };
}

/** Waits until this many workers take work. */
export async function workersPresent(fleet: Pick<FleetInstallation, "latest">, count: number): Promise<void> {
  const since = Date.now();
  const working = () => fleet.latest(since)?.workers.filter(({ state }) => state === "working") ?? [];
  await until(`${count} workers work`, () => working().length === count, WORKERS_WITHIN_MS).catch(
    (error: unknown) => {
      throw new Error(`${error}: ${JSON.stringify(fleet.latest() ?? "no server runs")}`);
    },
  );
}
