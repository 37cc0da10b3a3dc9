import { AppError, ERROR_CODES, type ErrorCode } from "../../domain/errors.ts";
import type { ErrorObject } from "../wire/schemas.ts";

/**
 * Sends a request of the API with the key of whom an assistant works for: to a server, or to this program itself. So tools
 * have the rights, limits and prices of that key, and no rules of their own.
 *
 * @param address a path, or the address that the API has given for a file
 */
export type Send = (address: string, init: RequestInit) => Promise<Response>;

/** The API as tools use it. Methods throw AppError as the API answers. */
export type Api = {
  get<T>(path: string): Promise<T>;
  text(path: string): Promise<string>;
  post<T>(path: string, body: object): Promise<T>;
  put(address: string, headers: Record<string, string>, body: Blob): Promise<void>;
};

export function createApi(send: Send): Api {
  async function ask(address: string, init: RequestInit): Promise<Response> {
    const response = await send(address, init);
    if (!response.ok) throw await refusalOf(response);
    return response;
  }
  return {
    get: async <T>(path: string) => (await ask(path, {})).json() as Promise<T>,
    text: async (path) => (await ask(path, {})).text(),
    post: async <T>(path: string, body: object) => {
      const headers = { "content-type": "application/json" };
      return (await ask(path, { method: "POST", headers, body: JSON.stringify(body) })).json() as Promise<T>;
    },
    async put(address, headers, body) {
      await ask(address, { method: "PUT", headers, body });
    },
  };
}

/** Returns the refusal that an answer carries; of a proxy's answer its status. */
async function refusalOf(response: Response): Promise<AppError> {
  const retryAfter = Number(response.headers.get("retry-after") ?? Number.NaN);
  const retryAfterSeconds = Number.isFinite(retryAfter) ? { retryAfterSeconds: retryAfter } : {};
  try {
    const { error } = (await response.json()) as ErrorObject;
    if (!ERROR_CODES.includes(error.code as ErrorCode)) throw new Error("another server");
    const { code, message, detail } = error;
    return new AppError(code, { message, ...(detail === undefined ? {} : { detail }), ...retryAfterSeconds });
  } catch {
    return new AppError("internal_error", { message: `The server answers with ${response.status}.` });
  }
}
