import { AsyncLocalStorage } from "node:async_hooks";
import { timingSafeEqual } from "node:crypto";
import { DataStore, ERRORS, type Locker, Metadata, Server as TusServer, Upload } from "@tus/server";
import { AppError, type AppErrorOptions, type ErrorCode } from "../../domain/errors.ts";
import { type RawFormat, rawFormatOf } from "../../domain/raw-formats.ts";
import { isId } from "../../lib/ids.ts";
import { requireReceiving } from "../../services/uploads/upload-receiving.ts";
import type { UploadRow } from "../../store/uploads.ts";
import {
  bearerToken,
  declaredBytes,
  keepAlive,
  refuseEncodings,
  type StorageDeps,
  type StorageRequest,
} from "./storage-common.ts";

/** Path of the creation endpoint; an upload's own address is below it. */
export const TUS_PATH = "/storage/tus";

const VERSION = "1.0.0";
const EXTENSIONS = ["creation", "creation-with-upload", "termination", "expiration", "checksum"];
const CHECKSUMS = ["sha1", "sha256", "md5"] as const;
export const COLLECTION_METHODS = ["POST", "OPTIONS"];
export const RESOURCE_METHODS = ["HEAD", "PATCH", "DELETE", "OPTIONS"];
const BODY_TYPE = "application/offset+octet-stream";
/** The header fields that @tus/server receives. It receives no others. */
const PROTOCOL_HEADERS = [
  "tus-resumable",
  "upload-length",
  "upload-offset",
  "upload-metadata",
  "content-type",
  "content-length",
];

/** A refusal with the status that the protocol prescribes, and the nearest code of the interface. */
class TusRefusal extends AppError {
  readonly protocolStatus: number;

  constructor(status: number, code: ErrorCode, options: AppErrorOptions = {}) {
    super(code, options);
    this.protocolStatus = status;
  }

  override get status(): number {
    return this.protocolStatus;
  }
}

/** The data of one request that bypass @tus/server. */
type Exchange = {
  /** The upload that the request's token opens, as it was before the request, or while its bytes were written. */
  upload: UploadRow;
  input: StorageRequest;
  /** Bytes in the upload's file after the request; left out: it has no file. */
  storedBytes?: number | undefined;
  failure?: unknown;
};

/**
 * The store under @tus/server: the same file and rules as PUT. The library speaks the protocol; the bytes go
 * from the request's body to the file directly, counted, hashed and written by the upload service.
 */
class UploadStore extends DataStore {
  readonly #uploads: StorageDeps["uploads"];
  readonly #exchange: () => Exchange;

  constructor(uploads: StorageDeps["uploads"], exchange: () => Exchange) {
    super();
    this.#uploads = uploads;
    this.#exchange = exchange;
    this.extensions = EXTENSIONS;
  }

  /** Never touches bytes that are there: the first creation's answer may have been lost. */
  override async create(file: Upload): Promise<Upload> {
    await this.#uploads.openFile(file.id);
    this.#exchange().storedBytes = 0;
    return file;
  }

  override async remove(id: string): Promise<void> {
    await this.#uploads.discardBytes(id);
  }

  override async write(_stream: unknown, id: string, offset: number): Promise<number> {
    const current = this.#exchange();
    const { input } = current;
    const { request } = input;
    const renew = keepAlive(input);
    const checksum = requestedChecksum(request);
    const declared = declaredBytes(request);
    const { storedBytes, upload } = await this.#uploads.receive(id, {
      at: offset,
      body: request.body,
      ...(declared === undefined ? {} : { declaredBytes: declared }),
      onChunk(chunk) {
        renew();
        checksum?.update(chunk);
      },
      signal: request.signal,
      ...(checksum ? { approve: checksum.approve } : {}),
    });
    Object.assign(current, { storedBytes, upload });
    return storedBytes;
  }

  override async getUpload(id: string): Promise<Upload> {
    const current = this.#exchange();
    const { upload } = current;
    const stored = await this.#uploads.storedBytes(id);
    current.storedBytes = stored;
    if (stored === undefined) throw ERRORS.FILE_NOT_FOUND;
    return new Upload({
      id,
      size: upload.bytes,
      offset: stored,
      metadata: { upload_id: id },
      creation_date: new Date(upload.createdAt).toISOString(),
    });
  }
}

/** The upload service has one writer an upload already, whichever protocol it speaks. */
const noLocks: Locker = {
  newLock: () => ({ lock: () => Promise.resolve(), unlock: () => Promise.resolve() }),
};

/** @param uploadId undefined at the creation endpoint */
export type TusHandler = (uploadId: string | undefined, input: StorageRequest) => Promise<Response>;

