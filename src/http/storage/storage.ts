import type { Server } from "bun";
import { AppError } from "../../domain/errors.ts";
import { isId } from "../../lib/ids.ts";
import { targetOf } from "../context.ts";
import { errorResponse } from "../wire/errors.ts";
import type { StorageDeps, StorageRequest } from "./storage-common.ts";
import { handlePut, PUT_METHODS } from "./storage-put.ts";
import {
  asTusResponse,
  COLLECTION_METHODS,
  createTusHandler,
  RESOURCE_METHODS,
  TUS_PATH,
  type TusHandler,
} from "./storage-tus.ts";

export type { StorageDeps } from "./storage-common.ts";

const PUT_PATH = "/storage/uploads";

/** Answers a request to an address below `/storage/`. */
export type StorageHandler = (request: Request, server?: Server<unknown>) => Promise<Response>;

/**
 * Makes the handler of the addresses that recordings are sent to. Clients need an upload's token instead of a
 * project key. Their bodies must not be buffered, so the handler gets the request as it came.
 *
 * A refusal is a complete response as well; only errors that are not meant for clients are thrown.
 */
export function createStorageHandler(deps: StorageDeps): StorageHandler {
  const tus = createTusHandler(deps);
  return async (request, server) => {
    const target = storageTarget(request.url);
    const response = await refusable(() => dispatch(deps, tus, target, { request, server }));
    return target.kind === "tus" ? asTusResponse(response) : response;
  };
}

/** The methods a storage address knows; empty for an unknown one. */
export function storageMethods(path: string): readonly string[] {
  if (path === TUS_PATH) return COLLECTION_METHODS;
  if (path.startsWith(`${TUS_PATH}/`)) return RESOURCE_METHODS;
  return path.startsWith(`${PUT_PATH}/`) ? PUT_METHODS : [];
}

type Target = {
  kind: "put" | "tus" | "none";
  path: string;
  /** A text in the form of an upload's identifier; absent on the creation endpoint. */
  uploadId?: string;
  search: string;
};

function storageTarget(url: string): Target {
  const { path, search } = targetOf(url);
  if (path === TUS_PATH) return { kind: "tus", path, search };
  const at = path.lastIndexOf("/");
  const uploadId = path.slice(at + 1);
  const parent = path.slice(0, at);
  if (isId("upload", uploadId) && parent === TUS_PATH) return { kind: "tus", path, uploadId, search };
  if (isId("upload", uploadId) && parent === PUT_PATH) return { kind: "put", path, uploadId, search };
  return { kind: "none", path, search };
}

async function dispatch(
  deps: StorageDeps,
  tus: TusHandler,
  { kind, uploadId, search }: Target,
  { request, server }: { request: Request; server: Server<unknown> | undefined },
): Promise<Response> {
  if (kind === "none") throw new AppError("not_found");
  if (search !== "") {
    throw new AppError("unknown_parameter", {
      detail: [...new URLSearchParams(search).keys()][0] ?? "query",
    });
  }
  const input: StorageRequest = {
    request,
    server,
    method: kind === "tus" ? tusMethod(request) : request.method,
  };
  if (kind === "tus") return tus(uploadId, input);
  if (uploadId === undefined) throw new AppError("not_found");
  return handlePut(deps, uploadId, input);
}

async function refusable(answer: () => Promise<Response>): Promise<Response> {
  try {
    return await answer();
  } catch (error) {
    // Elysia's onError in server.ts logs what is not meant for the client.
    if (!(error instanceof AppError) || error.code === "internal_error") throw error;
    const response = errorResponse(error);
    if (error.status === 412) response.headers.set("tus-version", "1.0.0");
    return response;
  }
}

/** "The Server MUST interpret [X-HTTP-Method-Override] as the request method" (tus 1.0). */
function tusMethod(request: Request): string {
  const override = request.method === "POST" ? request.headers.get("x-http-method-override") : null;
  return override === null ? request.method : override.toUpperCase();
}
