import { readFileSync, rmSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import type { Subprocess } from "bun";
import { CHILD_FOLDER } from "../lib/child-folder.ts";
import { unfinishedPath } from "../lib/durable-files.ts";
import { makeFolder } from "../lib/give-to-owner.ts";
import { ownCommand } from "../lib/own-executable.ts";
import type { Imported } from "./convert.ts";
import { IMPORT_COMMAND, type ImportReply, type ImportRequest } from "./protocol.ts";

/** The process is ended when it has more memory than this. A model in the shape of Whisper large needs a tenth. */
export const MAX_IMPORT_BYTES = 1_500_000_000;
const WATCH_MS = 50;
const FOLDER_MODE = 0o755;

/** The source cannot be imported. The message names the file at fault and the reason. */
export class RefusedImport extends Error {}

export type ImportJob = Pick<ImportRequest, "kind" | "source" | "type" | "reserveBytes"> & {
  /** The folder of models: the file and, for a while, unpacked ones are written there. */
  directory: string;
  /** Nothing is written. */
  isDryRun: boolean;
  onProgress: (done: number) => void;
  /** Replaced in tests. */
  maxBytes?: number;
};

/** A file under a temporary name, with what it was made of; `path` is undefined after a dry run. */
export type StagedImport = Imported & {
  path: string | undefined;
  /** Most memory that the process had, bytes. */
  peakBytes: number;
};

/**
 * Imports a model in a child process: it parses files of unknown origin, so it receives no variables of the environment,
 * has bounded memory, and ends with its parent. A file that is not finished is removed, also when this program is ended.
 *
 * @throws RefusedImport when the source is at fault; Error when the machine is
 */
export async function runImport({
  directory,
  isDryRun,
  onProgress,
  maxBytes,
  ...job
}: ImportJob): Promise<StagedImport> {
  makeFolder(directory, FOLDER_MODE);
  const output = isDryRun ? undefined : unfinishedPath(directory);
  const scratch = unfinishedPath(directory);
  await mkdir(scratch, { mode: 0o700 });
  const discard = () => {
    rmSync(scratch, { recursive: true, force: true });
    if (output !== undefined) rmSync(output, { force: true });
  };
  process.on("exit", discard);
  try {
    const { imported, peakBytes } = await runChild(
      { ...job, output, scratch },
      onProgress,
      maxBytes ?? MAX_IMPORT_BYTES,
    );
    return { ...imported, path: output, peakBytes };
  } catch (error) {
    if (output !== undefined) await rm(output, { force: true });
    throw error;
  } finally {
    process.off("exit", discard);
    await rm(scratch, { recursive: true, force: true });
  }
}

type Finished = { imported: Imported; peakBytes: number };

async function runChild(
  request: ImportRequest,
  onProgress: (done: number) => void,
  maxBytes: number,
): Promise<Finished> {
  let reply: Exclude<ImportReply, { type: "progress" }> | undefined;
  const child = spawnChild((message) => {
    if (message.type === "progress") return onProgress(message.done);
    reply = message;
    child.kill("SIGKILL");
  });
  const memory = watchMemory(child, maxBytes);
  child.send(request);
  await child.exited;
  memory.stop();
  if (memory.isExceeded()) {
    throw new RefusedImport(
      `${request.source}: reading it needs more than ${Math.round(maxBytes / 1e6)} MB of memory`,
    );
  }
  if (!reply)
    throw new Error(`The process that imports the model ended (${child.signalCode ?? child.exitCode}).`);
  if (reply.type === "failed")
    throw reply.isInput ? new RefusedImport(reply.reason) : new Error(reply.reason);
  return { imported: reply.imported, peakBytes: memory.peak() };
}

type Child = Subprocess<"ignore", "ignore", "inherit">;

function spawnChild(onReply: (reply: ImportReply) => void): Child {
  return Bun.spawn(ownCommand(IMPORT_COMMAND), {
    argv0: process.execPath,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "inherit",
    env: {},
    cwd: CHILD_FOLDER,
    ipc: (message) => onReply(message as ImportReply),
  });
}

/** Ends a process that takes more memory than it may have. */
function watchMemory(child: Child, maxBytes: number) {
  let peak = 0;
  let isExceeded = false;
  const timer = setInterval(() => {
    peak = Math.max(peak, peakBytesOf(child.pid));
    if (peak <= maxBytes) return;
    isExceeded = true;
    child.kill("SIGKILL");
  }, WATCH_MS);
  return { stop: () => clearInterval(timer), peak: () => peak, isExceeded: () => isExceeded };
}

/** Returns the most memory that a process has had; 0 where the system does not say. */
function peakBytesOf(pid: number): number {
  try {
    const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    return Number(kilobytes ?? 0) * 1024;
  } catch {
    return 0;
  }
}
