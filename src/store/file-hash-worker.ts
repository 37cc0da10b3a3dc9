import { closeSync, openSync, readSync } from "node:fs";

/** The thread of `file-hash.ts`: hashes files block by block, several by turns, through one buffer. */

/** What the thread is asked: to hash a file, or to leave one off. */
export type HashRequest = { id: number; path: string } | { id: number; cancel: true };
/** What it answers, once for each file, which is closed then. */
export type HashReply = { id: number; sha256: string } | { id: number; error: string };

type Job = { descriptor: number; hasher: Bun.CryptoHasher };

/** A small file waits for so much of each larger one. */
const BLOCK_BYTES = 1024 * 1024;

declare const self: Worker;

const block = new Uint8Array(BLOCK_BYTES);
const jobs = new Map<number, Job>();
let isRunning = false;

self.onmessage = ({ data }: MessageEvent<HashRequest>) => {
  if ("cancel" in data) finish({ id: data.id, error: "left off" });
  else start(data.id, data.path);
};

function start(id: number, path: string): void {
  try {
    jobs.set(id, { descriptor: openSync(path, "r"), hasher: new Bun.CryptoHasher("sha256") });
  } catch (error) {
    self.postMessage({ id, error: String(error) } satisfies HashReply);
  }
  if (!isRunning) void run();
}

async function run(): Promise<void> {
  isRunning = true;
  while (jobs.size > 0) {
    for (const [id, job] of jobs) goOn(id, job);
    // New requests are heard between two rounds.
    await new Promise((resolve) => setImmediate(resolve));
  }
  isRunning = false;
}

function goOn(id: number, { descriptor, hasher }: Job): void {
  try {
    const bytes = readSync(descriptor, block, 0, block.length, null);
    if (bytes > 0) hasher.update(block.subarray(0, bytes));
    else finish({ id, sha256: hasher.digest("hex") });
  } catch (error) {
    finish({ id, error: String(error) });
  }
}

function finish(reply: HashReply): void {
  const job = jobs.get(reply.id);
  if (!job) return;
  jobs.delete(reply.id);
  closeSync(job.descriptor);
  self.postMessage(reply);
}
