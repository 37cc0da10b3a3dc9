import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { programEnvironment } from "../../../src/testing/rules/test-variables.ts";

export type ShrutiOptions = {
  executable: string;
  folder: string;
  port: number;
  synchronousWorkers: number;
  /** Further settings, by the names of their variables. */
  environment?: Record<string, string>;
  /** A GPU's library; left out: none. */
  backend?: string;
  /** The only processor that it may use, by its number; left out: all. */
  processor?: number;
};

/** `isWhisper`: it is decoded as the peers do, greedily and without second attempts; left out: yes. */
export type BenchedModel = { id: string; path: string; isWhisper?: boolean };

/** A folder with a configuration, models and a key. */
export type PreparedShruti = { config: string; key: string };

/** The time of a transcription, by step. */
export type ShrutiRun = {
  wallMs: number;
  preparingMs: number;
  transcribingMs: number;
  finalizingMs: number;
  segments: number;
  /** Words of the text. */
  words: number;
};

/** CPU seconds since the start of each process: the server with its decoders, and the worker processes by process id. */
export type CpuSeconds = { server: number; workers: Map<string, number> };

export type Shruti = {
  /** Uploads a file. This is not part of the comparison, because whisper-cli reads the file from the disk. */
  upload(wav: string): Promise<string>;
  transcribe(uploadId: string, model: string): Promise<ShrutiRun>;
  /** Starts a transcription, and returns its id. */
  start(uploadId: string, model: string): Promise<string>;
  cancel(id: string): Promise<void>;
  transcribeNow(wav: string, model: string): Promise<string>;
  /** Measures one request for a transcription's state, milliseconds. */
  timeGet(id: string): Promise<number>;
  /** Returns how many chunks wait for a slot. */
  chunksWaiting(): Promise<number>;
  lastId(): string;
  cpuSeconds(): CpuSeconds;
  /** Starts a new measurement of the memory. */
  forgetMemory(): void;
  /** Returns the sum of the most memory that each living process has had, mapped files included, MB. */
  mostMemory(): number;
  stop(): Promise<void>;
};

type Transcription = { id: string; state: string; finished_at: string | null; error?: { message: string } };

/** Starts the compiled program in a new folder, with added models. */
export async function startShruti(options: ShrutiOptions, models: readonly BenchedModel[]): Promise<Shruti> {
  return serveShruti(options, prepareShruti(options, models));
}

/** Makes a new folder with added models. */
export function prepareShruti(
  { executable, folder, backend }: ShrutiOptions,
  models: readonly BenchedModel[],
): PreparedShruti {
  const config = join(folder, "shruti.toml");
  const command = (...args: string[]): string => {
    const outcome = Bun.spawnSync([executable, ...args, "--config", config], {
      ...{ env: programEnvironment(), stdin: "ignore" },
    });
    if (!outcome.success) throw new Error(`shruti ${args.join(" ")}: ${outcome.stderr.toString()}`);
    return outcome.stdout.toString();
  };
  const made = JSON.parse(command("init", "--data", join(folder, "data"), "--json")) as {
    key: string;
    organization_id: string;
  };
  command("credit", "grant", "--org", made.organization_id, "--paise", "100000000");
  for (const { id, path, isWhisper = true } of models) {
    // Their words are the same for every window, which no trial accepts.
    const given = ["--id", id, "--language", isWhisper ? "en:native+verbatim" : "en", "--no-trial"];
    command("models", "add", path, ...given, "--licence", "none", "--source", "benchmark");
    if (isWhisper) sameDecoding(join(folder, "data/models", `${id}.toml`));
  }
  if (backend !== undefined) {
    mkdirSync(join(folder, "data/backends"), { recursive: true });
    copyFileSync(backend, join(folder, "data/backends", basename(backend)));
  }
  return { config, key: made.key };
}

/** Starts the compiled program in a prepared folder. */
export async function serveShruti(options: ShrutiOptions, prepared: PreparedShruti): Promise<Shruti> {
  const { executable, port, processor } = options;
  const { config, key } = prepared;
  const child = Bun.spawn([...onProcessor(processor), executable, "serve", "--config", config], {
    env: {
      ...programEnvironment(),
      SHRUTI_SERVER_LISTEN: `127.0.0.1:${port}`,
      SHRUTI_ENGINE_SYNCHRONOUS_WORKERS: String(options.synchronousWorkers),
      SHRUTI_LOG_LEVEL: "warn",
      SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0",
      ...options.environment,
    },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "inherit",
  });
  const baseUrl = `http://127.0.0.1:${port}`;
  try {
    await untilReady(baseUrl);
  } catch (error) {
    child.kill();
    throw error;
  }
  return client(baseUrl, key, child);
}

/** Returns the beginning of a command that may use one processor, by its number, or all where it is left out. */
export const onProcessor = (processor: number | undefined): string[] =>
  processor === undefined ? [] : ["taskset", "-c", String(processor)];

/** Greedy and without second attempts, the same settings as for the peers. */
function sameDecoding(manifest: string): void {
  const text = readFileSync(manifest, "utf8").replace(/\n\[decoding\][\s\S]*$/, "\n");
  const decoding =
    "beam_size = 1\ntemperature_increment = 0\nentropy_threshold = 0\naccepts_prompt = false\n";
  writeFileSync(manifest, `${text}\n[decoding]\n${decoding}`);
}

