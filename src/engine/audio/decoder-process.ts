import { onAbort } from "../../lib/abort.ts";
import { CHILD_FOLDER } from "../../lib/child-folder.ts";
import { requireOneUser } from "../../lib/rights.ts";
import { decoderEnvironment } from "./decoder-environment.ts";

/** The end of a decoder process. */
export type DecoderOutcome = {
  /** One object of numbers, and of names that the decoder defines; undefined when the process wrote none. */
  report: Record<string, unknown> | undefined;
  /** Exit status; null when a signal ended the process. */
  status: number | null;
  signal: string | null;
  ended: "by itself" | "aborted" | "timed out";
};

export type DecoderLimits = {
  /** Milliseconds after which the process is killed. */
  timeoutMs: number;
  signal?: AbortSignal | undefined;
  /** Receives the length of the audio decoded so far, in milliseconds, about twice a second. */
  onProgress?: ((doneMs: number) => void) | undefined;
};

/** A report of 32 tracks takes 3 KiB. */
const MAX_LINE_CHARACTERS = 64 * 1024;

/**
 * Starts a decoder, of which this process reads the output.
 *
 * @param command absolute paths only: the decoder does not start in this process's folder
 * @throws what `Bun.spawn` throws when the program cannot be started
 */
export function startDecoder(command: string[]) {
  requireOneUser();
  return Bun.spawn(command, {
    ...{ stdin: "ignore", stdout: "pipe", stderr: "ignore", env: decoderEnvironment() },
    cwd: CHILD_FOLDER,
  });
}

/**
 * Runs the decoder (src/native/decoder) to its end. The decoder limits itself before it reads the recording:
 * processor time in proportion to bytes and claimed duration, address space, file size, niceness, and no core dump. The
 * kernel kills it first when memory is short, and when this process ends. An abort kills it at once. It has ended when
 * the promise settles.
 *
 * @param command as for `startDecoder`
 * @throws as `startDecoder`
 */
export async function runDecoder(command: string[], limits: DecoderLimits): Promise<DecoderOutcome> {
  const { timeoutMs, signal, onProgress } = limits;
  if (signal?.aborted) return { report: undefined, status: null, signal: null, ended: "aborted" };
  const child = startDecoder(command);
  let ended: DecoderOutcome["ended"] = "by itself";
  const kill = (reason: DecoderOutcome["ended"]) => {
    if (ended === "by itself" && child.exitCode === null && child.signalCode === null) ended = reason;
    child.kill("SIGKILL");
  };
  const unwatch = onAbort(signal, () => kill("aborted"));
  const timer = setTimeout(() => kill("timed out"), timeoutMs);
  try {
    const [report] = await Promise.all([readReport(child.stdout, onProgress), child.exited]);
    return { report, status: child.exitCode, signal: child.signalCode as string | null, ended };
  } finally {
    clearTimeout(timer);
    unwatch();
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
  }
}

/** Reads lines of JSON and passes on those that report progress. The last other line is the report. */
async function readReport(
  stream: ReadableStream<Uint8Array>,
  onProgress: DecoderLimits["onProgress"],
): Promise<Record<string, unknown> | undefined> {
  const decoder = new TextDecoder();
  let unfinished = "";
  let report: Record<string, unknown> | undefined;
  for await (const bytes of stream) {
    const lines = (unfinished + decoder.decode(bytes, { stream: true })).split("\n");
    unfinished = (lines.pop() ?? "").slice(-MAX_LINE_CHARACTERS);
    for (const line of lines) {
      const parsed = JSON.parse(line) as Record<string, unknown>;
      if (typeof parsed.done_ms === "number") onProgress?.(parsed.done_ms);
      else report = parsed;
    }
  }
  return report;
}
