import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Transcription } from "../http/wire/schemas.ts";
import { type ApiClient, apiClient } from "../testing/answers/api-client.ts";
import { placeBinary } from "./binary.ts";
import { isAlive, processesFrom } from "./processes.ts";

/** The output of `shruti init --json`. */
type Initialised = { organization_id: string; project_id: string; key: string };
/** The fields of `shruti status --json` that tests read. */
export type Status = {
  running: boolean;
  transcriptions: Record<string, number>;
  server?: {
    pid: number;
    ready: boolean;
    workers_busy: number;
    models: { id: string; state: string; pid?: number; restarts: number; running: number }[];
  };
};

export type CommandOutcome = { code: number; out: string; err: string };

/** An executable in its own folder, and the result of `shruti init`. */
export type Installation = {
  /** The folder that holds all files that the executable may write. */
  folder: string;
  dataDir: string;
  configPath: string;
  organizationId: string;
  projectId: string;
  key: string;
  /** Runs a command to its end. */
  command(...args: string[]): Promise<CommandOutcome>;
  /** Runs a command and returns its standard output. Throws when it fails. */
  output(...args: string[]): Promise<string>;
  /** Runs a command with `--json` and returns its output. Throws when it fails. */
  json<T>(...args: string[]): Promise<T>;
  /** Starts the server and waits until it listens. It may not be ready yet. */
  serve(): Promise<RunningServer>;
  /** Ends all processes and removes the folder. */
  remove(): Promise<void>;
};

export type RunningServer = {
  process: Bun.Subprocess;
  pid: number;
  baseUrl: string;
  /** Returns a client with the installation's key, or with another. */
  api(key?: string): ApiClient;
  /** Waits until `GET /readyz` reports that the server is ready. */
  ready(): Promise<RunningServer>;
  /** Returns the log of the server. */
  log(): string;
  /** Sends SIGTERM and returns the exit status. */
  stop(): Promise<number>;
  /** Sends SIGKILL and waits until the process has ended. */
  kill(): Promise<void>;
};

export type InstallOptions = {
  /** Environment of every process, with settings in the form `SHRUTI_SECTION_NAME`. Nothing else is inherited. */
  environment?: Record<string, string>;
  /** Working directory of every process. */
  cwd?: string;
  /**
   * The default model: `demo`, of which exact words are known, or `carried`, the one of a fresh installation; default
   * `demo`.
   */
  default?: "demo" | "carried";
  /** Paise granted to the organization; default 1,000,000. */
  creditPaise?: number;
  /** Provides the executable at a path. Default: a link to the built one. */
  place?: (path: string) => Promise<void>;
};

/** Pause between two checks of a state that sends no event. */
const LOOK_EVERY_MS = 20;
/**
 * The pause behind a look that takes long is so many times as long. One that starts a command needs 0.1 s of a processor, which
 * without a pause would be taken from what the test waits for.
 */
const PAUSE_AFTER_LOOK = 3;
const LONGEST_PAUSE_MS = 1_000;

/**
 * Changes a setting in the config file, whether its line is a comment or not.
 *
 * @throws Error when the file has no such line
 */
export function setInConfig(
  { configPath }: Pick<Installation, "configPath">,
  setting: string,
  value: string | boolean,
): void {
  const config = readFileSync(configPath, "utf8");
  const line = new RegExp(`^#? ?${setting} = .*$`, "m");
  if (!line.test(config)) throw new Error(`the config has no line of ${setting}`);
  writeFileSync(
    configPath,
    config.replace(line, () => `${setting} = ${JSON.stringify(value)}`),
  );
}

/** Waits until a condition is true. @throws Error with `what` when it is still false after the time */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  timeoutMs = 60_000,
): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (true) {
    const lookedAt = performance.now();
    if (await isSo()) return;
    const tookMs = performance.now() - lookedAt;
    if (Date.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await Bun.sleep(Math.min(Math.max(LOOK_EVERY_MS, PAUSE_AFTER_LOOK * tookMs), LONGEST_PAUSE_MS));
  }
}

/** Polls until a transcription has one of the states. Default: a final state. */
export async function reached(
  api: ApiClient,
  id: string,
  states: readonly string[] = ["completed", "partial", "failed", "cancelled"],
  timeoutMs = 60_000,
): Promise<Transcription> {
  let latest = await api.get(id);
  await until(
    `${id} is ${states.join(" or ")}`,
    async () => {
      latest = await api.get(id);
      return states.includes(latest.state);
    },
    timeoutMs,
  );
  return latest;
}

