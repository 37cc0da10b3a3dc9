import { DefaultHttpStack, type DetailedError, Upload as TusUpload } from "tus-js-client";
import { sameOrigin } from "../lib/address.ts";

/** Where the bytes of an upload go; a page that is loaded again can go on with it. */
export type Destination = {
  /** Address of the upload itself, or of the endpoint that makes one. */
  address: string;
  isCreated: boolean;
  headers: Record<string, string>;
  metadata: Record<string, string>;
  chunkBytes: number;
};

export type SendingEvents = {
  /** Bytes that are on their way or arrived. */
  onProgress: (bytes: number) => void;
  /** The upload has an address of its own now. */
  onCreated: (address: string) => void;
  /** The connection is lost; sending begins again by itself. */
  onWaiting: () => void;
  onDone: () => void;
  onRefused: (status: number, message: string) => void;
};

export type Sending = { pause(): void; resume(): void };

const RETRY_DELAYS_MS = [0, 1000, 2000, 4000];
const RECONNECT_EVERY_MS = 3000;
/** Statuses that another try can change; 409: the server has another offset. */
const WORTH_A_RETRY = new Set([0, 408, 409, 423, 429, 500, 502, 503, 504]);

/** Requests go to this page's own server, whatever name the server has for itself. */
class OwnHttpStack extends DefaultHttpStack {
  override createRequest(method: string, url: string) {
    return super.createRequest(method, sameOrigin(url));
  }
}

/** Sends a file by tus until all of it has arrived, also over lost connections. */
export function startSending(file: File, destination: Destination, events: SendingEvents): Sending {
  let isPaused = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const { address, isCreated, headers, metadata, chunkBytes } = destination;
  const upload = new TusUpload(file, {
    ...(isCreated ? { uploadUrl: sameOrigin(address) } : {}),
    endpoint: sameOrigin(isCreated ? address.replace(/\/[^/]+$/, "") : address),
    httpStack: new OwnHttpStack({}),
    headers,
    metadata,
    chunkSize: chunkBytes,
    retryDelays: RETRY_DELAYS_MS,
    storeFingerprintForResuming: false,
    onProgress: (sent) => events.onProgress(sent),
    onUploadUrlAvailable: () => events.onCreated(sameOrigin(upload.url ?? address)),
    onShouldRetry: (error) => WORTH_A_RETRY.has(statusOf(error)),
    onSuccess: () => events.onDone(),
    onError: (error) => {
      if (isPaused) return;
      const status = statusOf(error);
      if (!WORTH_A_RETRY.has(status)) return events.onRefused(status, error.message);
      events.onWaiting();
      timer = setTimeout(() => upload.start(), Math.max(RECONNECT_EVERY_MS, askedMs(error)));
    },
  });
  upload.start();
  return {
    pause() {
      isPaused = true;
      clearTimeout(timer);
      void upload.abort();
    },
    resume() {
      isPaused = false;
      upload.start();
    },
  };
}

/** The answer to a failed request; undefined where none came. */
const answerOf = (error: unknown) => (error as Partial<DetailedError>).originalResponse ?? undefined;

/** How long the server asks to wait, milliseconds; 0: it does not. */
const askedMs = (error: unknown): number => 1000 * (Number(answerOf(error)?.getHeader("retry-after")) || 0);

/** The status of a failed request; 0 where no answer came. */
const statusOf = (error: unknown): number => answerOf(error)?.getStatus() ?? 0;
