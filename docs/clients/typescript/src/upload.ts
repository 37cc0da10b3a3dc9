import { ApiError, ConnectionError, ShrutiError, TimeoutError } from "./errors.ts";
import { pause } from "./pause.ts";
import { type Exchange, pauseAfter, type Transport } from "./transport.ts";
import type { UploadCreated } from "./types.ts";

/** A recording that can be read in parts: a `Blob`, a `File`, or `openFile` of `shruti-client/files`. */
export type FileSource = {
  readonly size: number;
  slice(start: number, end: number): Blob | Promise<Blob | ArrayBuffer>;
};

export type SendOptions = {
  signal?: AbortSignal | undefined;
  /** Is called with the bytes that the server has stored. */
  onProgress?: ((sentBytes: number) => void) | undefined;
  /** How often sending is continued after a failure without any progress in between; default 8. */
  maxRetries?: number | undefined;
};

const MAX_RETRIES = 8;
const TUS = { "tus-resumable": "1.0.0" };
/** 409: an earlier request still writes. 460: the bytes were damaged on their way. */
const CONTINUED = new Set([409, 423, 429, 460, 500, 502, 503, 504]);

/**
 * Sends the bytes of a created upload: by one PUT where they fit in one piece, else by tus. After a broken connection it continues where
 * the server's bytes end, and so does a second call for the same upload, in another process, too.
 */
export async function sendFile(
  transport: Transport,
  created: UploadCreated,
  source: FileSource,
  options: SendOptions = {},
): Promise<void> {
  if (source.size !== created.bytes)
    throw new ShrutiError(
      `the file has ${source.size} bytes, and ${created.id} was made for ${created.bytes}`,
    );
  const { resumable_upload: resumable, upload } = created;
  const retrying = retriesOf(transport, options);
  if (resumable && source.size > resumable.chunk_size) {
    await sendByTus(transport, resumable, source, options, retrying);
    return;
  }
  await retrying.untilDone(async () => {
    const body = await source.slice(0, source.size);
    const { method, url, headers } = upload;
    await transport.exchange({ method, url, headers, body, signal: options.signal }, drained);
  });
  options.onProgress?.(source.size);
}

async function sendByTus(
  transport: Transport,
  { endpoint, chunk_size, headers: own, metadata }: NonNullable<UploadCreated["resumable_upload"]>,
  source: FileSource,
  { signal, onProgress }: SendOptions,
  retrying: Retries,
): Promise<void> {
  const headers = { ...own, ...TUS };
  const request = (part: Pick<Exchange, "method" | "url"> & Partial<Exchange>): Promise<Headers> =>
    transport.exchange({ signal, ...part, headers: { ...headers, ...part.headers } }, drained);
  const pairs = Object.entries(metadata).map(([name, value]) => `${name} ${base64(value)}`);
  const creation = { "upload-length": String(source.size), "upload-metadata": pairs.join(",") };
  // A repeated creation answers with the same address, and stored bytes stay.
  const created = await retrying.untilDone(() =>
    request({ method: "POST", url: endpoint, headers: creation }),
  );
  const url = new URL(created.get("location") ?? "", endpoint).href;
  const stored = async () => offsetOf(await request({ method: "HEAD", url }));
  let offset = await retrying.untilDone(stored);
  while (offset < source.size) {
    onProgress?.(offset);
    let isKnown = true;
    offset = await retrying.untilDone(async () => {
      if (!isKnown) offset = await stored();
      isKnown = false;
      if (offset >= source.size) return offset;
      const body = await source.slice(offset, Math.min(offset + chunk_size, source.size));
      const position = { "upload-offset": String(offset), "content-type": "application/offset+octet-stream" };
      return offsetOf(await request({ method: "PATCH", url, headers: position, body }));
    });
  }
  onProgress?.(offset);
}

type Retries = { untilDone<T>(act: () => Promise<T>): Promise<T> };

function retriesOf(transport: Transport, { maxRetries = MAX_RETRIES, signal }: SendOptions): Retries {
  return {
    async untilDone(act) {
      for (let attempt = 0; ; attempt++) {
        try {
          return await act();
        } catch (error) {
          const isPassing =
            error instanceof ConnectionError ||
            error instanceof TimeoutError ||
            (error instanceof ApiError && CONTINUED.has(error.status));
          const waitMs = pauseAfter(error, attempt);
          if (!isPassing || attempt >= maxRetries || waitMs > transport.maxRetryAfterMs) throw error;
          await pause(waitMs, signal);
        }
      }
    },
  };
}

/** Reads an answer whose body does not matter, so that its connection can be used again. */
async function drained(response: Response): Promise<Headers> {
  await response.arrayBuffer();
  return response.headers;
}

function offsetOf(headers: Headers): number {
  const offset = headers.get("upload-offset");
  if (offset === null || !/^\d+$/.test(offset)) throw new ConnectionError("the answer has no upload-offset");
  return Number(offset);
}

function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
