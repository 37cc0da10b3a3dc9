import { createHash, type Hash } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { freeBytesOf } from "./disk-space.ts";

export type DownloadOptions = {
  /** Address of the file. */
  url: string;
  /** What is known of the file. Without a SHA-256 a download begins again instead of being resumed. */
  expected: { bytes?: number; sha256?: string };
  /** Path of the file. Until the file is complete and verified, its name ends in `.part`. */
  path: string;
  /** @param total undefined: not known yet */
  onProgress?: (bytes: number, total: number | undefined) => void;
  /** Bytes that stay free on the disk. */
  reserveBytes?: number;
  /** A connection without data for this time is closed, and the download is resumed. */
  stallMs?: number;
  /** Pause before the next connection, multiplied by the number of failures. */
  retryMs?: number;
};

const MAX_FRUITLESS_TRIES = 5;

/** A failure that another request would not change. */
class FinalError extends Error {}

/** The state of a download over several connections. */
type Progress = { file: FileHandle; hash: Hash; bytes: number; total: number | undefined };

/**
 * Downloads a file, continues where an earlier call or connection stopped, and checks its size and SHA-256. It follows
 * redirections, and uses the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name.
 *
 * @returns the SHA-256, lower-case hex
 * @throws Error after five connections in a row without data; when the received bytes are not the file, which are
 *   removed then; when the disk is full
 */
export async function download(options: DownloadOptions): Promise<string> {
  const { expected, path } = options;
  const part = `${path}.part`;
  // Without a hash, a beginning of another file would go unnoticed.
  if (expected.sha256 === undefined) await rm(part, { force: true });
  const { O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW } = constants;
  // Another person may have put a link into the folder.
  const file = await open(part, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, 0o666);
  try {
    const progress: Progress = { file, hash: createHash("sha256"), bytes: 0, total: expected.bytes };
    progress.bytes = await hashExisting(file, progress.hash);
    if (progress.bytes < (expected.bytes ?? Number.POSITIVE_INFINITY)) await receiveAll(options, progress);
    const sha256 = progress.hash.digest("hex");
    const isSize = expected.bytes === undefined || progress.bytes === expected.bytes;
    if (!isSize || (expected.sha256 !== undefined && sha256 !== expected.sha256)) {
      await rm(part);
      throw new Error(`the downloaded bytes are not the file: ${progress.bytes} bytes, SHA-256 ${sha256}`);
    }
    await file.sync();
    await rename(part, path);
    return sha256;
  } finally {
    await file.close();
  }
}

async function receiveAll(options: DownloadOptions, progress: Progress): Promise<void> {
  for (let fruitless = 0; ; ) {
    const before = progress.bytes;
    try {
      return await receiveRest(options, progress);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOSPC")
        throw new FinalError(`the disk of ${options.path} is full`);
      fruitless = progress.bytes > before ? 0 : fruitless + 1;
      if (error instanceof FinalError || fruitless >= MAX_FRUITLESS_TRIES) throw error;
      if (options.expected.sha256 === undefined && progress.bytes > 0) await startOver(progress);
      await Bun.sleep((options.retryMs ?? 2_000) * Math.max(1, fruitless));
    }
  }
}

async function startOver(progress: Progress): Promise<void> {
  await progress.file.truncate(0);
  progress.hash = createHash("sha256");
  progress.bytes = 0;
}

async function hashExisting(file: FileHandle, hash: Hash): Promise<number> {
  const buffer = new Uint8Array(1024 * 1024);
  let bytes = 0;
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, bytes);
    if (bytesRead === 0) return bytes;
    hash.update(buffer.subarray(0, bytesRead));
    bytes += bytesRead;
  }
}

/** Makes one connection. Received bytes are in the file and in the hash even when the connection breaks. */
async function receiveRest(options: DownloadOptions, progress: Progress): Promise<void> {
  const { url, stallMs = 60_000 } = options;
  const stalled = new AbortController();
  const watch = () => setTimeout(() => stalled.abort(new Error("the connection stalled")), stallMs);
  let timer = watch();
  try {
    const headers = progress.bytes > 0 ? { range: `bytes=${progress.bytes}-` } : {};
    const response = await fetch(url, { signal: stalled.signal, headers });
    const total = totalOf(response, progress);
    if (total === progress.bytes) return;
    progress.total = total;
    requireSpace(options, progress);
    for await (const slice of response.body ?? []) {
      clearTimeout(timer);
      timer = watch();
      if (total !== undefined && progress.bytes + slice.length > total) {
        throw new FinalError("the server sends more than the file has");
      }
      await progress.file.appendFile(slice);
      progress.hash.update(slice);
      progress.bytes += slice.length;
      options.onProgress?.(progress.bytes, total);
    }
    if (total !== undefined && progress.bytes < total) throw new Error("the connection ended too early");
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Checks that a response continues the file, and returns the size of the whole file where it is known.
 *
 * @throws FinalError, or Error where another request may help
 */
function totalOf(response: Response, { bytes, total }: Progress): number | undefined {
  const { status } = response;
  const range = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(response.headers.get("content-range") ?? "");
  // Everything is there already: the size was not known.
  if (status === 416 && bytes > 0 && total === undefined) return bytes;
  if (status >= 400 && status < 500 && status !== 429) throw new FinalError(`the server answers ${status}`);
  if (status === 200 && bytes === 0) {
    // The length of a packed response is not that of the file.
    const isPacked = response.headers.has("content-encoding");
    const length = Number(response.headers.get("content-length") ?? Number.NaN);
    return total ?? (isPacked || !Number.isSafeInteger(length) ? undefined : length);
  }
  if (status === 206 && range) {
    const [from, to, size] = range.slice(1).map(Number);
    if (from === bytes && to === (size ?? 0) - 1 && (total === undefined || size === total)) return size;
  }
  if (status === 200) throw new FinalError("the server cannot resume: remove the .part file to start over");
  throw new Error(`the server answers ${status}`);
}

function requireSpace({ path, reserveBytes = 0 }: DownloadOptions, { bytes, total }: Progress): void {
  if (total === undefined) return;
  const free = freeBytesOf(dirname(path)) - reserveBytes;
  if (total - bytes <= free) return;
  const megabytes = (value: number) => Math.ceil(Math.max(0, value) / 1e6);
  throw new FinalError(
    `the disk of ${path} has not enough space: ${megabytes(total - bytes)} MB are needed, ${megabytes(free)} MB are free`,
  );
}