/** tus 1.0 at `/storage/tus`: creation, core, termination, expiration, checksum (docs/decisions/uploads.md). */
export function createTusHandler(deps: StorageDeps): TusHandler {
  const exchanges = new AsyncLocalStorage<Exchange>();
  const exchange = () => {
    const current = exchanges.getStore();
    if (!current) throw new Error("a tus store is used outside a request");
    return current;
  };
  const library = new TusServer({
    path: TUS_PATH,
    datastore: new UploadStore(deps.uploads, exchange),
    locker: noLocks,
    generateUrl: (_request, { id }) => locationOf(deps, id),
    getFileIdFromRequest: () => exchange().upload.id,
    namingFunction: () => exchange().upload.id,
    // The library's own default would open it to every origin; cors.ts decides.
    allowedOrigins: () => false,
    onResponseError(_request, error) {
      exchange().failure = error;
      return undefined;
    },
  });

  /** Lets the library answer; its refusals become ours. */
  async function speak(upload: UploadRow, input: StorageRequest): Promise<Response> {
    const current: Exchange = { upload, input };
    const response = await exchanges.run(current, () => library.handleWeb(protocolRequest(input)));
    if (response.status < 400) return withExpiry(current, response);
    if (current.failure instanceof Error && !("status_code" in current.failure)) throw current.failure;
    throw refusalOf(response.status, (await response.text()).trim());
  }

  async function create(input: StorageRequest): Promise<Response> {
    const upload = authorizeCreation(deps, input.request);
    const format = namedFormat(input.request);
    if (format && upload.state === "allocated") await deps.uploads.nameFormat(upload, format);
    const storedBytes = await deps.uploads.storedBytes(upload.id);
    if (storedBytes === undefined) return speak(requireReceiving(upload), input);
    const headers = new Headers({
      location: locationOf(deps, upload.id),
      "upload-offset": String(storedBytes),
    });
    // First bytes that came with it are thrown away: the client continues from the offset.
    return withExpiry({ upload, storedBytes }, new Response(null, { status: 201, headers }));
  }

  async function resume(uploadId: string, input: StorageRequest): Promise<Response> {
    const { request, method } = input;
    const upload = deps.uploads.authorize(uploadId, bearerToken(request));
    requireVersion(request);
    if (upload.state === "rejected") throw goneRefusal(upload);
    if (method === "HEAD") {
      await deps.uploads.settleWriter(uploadId);
      return speak(upload, input);
    }
    requireReceiving(upload);
    if (method === "DELETE" && (await deps.uploads.storedBytes(uploadId)) === undefined) {
      throw new AppError("not_found");
    }
    if (method === "PATCH") {
      refuseOtherBodies(request);
      requireOffset(request);
    }
    return speak(upload, input);
  }

  return async (uploadId, input) => {
    const isCollection = uploadId === undefined;
    const { method } = input;
    if (method === "OPTIONS") return describe(deps, isCollection);
    const allow = isCollection ? COLLECTION_METHODS : RESOURCE_METHODS;
    if (!allow.includes(method)) throw new AppError("method_not_allowed", { allow });
    return isCollection ? create(input) : resume(uploadId, input);
  };
}

/** Adds the fields every tus response has, errors included, and removes the library's own idea of CORS. */
export function asTusResponse(response: Response): Response {
  const { headers } = response;
  for (const name of [...headers.keys()]) if (name.startsWith("access-control-")) headers.delete(name);
  headers.set("tus-resumable", VERSION);
  headers.set("cache-control", "no-store");
  return response;
}

/** OPTIONS reports what the server can do (tus 1.0, "OPTIONS"); it needs no token. */
function describe(deps: StorageDeps, isCollection: boolean): Response {
  return new Response(null, {
    status: 204,
    headers: {
      allow: (isCollection ? COLLECTION_METHODS : RESOURCE_METHODS).join(", "),
      "tus-version": VERSION,
      "tus-extension": EXTENSIONS.join(","),
      "tus-max-size": String(deps.config.limits.max_upload_bytes),
      "tus-checksum-algorithm": CHECKSUMS.join(","),
    },
  });
}

/** The upload a creation names in its metadata, when the token is that upload's. */
function authorizeCreation(deps: StorageDeps, request: Request): UploadRow {
  const token = bearerToken(request);
  if (token === undefined) deps.uploads.authorize("", token);
  requireVersion(request);
  // Before the metadata: a client's partial creations (concatenation) come without any.
  refuseExtensions(request);
  const uploadId = uploadIdOf(request);
  if (uploadId === undefined) {
    throw new AppError("invalid_request", {
      detail: "metadata.upload_id",
      message: "The metadata must have the upload_id that POST /v1/uploads gave.",
    });
  }
  const upload = deps.uploads.authorize(uploadId, token);
  if (upload.state === "rejected") throw goneRefusal(upload);
  if (request.headers.get("upload-length") !== String(upload.bytes)) {
    throw new AppError("invalid_request", {
      detail: "upload-length",
      message: `Upload-Length must be the ${upload.bytes} bytes that the upload declares.`,
    });
  }
  return upload;
}

function refuseExtensions(request: Request): void {
  if (request.headers.has("upload-concat")) {
    throw new TusRefusal(501, "capability_unavailable", {
      detail: "tus.concatenation",
      message: "Parallel uploads (tus concatenation) are not supported.",
    });
  }
  if (request.headers.has("upload-defer-length")) {
    throw new TusRefusal(501, "capability_unavailable", {
      detail: "tus.creation-defer-length",
      message: "The length is known when the upload is allocated and cannot be deferred.",
    });
  }
}

