import { dlopen, FFIType } from "bun:ffi";
import { setPriority } from "node:os";

/** What a child of ffmpeg's kind may use up. */
export type MediaLimits = {
  /** Wall-clock time until it is killed. */
  timeoutMs: number;
  /** Largest file it may write; without it, it may write none. */
  maxFileBytes?: number;
};

export type MediaOutcome = {
  /** Exit status; null when a signal ended it. */
  status: number | null;
  signal: string | null;
  ended: "by itself" | "aborted" | "timed out" | "output too large";
  /** Last part of its standard error, at most `STDERR_KEPT_CHARACTERS`. */
  stderr: string;
};

/** Enough for the levels of 32 channels at the end, however much a damaged file makes ffmpeg complain before them. */
export const STDERR_KEPT_CHARACTERS = 256 * 1024;

/** The largest of our inputs took 20 MB; a crafted one must not take the host's memory. */
const MAX_ADDRESS_SPACE_BYTES = 1024 * 1024 * 1024;
const NICENESS = 10;

/**
 * Runs ffmpeg or ffprobe to its end under limits: wall-clock time, CPU time, address space, file size, niceness, an
 * empty environment, no core dump. It is killed at once on abort, and has ended when the promise settles.
 *
 * @param onStdout gets each piece of standard output; false kills the child ("output too large")
 * @throws what `Bun.spawn` throws when the program cannot be started
 */
export async function runMediaProgram(
  command: string[],
  limits: MediaLimits,
  onStdout: (text: string) => boolean,
  signal?: AbortSignal,
): Promise<MediaOutcome> {
  if (signal?.aborted) return { status: null, signal: null, ended: "aborted", stderr: "" };
  const child = Bun.spawn(command, {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    // One arena: glibc else reserves 64 MiB of address space for each of ffmpeg's threads.
    env: { MALLOC_ARENA_MAX: "1", LC_ALL: "C" },
  });
  restrain(child.pid, limits);
  let ended: MediaOutcome["ended"] = "by itself";
  const kill = (reason: MediaOutcome["ended"]) => {
    if (ended === "by itself" && child.exitCode === null && child.signalCode === null) ended = reason;
    child.kill("SIGKILL");
  };
  const onAbort = () => kill("aborted");
  signal?.addEventListener("abort", onAbort, { once: true });
  const timer = setTimeout(() => kill("timed out"), limits.timeoutMs);
  try {
    const [, stderr] = await Promise.all([
      readAll(child.stdout, (text) => onStdout(text) || kill("output too large")),
      readTail(child.stderr),
      child.exited,
    ]);
    return { status: child.exitCode, signal: child.signalCode as string | null, ended, stderr };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
  }
}

async function readAll(stream: ReadableStream<Uint8Array>, take: (text: string) => unknown): Promise<void> {
  const decoder = new TextDecoder();
  for await (const bytes of stream) take(decoder.decode(bytes, { stream: true }));
}

async function readTail(stream: ReadableStream<Uint8Array>): Promise<string> {
  let tail = "";
  await readAll(stream, (text) => {
    tail = (tail + text).slice(-STDERR_KEPT_CHARACTERS);
  });
  return tail;
}

/** Numbers of setrlimit(2) on Linux. */
const RLIMIT = { cpu: 0, fileSize: 1, core: 4, addressSpace: 9 } as const;

let setLimit: ((pid: number, resource: number, limit: bigint) => void) | undefined;

/**
 * Linux can limit another process (prlimit(2)), so that no shell is needed, which a bare host may lack. The child has
 * run for a moment by then, but has not read the file's content yet. Elsewhere only time and niceness hold.
 */
function restrain(pid: number, limits: MediaLimits): void {
  try {
    setPriority(pid, NICENESS);
  } catch {
    // It has ended already, or the system refuses: slower neighbours, nothing worse.
  }
  if (process.platform !== "linux") return;
  setLimit ??= openPrlimit();
  setLimit(pid, RLIMIT.cpu, BigInt(Math.ceil(limits.timeoutMs / 1000) + 1));
  setLimit(pid, RLIMIT.fileSize, BigInt(limits.maxFileBytes ?? 0));
  setLimit(pid, RLIMIT.core, 0n);
  setLimit(pid, RLIMIT.addressSpace, BigInt(MAX_ADDRESS_SPACE_BYTES));
}

function openPrlimit(): (pid: number, resource: number, limit: bigint) => void {
  const { symbols } = dlopen("libc.so.6", {
    prlimit: { args: [FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 },
  });
  return (pid, resource, limit) => {
    symbols.prlimit(pid, resource, new BigUint64Array([limit, limit]), null);
  };
}
