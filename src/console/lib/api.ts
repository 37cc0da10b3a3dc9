import { signal } from "@preact/signals";
import { BASE } from "./address.ts";

/** A refusal, in the words of the server; `code` is `offline` when no answer came. */
export class Failure extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly options: {
      status?: number;
      detail?: string;
      requestId?: string;
      retryAfterSeconds?: number;
    } = {},
  ) {
    super(message);
  }
}

/** False from a request without an answer until the next answer. */
export const isConnected = signal(true);

export type Ask = {
  method?: string;
  /** Sent as JSON. */
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
};

/**
 * Sends a request to this server.
 *
 * @param path without a slash at its beginning
 * @throws Failure for every answer without success, and when none came; the signal's reason when it aborts
 */
export async function ask(
  path: string,
  { method = "GET", body, headers = {}, signal }: Ask = {},
): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(new URL(path, BASE), {
      method,
      headers: body === undefined ? headers : { ...headers, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
      credentials: "same-origin",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    isConnected.value = false;
    throw new Failure("offline", "The server does not answer.");
  }
  isConnected.value = true;
  if (!answer.ok) throw await failureOf(answer);
  return answer;
}

async function failureOf(answer: Response): Promise<Failure> {
  const { status, headers } = answer;
  const { error } = await answer.json().catch(() => ({ error: undefined }));
  const requestId = headers.get("x-request-id");
  const retryAfter = Number(headers.get("retry-after"));
  return new Failure(error?.code ?? `http_${status}`, error?.message ?? answer.statusText, {
    status,
    ...(error?.detail === undefined ? {} : { detail: error.detail }),
    ...(requestId === null ? {} : { requestId }),
    ...(retryAfter > 0 ? { retryAfterSeconds: retryAfter } : {}),
  });
}

/** Turns anything that was thrown into a failure that can be shown. */
export function asFailure(thrown: unknown): Failure {
  if (thrown instanceof Failure) return thrown;
  return new Failure("page_error", thrown instanceof Error ? thrown.message : String(thrown));
}
