import { AppError } from "../../domain/errors.ts";
import { type RawFormat, rawFormatOf } from "../../domain/raw-formats.ts";
import type { UploadRow } from "../../store/uploads.ts";
import { keepAlive } from "../keep-alive.ts";
import { toUploadResponse } from "../wire/uploads.ts";
import {
  bearerToken,
  declaredBytes,
  refuseEncodings,
  type StorageDeps,
  type StorageRequest,
} from "./storage-common.ts";

export const PUT_METHODS = ["PUT", "HEAD", "DELETE", "OPTIONS"] as const;

/**
 * `/storage/uploads/{id}`: the whole file in one request (docs/decisions/uploads.md).
 * Each method needs the upload's token.
 *
 * - PUT writes the file, each time from the start; 200 with the upload
 * - HEAD reports how many bytes are stored, without disturbing a sender
 * - DELETE removes the stored bytes; the upload can be sent again
 *
 * @throws AppError `method_not_allowed`, `unauthorized`, `organization_disabled`, `not_found`, and the errors of
 *   `uploads.receive`
 */
export async function handlePut(
  deps: StorageDeps,
  uploadId: string,
  input: StorageRequest,
): Promise<Response> {
  const { request, method } = input;
  if (method === "OPTIONS")
    return new Response(null, { status: 204, headers: { allow: PUT_METHODS.join(", ") } });
  if (!PUT_METHODS.some((known) => known === method)) {
    throw new AppError("method_not_allowed", { allow: [...PUT_METHODS] });
  }
  const upload = deps.uploads.authorize(uploadId, bearerToken(request));
  if (method === "HEAD") {
    const stored = await deps.uploads.storedBytes(uploadId);
    return new Response(null, {
      headers: {
        "accept-ranges": "none",
        "cache-control": "no-store",
        "content-type": "application/octet-stream",
        "upload-length": String(upload.bytes),
        "upload-offset": String(stored ?? 0),
      },
    });
  }
  if (method === "DELETE") {
    await deps.uploads.discardBytes(uploadId);
    return new Response(null, { status: 204 });
  }
  return Response.json(toUploadResponse(await receiveWhole(deps, upload, input)));
}

/** Returns the format that a request names for a file without a signature: its media type goes before its file name. */
function namedFormat({ headers }: Request): RawFormat | undefined {
  const disposition = headers.get("content-disposition") ?? "";
  const name = /;\s*filename="?([^";]+)"?/i.exec(disposition)?.[1];
  return rawFormatOf({ name, mediaType: headers.get("content-type") ?? undefined });
}

/** Stores the file of an authorized request. Its key may end while the file arrives: what is stored stays stored. */
async function receiveWhole(
  deps: StorageDeps,
  authorized: UploadRow,
  input: StorageRequest,
): Promise<UploadRow> {
  const { request } = input;
  refuseEncodings(request);
  if (/^multipart\//i.test(request.headers.get("content-type") ?? "")) {
    throw new AppError("invalid_request", {
      detail: "content-type",
      message: "Send the file itself as the body, not as a form.",
    });
  }
  const declared = declaredBytes(request);
  const format = namedFormat(request);
  if (format) await deps.uploads.nameFormat(authorized, format);
  const { isWhole, storedBytes, upload } = await deps.uploads.receive(authorized.id, {
    at: "start over",
    body: request.body,
    ...(declared === undefined ? {} : { declaredBytes: declared }),
    onChunk: keepAlive(input),
    signal: request.signal,
  });
  if (isWhole) return upload;
  throw new AppError("upload_incomplete", {
    message: `${storedBytes} of ${upload.bytes} bytes have arrived.`,
  });
}
