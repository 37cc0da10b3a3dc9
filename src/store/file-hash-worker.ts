import { closeSync, openSync, readSync } from "node:fs";

/** The thread of `file-hash.ts`. It hashes files block by block through one buffer; several files take turns. */

/** A request to hash a file, or to cancel that. */
export type HashRequest = { id: number; path: string } | { id: number; cancel: true };
/** The answer, one for each file. The file is closed by then. */
export type HashReply = { id: number; sha256: string } | { id: number; error: string };

type Job = { descriptor: number; hasher: Bun.CryptoHasher };

/** Bytes that are hashed of each file in turn. A small file waits for this much of each larger one. */
const BLOCK_BYTES = 1024 * 1024;

declare const self: Worker;

const block = new Uint8Array(BLOCK_BYTES);
const jobs = new Map<number, Job>();
let isRunning = false;

self.onmessage = ({ data }: MessageEvent<HashRequest>) => {
  if ("cancel" in data) finish({ id: data.id, error: "cancelled" });
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
    for (const [id, job] of jobs) hashBlock(id, job);
    // Messages are received between two rounds.
    await new Promise((resolve) => setImmediate(resolve));
  }
  isRunning = false;
}

function hashBlock(id: number, { descriptor, hasher }: Job): void {
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
