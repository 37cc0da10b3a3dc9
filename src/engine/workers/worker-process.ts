import type { Subprocess } from "bun";
import { CHILD_FOLDER } from "../../lib/child-folder.ts";
import { ownCommand } from "../../lib/own-executable.ts";
import { WORKER_COMMAND, type WorkerReply, type WorkerRequest } from "../protocol.ts";
import { workerEnvironment } from "./worker-environment.ts";

/** The end of a worker process: its exit status or the signal that ended it. */
export type WorkerExit = { code: number | null; signal: string | null };

export type WorkerProcess = {
  pid: number;
  /** Sends a message; does nothing once the process has ended. */
  send(request: WorkerRequest): void;
  /** Ends the process at once with SIGKILL. */
  kill(): void;
  /** Resolves when the process has ended. */
  exited: Promise<WorkerExit>;
};

/**
 * Starts this program again as a worker process.
 *
 * @param onReply receives every message, in order
 * @param log receives the lines that the process writes to standard error
 * @throws what `Bun.spawn` throws when no process can be started
 */
export function spawnWorker(
  onReply: (reply: WorkerReply) => void,
  log: (line: string) => void,
): WorkerProcess {
  const child: Subprocess<"ignore", "ignore", "pipe"> = Bun.spawn(ownCommand(WORKER_COMMAND), {
    // The name that `ps` shows.
    argv0: process.execPath,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
    env: workerEnvironment(process.env),
    cwd: CHILD_FOLDER,
    ipc: (message) => onReply(message as WorkerReply),
  });
  // The pipe breaks when the process ends, which `exited` reports.
  relay(child.stderr, log).catch(() => {});
  return {
    pid: child.pid,
    send: (request) => {
      // `exited` reports a process that has just ended, so writing to it must not be a second error.
      try {
        child.send(request);
      } catch (error) {
        // For some milliseconds before that, its channel is closed already.
        if ((error as NodeJS.ErrnoException).code !== "ERR_IPC_CHANNEL_CLOSED") throw error;
      }
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

/** Passes on the first lines of a stream, and reads the rest so that the writer never blocks. */
export async function relay(stream: ReadableStream<Uint8Array>, log: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let count = 0;
  const pass = (line: string) => {
    if (line.trim() !== "" && count++ < MAX_LINES) log(line.slice(0, MAX_LINE_LENGTH));
  };
  let unfinished = "";
  for await (const bytes of stream) {
    const lines = (unfinished + decoder.decode(bytes, { stream: true })).split("\n");
    // A line may come in many parts, and may have no end.
    unfinished = (lines.pop() ?? "").slice(0, MAX_LINE_LENGTH);
    for (const line of lines) pass(line);
  }
  pass(unfinished);
}
