import type { Subprocess } from "bun";
import { WORKER_COMMAND, type WorkerReply, type WorkerRequest } from "./protocol.ts";
import { workerEnvironment } from "./worker-environment.ts";

/** How a worker ended. */
export type WorkerExit = { code: number | null; signal: string | null };

export type WorkerProcess = {
  pid: number;
  send(request: WorkerRequest): void;
  kill(): void;
  /** Settles when the process is gone. */
  exited: Promise<WorkerExit>;
};

/**
 * The file this process was started from, also when an update has put another one in its place or removed it:
 * parent and worker must speak the same protocol.
 */
const OWN_EXECUTABLE = process.platform === "linux" ? "/proc/self/exe" : process.execPath;

/**
 * Starts a child of this same program as a worker.
 *
 * @param onReply called for every message, in order
 */
export function spawnWorker(
  onReply: (reply: WorkerReply) => void,
  log: (line: string) => void,
): WorkerProcess {
  const command = Bun.isStandaloneExecutable
    ? [OWN_EXECUTABLE, WORKER_COMMAND]
    : [process.execPath, `${import.meta.dir}/../main.ts`, WORKER_COMMAND];
  const child: Subprocess<"ignore", "ignore", "pipe"> = Bun.spawn(command, {
    // What `ps` shows.
    argv0: process.execPath,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
    env: workerEnvironment(process.env),
    ipc: (message) => onReply(message as WorkerReply),
  });
  // A broken pipe is the worker's end, which is noticed through `exited`.
  relay(child.stderr, log).catch(() => {});
  return {
    pid: child.pid,
    send: (request) => {
      // A worker that has just died is noticed through `exited`; writing to it is no second error.
      if (child.exitCode === null && child.signalCode === null) child.send(request);
    },
    kill: () => child.kill("SIGKILL"),
    exited: child.exited.then(() => ({
      code: child.exitCode,
      signal: child.signalCode === null ? null : String(child.signalCode),
    })),
  };
}

const MAX_LINE_LENGTH = 500;
const MAX_LINES = 200;

/** Passes on the first lines a worker writes to standard error, and reads the rest so that it never blocks. */
export async function relay(stream: ReadableStream<Uint8Array>, log: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let count = 0;
  const pass = (line: string) => {
    if (line.trim() !== "" && count++ < MAX_LINES) log(line.slice(0, MAX_LINE_LENGTH));
  };
  let unfinished = "";
  for await (const bytes of stream) {
    const lines = (unfinished + decoder.decode(bytes, { stream: true })).split("\n");
    // A line may come in many parts, and without an end.
    unfinished = (lines.pop() ?? "").slice(0, MAX_LINE_LENGTH);
    for (const line of lines) pass(line);
  }
  pass(unfinished);
}
