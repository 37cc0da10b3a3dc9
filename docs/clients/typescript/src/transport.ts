import { ApiError, ConnectionError, errorOf, type Refusal, ShrutiError, TimeoutError } from "./errors.ts";
import { pause } from "./pause.ts";

export type ClientOptions = {
  /** Address of the server, such as `https://speech.example`. */
  baseUrl: string;
  /** A project's key, `shr_…`. */
  apiKey: string;
  /** Time for one answer; default ten minutes, because a synchronous transcription takes long. */
  timeoutMs?: number | undefined;
  /** How often a request is sent again; default 4. */
  maxRetries?: number | undefined;
  /** A `Retry-After` that is longer is not waited for, but thrown; default one minute. */
  maxRetryAfterMs?: number | undefined;
  /** Sends requests in the place of the platform's `fetch`, such as through a proxy. */
  fetch?: typeof fetch | undefined;
};

export type RequestOptions = {
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
  maxRetries?: number | undefined;
  /**
   * The key of a request that starts work. Default: one is made for each call, so that its own repetitions start the work
   * once. Give one that you have stored where your program may crash and call again.
   */
  idempotencyKey?: string | undefined;
  /** Sends the request again also where the server may have done it already. Needed only for requests that make something. */
  isRepeatable?: boolean | undefined;
  headers?: Record<string, string> | undefined;
};

/** What a method of `Operations` asks for. */
export type ApiRequest = {
  method: string;
  path: string;
  query?: object;
  json?: object;
  form?: object;
  /** Whether the operation takes an idempotency key. */
  takesKey?: boolean;
  /** Default: JSON. */
  answer?: "text" | "stream";
  /** The media type that is asked for; default: JSON, or with `format` what that says. */
  mediaType?: string;
};

/** One exchange with any address: no key is added, nothing is repeated. */
export type Exchange = {
  method: string;
  url: string;
  headers: Record<string, string>;
  body?: Blob | ArrayBuffer | FormData | string | undefined;
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
};

const TIMEOUT_MS = 600_000;
const MAX_RETRIES = 4;
const MAX_RETRY_AFTER_MS = 60_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8_000;
const REPEATABLE = new Set(["GET", "HEAD", "PUT", "DELETE"]);

/** Writes an identifier as a part of a path. @throws ShrutiError where it would lead to another path */
export function segment(identifier: string): string {
  if (typeof identifier !== "string" || /^\.{0,2}$/.test(identifier))
    throw new ShrutiError(`not an identifier: ${JSON.stringify(identifier)}`);
  return encodeURIComponent(identifier);
}

/** Sends requests with the key, and sends them again where docs/interface.md section 7.2 allows it. */
export class Transport {
  readonly #options: ClientOptions;
  readonly #baseUrl: string;
  readonly maxRetryAfterMs: number;

  constructor(options: ClientOptions) {
    const address = URL.canParse(options.baseUrl) ? new URL(options.baseUrl) : undefined;
    if (!address || !/^https?:$/.test(address.protocol) || address.search || address.hash || address.username)
      throw new ShrutiError("baseUrl must be an http or https address without user, query and fragment");
    // The value itself is not repeated: it is secret.
    if (typeof options.apiKey !== "string" || !/^[\x21-\x7e]+$/.test(options.apiKey))
      throw new ShrutiError("apiKey must be a project's key");
    this.#options = options;
    this.#baseUrl = address.href.replace(/\/+$/, "");
    this.maxRetryAfterMs = options.maxRetryAfterMs ?? MAX_RETRY_AFTER_MS;
  }

  /** Sends a request of the interface until it is answered. @throws ApiError, ConnectionError, TimeoutError */
  async call<T>(request: ApiRequest, options: RequestOptions = {}): Promise<T> {
    const maxRetries = options.maxRetries ?? this.#options.maxRetries ?? MAX_RETRIES;
    let key = request.takesKey ? (options.idempotencyKey ?? newKey()) : undefined;
    for (let attempt = 0; ; attempt++) {
      try {
        return (await this.#attempt(request, options, key)) as T;
      } catch (error) {
        if (attempt >= maxRetries || !mayRepeat(error, request, options)) throw error;
        const waitMs = pauseAfter(error, attempt);
        if (waitMs > this.maxRetryAfterMs) throw error;
        await pause(waitMs, options.signal);
        // A synchronous request that was refused for want of capacity has used up its key.
        if (request.form && error instanceof ApiError && error.status === 503) key = newKey();
      }
    }
  }

  async #attempt(request: ApiRequest, options: RequestOptions, key: string | undefined): Promise<unknown> {
    const { method, path, query, json, form, answer, mediaType } = request;
    const exchange: Exchange = {
      method,
      url: `${this.#baseUrl}${path}${queryOf(query)}`,
      headers: {
        authorization: `Bearer ${this.#options.apiKey}`,
        ...(json ? { "content-type": "application/json" } : {}),
        ...(mediaType ? { accept: mediaType } : {}),
        ...(key === undefined ? {} : { "idempotency-key": key }),
        ...options.headers,
      },
      body: json ? JSON.stringify(json) : form ? formOf(form) : undefined,
      signal: options.signal,
      timeoutMs: options.timeoutMs,
    };
    return this.exchange(exchange, (response) => {
      if (answer === "stream") return Promise.resolve(response);
      return answer === "text" ? response.text() : jsonOf(response);
    });
  }

