import type { Server } from "bun";
import type { Config } from "../../config/schema.ts";
import { AppError } from "../../domain/errors.ts";
import { bearerOf } from "../../services/api-keys.ts";
import type { UploadService } from "../../services/uploads/uploads.ts";
import { refuseEncoding } from "../wire/parse.ts";

export type StorageDeps = {
  uploads: UploadService;
  config: Config;
  /** Address under which clients reach the server, without a slash at the end. */
  baseUrl: () => string;
};

/** One request to a storage address. */
export type StorageRequest = {
  request: Request;
  /** The method that counts (tus: `X-HTTP-Method-Override`). */
  method: string;
  server: Server<unknown> | undefined;
};

/** The token of an upload that a request carries; undefined where there is none. */
export function bearerToken(request: Request): string | undefined {
  return bearerOf(request.headers.get("authorization"));
}

/**
 * `Content-Length` as a number; undefined for a chunked body.
 *
 * @throws AppError `invalid_request`
 */
export function declaredBytes(request: Request): number | undefined {
  const text = request.headers.get("content-length");
  if (text === null) return undefined;
  const bytes = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(bytes)) {
    throw new AppError("invalid_request", { detail: "content-length" });
  }
  return bytes;
}

/** Refuses what would store other bytes than the recording's own. */
export function refuseEncodings(request: Request): void {
  refuseEncoding(request);
  if (request.headers.has("content-range")) {
    throw new AppError("invalid_request", {
      detail: "content-range",
      message: "Parts of a file are sent by resumable upload (tus) only.",
    });
  }
}
