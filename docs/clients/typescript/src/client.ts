import {
  ApiError,
  ConnectionError,
  TimeoutError,
  TranscriptionEndedError,
  UploadRejectedError,
} from "./errors.ts";
import { Operations } from "./operations.ts";
import { pause } from "./pause.ts";
import { type ApiRequest, type ClientOptions, type RequestOptions, Transport } from "./transport.ts";
import type {
  Transcription,
  TranscriptionCreate,
  TranscriptionResult,
  Upload,
  UploadCreated,
} from "./types.ts";
import { type FileSource, type SendOptions, sendFile } from "./upload.ts";

export type UploadOptions = SendOptions & {
  /** SHA-256 of the file in lower-case hex; the server then rejects other bytes. */
  sha256?: string | undefined;
  /** Is called before bytes are sent. What you store of it can be given as `resume` later, in another process, too. */
  onCreated?: ((created: UploadCreated) => void | Promise<void>) | undefined;
  /** Continues an upload that was created before. */
  resume?: UploadCreated | undefined;
};

export type WaitOptions = {
  signal?: AbortSignal | undefined;
  /** Time until `TimeoutError`; default: none. The work continues. */
  timeoutMs?: number | undefined;
  /** Is called with each state that is seen. */
  onProgress?: ((latest: Transcription) => void) | undefined;
};

export type TranscribeOptions = Omit<TranscriptionCreate, "audio"> &
  Omit<UploadOptions, "onProgress"> &
  WaitOptions & { idempotencyKey?: string | undefined };

const FIRST_POLL_MS = 500;
const LONGEST_POLL_MS = 10_000;
/** A server that restarts does not end a wait. */
const UNREACHABLE_MS = 300_000;
const UNFINISHED: ReadonlySet<string> = new Set(["queued", "preparing", "transcribing", "finalizing"]);

/** A client of one server with one key. It keeps no connection, and need not be closed. */
export class Shruti extends Operations {
  readonly #transport: Transport;

  /** @throws ShrutiError where address or key cannot be right */
  constructor(options: ClientOptions) {
    super();
    this.#transport = new Transport(options);
  }

  protected override call<T>(request: ApiRequest, options: RequestOptions | undefined): Promise<T> {
    return this.#transport.call(request, options);
  }

  /**
   * Creates an upload, sends the file, and waits until the server has verified it.
   *
   * @returns the complete upload, whose `id` starts transcriptions
   * @throws UploadRejectedError, ApiError (`upload_rejected`, `audio_decode_failed`) where the bytes are no recording
   */
  async upload(source: FileSource, options: UploadOptions = {}): Promise<Upload> {
    const { signal, sha256, onCreated } = options;
    // One that was lost with its answer expires by itself.
    const created =
      options.resume ??
      (await this.createUpload({ bytes: source.size, sha256 }, { signal, isRepeatable: true }));
    await onCreated?.(created);
    await sendFile(this.#transport, created, source, options);
    let latest = await this.completeUpload(created.id, { signal });
    for (let polls = 0; latest.state === "verifying"; polls++) {
      await pause(pollPause(polls), signal);
      latest = await this.#whileUnreachable(() => this.getUpload(created.id, { signal }), signal);
    }
    if (latest.state !== "complete") throw new UploadRejectedError(latest);
    return latest;
  }

  /**
   * Waits until a transcription has ended. A server that does not answer for five minutes ends the wait.
   *
   * @returns the transcription, which is `completed` or `partial`
   * @throws TranscriptionEndedError where it is `failed` or `cancelled`, TimeoutError, ApiError
   */
  async waitForTranscription(id: string, options: WaitOptions = {}): Promise<Transcription> {
    const { signal, timeoutMs = Number.POSITIVE_INFINITY, onProgress } = options;
    const deadline = Date.now() + timeoutMs;
    for (let polls = 0; ; polls++) {
      const latest = await this.#whileUnreachable(() => this.getTranscription(id, { signal }), signal);
      onProgress?.(latest);
      if (!UNFINISHED.has(latest.state)) {
        if (latest.state === "completed" || latest.state === "partial") return latest;
        throw new TranscriptionEndedError(latest);
      }
      const leftMs = deadline - Date.now();
      if (leftMs <= 0) throw new TimeoutError(`${id} is still ${latest.state} after ${timeoutMs} ms`);
      await pause(Math.min(pollPause(polls), leftMs), signal);
    }
  }

  /** Sends a recording of any length, transcribes it, and waits for the result. @throws as the steps that it takes */
  async transcribe(source: FileSource, options: TranscribeOptions): Promise<TranscriptionResult> {
    const {
      signal,
      timeoutMs,
      onProgress,
      sha256,
      onCreated,
      resume,
      maxRetries,
      idempotencyKey,
      ...request
    } = options;
    const upload = await this.upload(source, { signal, sha256, onCreated, resume, maxRetries });
    const { id } = await this.createTranscription(
      { ...request, audio: { upload_id: upload.id } },
      { signal, idempotencyKey },
    );
    await this.waitForTranscription(id, { signal, timeoutMs, onProgress });
    return this.getTranscriptionResult(id, {}, { signal });
  }

  /** Repeats a request that only reads, while the server cannot be reached. */
  async #whileUnreachable<T>(ask: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const deadline = Date.now() + UNREACHABLE_MS;
    while (true) {
      try {
        return await ask();
      } catch (error) {
        const isPassing =
          error instanceof ConnectionError ||
          (error instanceof ApiError && [502, 503, 504].includes(error.status));
        if (!isPassing || Date.now() > deadline) throw error;
        await pause(LONGEST_POLL_MS / 2, signal);
      }
    }
  }
}

/** Each pause is half as long again as the one before. */
const pollPause = (polls: number) => Math.min(LONGEST_POLL_MS, FIRST_POLL_MS * 1.5 ** polls);