/** Sends a recording in the recommended way: create the upload, PUT, complete, and wait when it is large. */
export async function uploaded(api: ApiClient, bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const upload = await api.upload(bytes);
  await until("the upload is verified", async () => {
    const { body } = await api.call<{ state: string }>("GET", `/v1/uploads/${upload.id}`);
    if (body.state === "rejected") throw new Error("the upload was rejected");
    return body.state === "complete";
  });
  return upload.id;
}

/** Makes an installation: executable, config, data directory, first organization and key, credit. */
export async function install(options: InstallOptions = {}): Promise<Installation> {
  const folder = mkdtempSync(join(tmpdir(), "shruti-e2e-"));
  const home = join(folder, "program");
  mkdirSync(home);
  const executable = join(home, "shruti");
  await (options.place ?? placeBinary)(executable);
  const configPath = join(folder, "shruti.toml");
  const dataDir = join(folder, "data");
  const cwd = options.cwd ?? folder;
  const environment = {
    SHRUTI_SERVER_LISTEN: "127.0.0.1:0",
    SHRUTI_STORAGE_RESERVE_BYTES: "0",
    ...options.environment,
  };
  const running = new Set<Bun.Subprocess>();

  const spawn = (args: string[]) => {
    const child = Bun.spawn([executable, ...args], {
      cwd,
      env: environment,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    running.add(child);
    void child.exited.then(() => running.delete(child));
    return child;
  };

  async function command(...args: string[]): Promise<CommandOutcome> {
    const child = spawn([...args, "--config", configPath]);
    const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    return { code, out, err };
  }

  async function output(...args: string[]): Promise<string> {
    const { code, out, err } = await command(...args);
    if (code !== 0) throw new Error(`shruti ${args.join(" ")}: status ${code}: ${err}`);
    return out;
  }

  const json = async <T>(...args: string[]) => JSON.parse(await output(...args, "--json")) as T;

  async function remove(): Promise<void> {
    for (const child of running) child.kill("SIGKILL");
    await Promise.all([...running].map((child) => child.exited));
    // Worker processes of a killed server end by themselves. Those that have not are ended here.
    await until("all processes are gone", () => processesFrom(folder).length === 0, 5_000).catch(() => {
      for (const pid of processesFrom(folder)) process.kill(pid, "SIGKILL");
    });
    rmSync(folder, { recursive: true, force: true });
  }

  try {
    const made = await json<Initialised>("init", "--data", dataDir);
    const paise = options.creditPaise ?? 1_000_000;
    if (options.default !== "carried") await output("models", "default", "demo");
    if (paise > 0) await output("credit", "grant", "--org", made.organization_id, "--paise", String(paise));
    return {
      folder,
      dataDir,
      configPath,
      organizationId: made.organization_id,
      projectId: made.project_id,
      key: made.key,
      command,
      output,
      json,
      serve: () => openServer(spawn(["serve", "--config", configPath]), made.key),
      remove,
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Waits until a server that was spawned listens. @param key of its clients */
export async function openServer(
  child: Bun.Subprocess<"ignore", "pipe", "pipe">,
  key: string,
): Promise<RunningServer> {
  let log = "";
  let isListening = false;
  const listening = Promise.withResolvers<string>();
  listening.promise.catch(() => {});
  void (async () => {
    const decoder = new TextDecoder();
    for await (const bytes of child.stderr) {
      log += decoder.decode(bytes, { stream: true });
      // A long run logs hundreds of megabytes, so the log is read only until the line is found.
      if (isListening) continue;
      const line = log.split("\n").find((each) => each.includes('"msg":"listening"'));
      if (line === undefined) continue;
      isListening = true;
      listening.resolve((JSON.parse(line) as { address: string }).address);
    }
    listening.reject(new Error(`the server ended before it listened:\n${log}`));
  })();
  const baseUrl = await listening.promise;
  const server: RunningServer = {
    process: child,
    pid: child.pid,
    baseUrl,
    api: (bearer = key) =>
      apiClient((path, init = {}) => {
        const headers = new Headers(init.headers);
        if (!headers.has("authorization")) headers.set("authorization", `Bearer ${bearer}`);
        return fetch(`${baseUrl}${path}`, { ...init, headers });
      }),
    async ready() {
      await until("the server is ready", async () => {
        if (!isAlive(child.pid)) throw new Error(`the server has ended:\n${log}`);
        return (await fetch(`${baseUrl}/readyz`)).ok;
      });
      return server;
    },
    log: () => log,
    async stop() {
      child.kill("SIGTERM");
      // The log goes to standard error, so whatever is printed here comes from a library.
      const [printed, status] = await Promise.all([child.stdout.text(), child.exited]);
      if (printed !== "") throw new Error(`the server printed on standard output:\n${printed}`);
      return status;
    },
    async kill() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
  return server;
}