function requireVersion(request: Request): void {
  if (request.headers.get("tus-resumable") === VERSION) return;
  throw new TusRefusal(412, "invalid_request", {
    detail: "tus-resumable",
    message: `The request must have Tus-Resumable: ${VERSION}.`,
  });
}

function refuseOtherBodies(request: Request): void {
  refuseEncodings(request);
  if (request.headers.get("content-type") === BODY_TYPE) return;
  throw new TusRefusal(415, "invalid_request", {
    detail: "content-type",
    message: `The content type must be ${BODY_TYPE}.`,
  });
}

function requireOffset(request: Request): void {
  if (/^\d{1,16}$/.test(request.headers.get("upload-offset") ?? "")) return;
  throw new AppError("invalid_request", {
    detail: "upload-offset",
    message: "Upload-Offset must be the number of bytes that are stored.",
  });
}

function uploadIdOf(request: Request): string | undefined {
  const id = metadataOf(request).upload_id;
  return typeof id === "string" && isId("upload", id) ? id : undefined;
}

/** Returns the format that the metadata names for a file without a signature, by the keys that clients of tus use. */
function namedFormat(request: Request): RawFormat | undefined {
  const { filename, name, filetype, type } = metadataOf(request);
  return rawFormatOf({ name: filename ?? name ?? undefined, mediaType: filetype ?? type ?? undefined });
}

/** The metadata of a creation; none where it cannot be read. */
function metadataOf(request: Request): Record<string, string | null> {
  try {
    return Metadata.parse(request.headers.get("upload-metadata") ?? undefined);
  } catch {
    return {};
  }
}

const locationOf = (deps: StorageDeps, uploadId: string) => `${deps.baseUrl()}${TUS_PATH}/${uploadId}`;

/** "The Server SHOULD respond with 404 or 410" for an upload that ran out (tus 1.0, "Expiration"). */
const goneRefusal = (upload: UploadRow) =>
  new TusRefusal(410, upload.errorCode ?? "upload_rejected", {
    message: upload.errorMessage ?? "The upload was rejected.",
  });

/** Adds `Upload-Expires` while bytes are missing (tus 1.0, "Expiration"). */
function withExpiry(
  { upload, storedBytes }: Pick<Exchange, "upload" | "storedBytes">,
  response: Response,
): Response {
  if (upload.state === "allocated" && storedBytes !== upload.bytes)
    response.headers.set("upload-expires", new Date(upload.expiresAt).toUTCString());
  return response;
}

/** Makes the request that @tus/server receives: no body, so that it cannot buffer one, and nothing from proxies. */
function protocolRequest({ request, method }: StorageRequest): Request {
  const headers = new Headers();
  for (const name of PROTOCOL_HEADERS) {
    const value = request.headers.get(name);
    if (value !== null) headers.set(name, value);
  }
  // The library gets the upload from `getFileIdFromRequest`; it needs no real address.
  return new Request(`http://localhost${TUS_PATH}`, { method, headers });
}

/** The library's plain-text refusals under our codes. */
function refusalOf(status: number, message: string): AppError {
  switch (status) {
    case 404:
    case 410:
      return new AppError("not_found");
    case 409:
      return new AppError("conflict", {
        detail: "upload-offset",
        message: "Upload-Offset is not the number of bytes that are stored; HEAD reports it.",
      });
    case 413:
      return new AppError("audio_too_large", { message: "More bytes were sent than the upload declares." });
    case 400:
    case 403:
      return new AppError("invalid_request", { message });
    default:
      return new AppError("internal_error", { cause: new Error(`tus: ${status} ${message}`) });
  }
}

type Checksum = { update(chunk: Uint8Array): void; approve: () => void };

/**
 * The digest that `Upload-Checksum` promises of this request's body (tus 1.0, "Checksum").
 *
 * @throws TusRefusal 400 for another algorithm or form; `approve` throws 460 on a mismatch
 */
function requestedChecksum(request: Request): Checksum | undefined {
  const header = request.headers.get("upload-checksum");
  if (header === null) return undefined;
  const [, name, digest] = /^([a-z0-9]+) ([A-Za-z0-9+/]+=*)$/.exec(header) ?? [];
  const algorithm = CHECKSUMS.find((known) => known === name);
  if (algorithm === undefined || digest === undefined) {
    throw new TusRefusal(400, "invalid_request", {
      detail: "upload-checksum",
      message: `Upload-Checksum must be one of ${CHECKSUMS.join(", ")}, a space and the digest in base64.`,
    });
  }
  const hasher = new Bun.CryptoHasher(algorithm);
  const expected = Buffer.from(digest, "base64");
  return {
    update: (chunk) => void hasher.update(chunk),
    approve() {
      const actual = hasher.digest();
      if (actual.length === expected.length && timingSafeEqual(actual, expected)) return;
      throw new TusRefusal(460, "invalid_request", {
        detail: "upload-checksum",
        message: "The bytes do not have the checksum of Upload-Checksum and were not kept.",
      });
    },
  };
}