  /**
   * Sends one request to an address, once.
   *
   * @param read reads the answer of a success. The time ends with it
   * @throws ApiError for any other status, ConnectionError, TimeoutError, and what the signal was aborted with
   */
  async exchange<T>(exchange: Exchange, read: (response: Response) => Promise<T>): Promise<T> {
    const { method, url, headers, body, signal: own } = exchange;
    own?.throwIfAborted();
    const timeoutMs = exchange.timeoutMs ?? this.#options.timeoutMs ?? TIMEOUT_MS;
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), timeoutMs);
    const signal = own ? AbortSignal.any([own, timeout.signal]) : timeout.signal;
    const send = this.#options.fetch ?? fetch;
    try {
      // A redirection would send the key to another address, or a POST as a GET.
      const sent = { method, headers, signal, redirect: "error" } as const;
      const response = await send(url, body === undefined ? sent : { ...sent, body });
      if (!response.ok) throw errorOf(refusalOf(response, await response.text()));
      return await read(response);
    } catch (error) {
      if (error instanceof ShrutiError) throw error;
      own?.throwIfAborted();
      const place = `${method} ${new URL(url).host}`;
      if (timeout.signal.aborted) throw new TimeoutError(`${place}: no answer within ${timeoutMs} ms`);
      throw new ConnectionError(`${place}: ${causeOf(error)}`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Makes an idempotency key. `crypto.randomUUID` is missing on pages without TLS. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Whether a request may be sent again after an error (docs/interface.md section 7.2). */
function mayRepeat(error: unknown, request: ApiRequest, options: RequestOptions): boolean {
  const { method, form, json, takesKey = false } = request;
  // Without a body: cancel, complete and the like, which change nothing the second time.
  const isHarmless = REPEATABLE.has(method) || takesKey || (!json && !form) || options.isRepeatable === true;
  if (error instanceof ConnectionError) return isHarmless;
  if (error instanceof TimeoutError) return isHarmless && !form;
  if (!(error instanceof ApiError)) return false;
  if (error.status === 429) return true;
  if (error.status === 503) return !form || options.idempotencyKey === undefined;
  if (error.status === 500) return isHarmless && error.code !== "transcription_failed";
  // A proxy could not reach the server.
  return error.code === "unexpected_answer" && error.status > 500 && isHarmless && !form;
}

/** Returns the milliseconds to wait before a request is sent again. @param attempt from 0 */
export function pauseAfter(error: unknown, attempt: number): number {
  const seconds = error instanceof ApiError ? error.retryAfterSeconds : undefined;
  if (seconds !== undefined) return seconds * 1000;
  // Half of it by chance, so that many clients do not come back at once.
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempt) * (0.5 + Math.random() / 2);
}

async function jsonOf(response: Response): Promise<unknown> {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    throw errorOf(refusalOf(response, text));
  }
}

function refusalOf(response: Response, text: string): Refusal {
  const { status, headers } = response;
  const found = errorIn(text);
  return {
    status,
    code: found?.code ?? "unexpected_answer",
    message: found?.message ?? "The answer is not one of Shruti.",
    detail: found?.detail,
    requestId: headers.get("x-request-id") ?? undefined,
    retryAfterSeconds: secondsOf(headers.get("retry-after")),
  };
}

function errorIn(text: string): Pick<Refusal, "code" | "message" | "detail"> | undefined {
  try {
    const { error } = JSON.parse(text) as { error?: Pick<Refusal, "code" | "message" | "detail"> };
    return typeof error?.code === "string" && typeof error.message === "string" ? error : undefined;
  } catch {
    return undefined;
  }
}

/** Reads `Retry-After`: seconds, or a date where a proxy wrote it. */
function secondsOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header);
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, Math.ceil((date - Date.now()) / 1000));
}

function queryOf(query: object | undefined): string {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === undefined) continue;
    if (typeof value !== "object" || value === null) pairs.append(name, String(value));
    else for (const [inner, each] of Object.entries(value)) pairs.append(`${name}[${inner}]`, String(each));
  }
  return pairs.size === 0 ? "" : `?${pairs}`;
}

function formOf(fields: object): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    if (value instanceof Blob) form.append(name, value, value instanceof File ? value.name : "recording");
    else form.append(name, typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  return form;
}

function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Node says "fetch failed", and why in the cause.
  return error.cause instanceof Error && error.cause.message ? error.cause.message : error.message;
}