async function untilReady(baseUrl: string): Promise<void> {
  for (let attempt = 0; attempt < 600; attempt++) {
    const isReady = await fetch(`${baseUrl}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) return;
    await Bun.sleep(100);
  }
  throw new Error("the server did not become ready");
}

function client(baseUrl: string, key: string, child: Bun.Subprocess): Shruti {
  let lastId = "";
  const headers = { authorization: `Bearer ${key}` };
  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const response = await fetch(`${baseUrl}${path}`, {
      method,
      headers: { ...headers, ...(body ? { "content-type": "application/json" } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  };
  const start = (uploadId: string, model: string) =>
    call<Transcription>("POST", "/v1/transcriptions", {
      audio: { upload_id: uploadId },
      language: "en",
      model,
    });
  return {
    async upload(wav) {
      const file = Bun.file(wav);
      const created = await call<{
        id: string;
        upload: { url: string; headers: Record<string, string> };
      }>("POST", "/v1/uploads", { bytes: file.size });
      const sent = await fetch(created.upload.url, {
        method: "PUT",
        headers: created.upload.headers,
        body: file,
      });
      if (!sent.ok) throw new Error(`upload: ${sent.status}`);
      await call("POST", `/v1/uploads/${created.id}/complete`);
      while ((await call<{ state: string }>("GET", `/v1/uploads/${created.id}`)).state !== "complete")
        await Bun.sleep(50);
      return created.id;
    },

    async transcribe(uploadId, model) {
      const startedMs = Date.now();
      const spent: Record<string, number> = {};
      let now = await start(uploadId, model);
      lastId = now.id;
      let seenMs = Date.now();
      while (!["completed", "partial", "failed", "cancelled"].includes(now.state)) {
        const { state } = now;
        await Bun.sleep(POLL_MS);
        now = await call<Transcription>("GET", `/v1/transcriptions/${now.id}`);
        const at = Date.now();
        spent[state] = (spent[state] ?? 0) + at - seenMs;
        seenMs = at;
      }
      if (now.state !== "completed") throw new Error(`${now.state}: ${now.error?.message}`);
      // The server's own time of the end is exact, although it is polled seldom.
      const wallMs = Date.parse(now.finished_at ?? "") - startedMs;
      const result = await call<{ segments: { text: string }[] }>(
        "GET",
        `/v1/transcriptions/${now.id}/result`,
      );
      return {
        wallMs,
        preparingMs: (spent.queued ?? 0) + (spent.preparing ?? 0),
        transcribingMs: spent.transcribing ?? 0,
        finalizingMs: spent.finalizing ?? 0,
        segments: result.segments.length,
        words: wordsIn(result.segments.map(({ text }) => text).join(" ")),
      };
    },

    start: async (uploadId, model) => (await start(uploadId, model)).id,

    async cancel(id) {
      await call("POST", `/v1/transcriptions/${id}/cancel`);
    },

    async transcribeNow(wav, model) {
      const form = new FormData();
      form.append("file", new File([await Bun.file(wav).arrayBuffer()], basename(wav)));
      form.append("language", "en");
      form.append("model", model);
      const response = await fetch(`${baseUrl}/v1/audio/transcriptions`, {
        method: "POST",
        headers,
        body: form,
      });
      if (!response.ok) throw new Error(`synchronous: ${response.status} ${await response.text()}`);
      return ((await response.json()) as { text: string }).text;
    },

    async timeGet(id) {
      const startedMs = performance.now();
      await call("GET", `/v1/transcriptions/${id}`);
      return performance.now() - startedMs;
    },

    async chunksWaiting() {
      const text = await (await fetch(`${baseUrl}/metrics`)).text();
      return Number(/^shruti_engine_chunks_waiting (\d+)/m.exec(text)?.[1]);
    },

    lastId: () => lastId,
    cpuSeconds: () => cpuOf(child.pid),
    forgetMemory: () => processesOf(child.pid).forEach(forgetMemoryOf),
    mostMemory: () => processesOf(child.pid).reduce((sum, pid) => sum + mostMemoryOf(pid), 0),

    async stop() {
      child.kill("SIGTERM");
      await child.exited;
    },
  };
}

/** Counts the words of a text. */
export const wordsIn = (text: string): number => text.split(/\s+/).filter(Boolean).length;

const TICKS_PER_SECOND = 100;
/** Polls like a client. Every request is work of the server besides the recording. */
const POLL_MS = 250;

/** Reads from /proc the server with its ended children (decoders), and its living children. */
function cpuOf(pid: number): CpuSeconds {
  const [, ...children] = processesOf(pid).map(String);
  const server = ticksOf(pid);
  return {
    server: ((server?.own ?? 0) + (server?.reaped ?? 0)) / TICKS_PER_SECOND,
    workers: new Map(children.map((child) => [child, (ticksOf(Number(child))?.own ?? 0) / TICKS_PER_SECOND])),
  };
}

/** Returns a process and its living children. */
function processesOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
  return [pid, ...children.map(Number)];
}

function forgetMemoryOf(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, "5");
  } catch {
    // It has ended meanwhile.
  }
}

function mostMemoryOf(pid: number): number {
  try {
    const [, kilobytes] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return Number(kilobytes ?? 0) / 1024;
  } catch {
    return 0;
  }
}

function ticksOf(pid: number): { own: number; reaped: number } | undefined {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /, "")
      .split(" ")
      .map(Number);
    const [user = 0, system = 0, reapedUser = 0, reapedSystem = 0] = fields.slice(11, 15);
    return { own: user + system, reaped: reapedUser + reapedSystem };
  } catch {
    return undefined;
  }
}
