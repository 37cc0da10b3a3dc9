import type { FileHandle } from "node:fs/promises";
import { errorMessage } from "../../lib/error-message.ts";
import { readFully, writeFully } from "../../lib/file-bytes.ts";
import { contentRangeHeader, type Piece, piecesOf, rangeHeader } from "../pieces.ts";
import { readExactBody } from "./exact-body.ts";

/** A file of the control plane. */
export type RemoteFile = {
  url: string;
  /** Its size. The file is refused when the control plane sends another. */
  bytes: number;
  /** Returns a token that holds now. */
  token: () => string | Promise<string>;
  /** PEM text of the authorities that the control plane's certificate must come from. */
  ca: string;
};

/** A file could not be fetched. The text says why. */
export class FetchError extends Error {}

/** Failures in a row: a control plane that starts again needs some seconds. */
const MAX_TRIES = 8;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 4_000;
const TIMEOUT_MS = 60_000;

/**
 * Fetches a file piece by piece. One piece at a time is in memory, and a broken connection costs one piece.
 *
 * @param onPiece called with the bytes that have been written so far
 * @throws FetchError; the file system's error; the signal's reason when it is aborted
 */
export async function fetchFile(
  remote: RemoteFile,
  file: FileHandle,
  signal: AbortSignal,
  onPiece: (bytes: number) => void = () => {},
): Promise<void> {
  for (const piece of piecesOf(remote.bytes)) {
    const bytes = await withTries(remote.url, signal, () => fetchPiece(remote, piece, signal));
    await writeFully(file, bytes, piece.start);
    onPiece(piece.end);
  }
}

/** Repeats work of a connection that breaks. @throws FetchError; the signal's reason when it is aborted */
async function withTries<T>(url: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof FetchError) throw error;
      if (tries >= MAX_TRIES) throw new FetchError(`${new URL(url).origin}: ${errorMessage(error)}`);
      await Bun.sleep(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (tries - 1)));
    }
  }
}

/** Sends a request to the control plane. The answer's body is not read yet. */
async function ask(
  { url, token, ca }: Omit<RemoteFile, "bytes">,
  init: RequestInit & { headers?: Record<string, string> },
  signal: AbortSignal,
): Promise<Response> {
  return fetch(url, {
    ...init,
    headers: { ...init.headers, authorization: `Bearer ${await token()}` },
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    redirect: "error",
    tls: { ca },
  });
}

async function fetchPiece(remote: RemoteFile, piece: Piece, signal: AbortSignal): Promise<Uint8Array> {
  const response = await ask(remote, { headers: { range: rangeHeader(piece) } }, signal);
  if (response.status !== 206) throw await refusalOf(response);
  if (response.headers.get("content-range") !== contentRangeHeader(piece, remote.bytes)) {
    await response.body?.cancel();
    throw new FetchError("the control plane sends another part of the file, or the file has changed");
  }
  return readExactBody(response, {
    bytes: piece.end - piece.start,
    tooMuch: () => new FetchError("the control plane sends more than was asked for"),
  });
}

/** Fetches a text of at most so many bytes. @throws FetchError; the signal's reason when it is aborted */
export function fetchText(
  remote: Omit<RemoteFile, "bytes">,
  maxBytes: number,
  signal: AbortSignal,
): Promise<string> {
  return withTries(remote.url, signal, async () => {
    const response = await ask(remote, {}, signal);
    if (response.status !== 200) throw await refusalOf(response);
    const decoder = new TextDecoder();
    let text = "";
    let bytes = 0;
    for await (const block of response.body ?? []) {
      bytes += block.length;
      if (bytes > maxBytes) throw new FetchError("the control plane sends too much");
      text += decoder.decode(block, { stream: true });
    }
    return text;
  });
}

/** Returns the error for an answer that another request would not change, else one after which work is repeated. */
async function refusalOf(response: Response): Promise<Error> {
  await response.body?.cancel();
  const message = `the control plane answers ${response.status}`;
  // 507: the control plane's disk is full.
  return response.status < 500 || response.status === 507 ? new FetchError(message) : new Error(message);
}

/**
 * Brings a file to the control plane, piece by piece.
 *
 * @throws FetchError; the file system's error; the signal's reason when it is aborted
 */
export async function bringFile(
  remote: Omit<RemoteFile, "bytes">,
  file: FileHandle,
  signal: AbortSignal,
): Promise<void> {
  const { size } = await file.stat();
  for (const piece of piecesOf(size)) {
    const bytes = new Uint8Array(piece.end - piece.start);
    if ((await readFully(file, bytes, piece.start)) < bytes.length)
      throw new FetchError("a file has become shorter while it was brought");
    await bringPiece(remote, piece, bytes, signal);
  }
}

/** Brings bytes as a file to the control plane. It does nothing when there are none. @throws as `bringFile` */
export async function bringBytes(
  remote: Omit<RemoteFile, "bytes">,
  bytes: Uint8Array<ArrayBuffer>,
  signal: AbortSignal,
): Promise<void> {
  for (const piece of piecesOf(bytes.length)) {
    await bringPiece(remote, piece, bytes.subarray(piece.start, piece.end), signal);
  }
}

function bringPiece(
  remote: Omit<RemoteFile, "bytes">,
  piece: Piece,
  body: Uint8Array<ArrayBuffer>,
  signal: AbortSignal,
): Promise<void> {
  const headers = { "content-range": contentRangeHeader(piece, "*") };
  return withTries(remote.url, signal, async () => {
    const response = await ask(remote, { method: "PUT", body, headers }, signal);
    if (response.status !== 204) throw await refusalOf(response);
  });
}
