import { onAbort } from "../lib/abort.ts";
import type { HashReply, HashRequest } from "./file-hash-worker.ts";

type Waiting = { resolve(sha256: string): void; reject(error: unknown): void };
type HashThread = { worker: Worker; waiting: Map<number, Waiting> };

/** The thread exists only while a file is hashed, because it takes about 15 MiB. */
let current: HashThread | undefined;
let lastId = 0;

/**
 * Computes the SHA-256 of a file, lower-case hex. A thread reads and hashes, because 5 GiB take seconds of a core.
 * Files that are hashed at the same time take turns on that thread.
 *
 * @throws the reason of `signal`; Error when the file cannot be read
 */
export async function sha256OfFile(path: string, signal?: AbortSignal): Promise<string> {
  signal?.throwIfAborted();
  current ??= startThread();
  const thread = current;
  lastId += 1;
  const id = lastId;
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  thread.waiting.set(id, { resolve, reject });
  // The thread still answers, and then has closed the file: a thread that is terminated must have no file open.
  const unwatch = onAbort(signal, () => ask(thread, { id, cancel: true }));
  ask(thread, { id, path });
  try {
    return await promise;
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  } finally {
    unwatch();
    thread.waiting.delete(id);
    if (thread.waiting.size === 0) endThread(thread);
  }
}

const ask = ({ worker }: HashThread, request: HashRequest) => worker.postMessage(request);

function startThread(): HashThread {
  const worker = new Worker(workerUrl());
  const waiting: HashThread["waiting"] = new Map();
  const thread = { worker, waiting };
  worker.onmessage = ({ data }: MessageEvent<HashReply>) => {
    if ("sha256" in data) waiting.get(data.id)?.resolve(data.sha256);
    else waiting.get(data.id)?.reject(new Error(data.error));
  };
  worker.onerror = ({ message }) => {
    if (current === thread) current = undefined;
    for (const { reject } of waiting.values()) reject(new Error(`the hashing thread failed: ${message}`));
  };
  return thread;
}

function endThread(thread: HashThread): void {
  if (current === thread) current = undefined;
  thread.worker.terminate();
}

/** Returns the URL of the thread's program. In the executable it is an entry of its own (`scripts/build.ts`). */
function workerUrl(): string {
  const file = Bun.isStandaloneExecutable ? "./store/file-hash-worker.js" : "./file-hash-worker.ts";
  return new URL(file, import.meta.url).href;
}
