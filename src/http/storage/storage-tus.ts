import { ERRORS, type Locker, Metadata, Server as TusServer, type Upload } from "@tus/server";
import { AppError } from "../../domain/errors.ts";
import { rawFormatOf } from "../../domain/raw-formats.ts";
import { isId } from "../../lib/ids.ts";
import { requireReceiving } from "../../services/uploads/upload-receiving.ts";
import type { Sender, UploadStore } from "../../services/uploads/upload-store.ts";
import type { UploadRow } from "../../store/uploads.ts";
import { keepAlive } from "../keep-alive.ts";
import {
  bearerToken,
  declaredBytes,
  refuseEncodings,
  type StorageDeps,
  type StorageRequest,
} from "./storage-common.ts";
import { CHECKSUMS, requestedChecksum } from "./tus-checksum.ts";
import { refusalOf, TusRefusal } from "./tus-refusals.ts";

/** Path of the creation endpoint; an upload's own address is below it. */
export const TUS_PATH = "/storage/tus";
export const COLLECTION_METHODS = ["POST", "OPTIONS"];
export const RESOURCE_METHODS = ["HEAD", "PATCH", "DELETE", "OPTIONS"];

/** @param uploadId undefined at the creation endpoint */
export type TusHandler = (uploadId: string | undefined, input: StorageRequest) => Promise<Response>;

/**
 * tus 1.0 at `/storage/tus` (docs/decisions/uploads.md). `@tus/server` speaks the protocol, over the files of
 * `UploadStore`; README.md of `http/` says what it does not know and is here.
 */
export function createTusHandler(deps: StorageDeps): TusHandler {
  return async (uploadId, input) => {
    const { request, method } = input;
    const allow = uploadId === undefined ? COLLECTION_METHODS : RESOURCE_METHODS;
    if (!allow.includes(method)) throw new AppError("method_not_allowed", { allow });
    if (method !== "OPTIONS" && bearerToken(request) === undefined) deps.uploads.authorize("", undefined);
    const protocol = new UploadProtocol(deps, uploadId, input);
    const response = await protocol.handleWeb(protocolRequest(input));
    const { headers } = response;
    if (method === "OPTIONS") {
      headers.set("allow", allow.join(", "));
      headers.set("tus-checksum-algorithm", CHECKSUMS.join(","));
    }
    const { upload, earlierBytes } = protocol.store;
    if (earlierBytes !== undefined) headers.set("upload-offset", String(earlierBytes));
    if (upload) setExpiry(upload, headers);
    return response;
  };
}

/** The protocol for one request, so that its hooks and its store need not look for the request they belong to. */
class UploadProtocol extends TusServer {
  readonly store: UploadStore;
  readonly #requireToken: () => void;

  constructor(deps: StorageDeps, uploadId: string | undefined, input: StorageRequest) {
    const { request, method } = input;
    const store = deps.uploads.openStore();
    const authorize = (id: string) => deps.uploads.authorize(id, bearerToken(request));
    super({
      path: TUS_PATH,
      datastore: store,
      // A HEAD waits for a writer that ends, and holds nothing itself: it would make `complete` find a held file.
      locker: method === "HEAD" ? NO_LOCKS : store,
      // An upload has a size of its own. This is what OPTIONS says.
      maxSize: (_request, id) => (id === null ? deps.config.limits.max_upload_bytes : 0),
      generateUrl: (_request, { id }) => `${deps.baseUrl()}${TUS_PATH}/${id}`,
      // The package would take the identifier out of the whole address, with a `?` at its end.
      getFileIdFromRequest: () => uploadId,
      namingFunction: (_request, metadata) => namedUpload(metadata),
      // The library's own default would open it to every origin; cors.ts decides.
      allowedOrigins: () => false,
      async onIncomingRequest(_request, id) {
        const upload = authorize(id);
        requireTakes(upload, input);
        store.open(upload, senderOf(input));
        if (method === "HEAD") await deps.uploads.settleWriter(id);
      },
      async onUploadCreate(_request, upload) {
        await keepFormat(deps, store.upload, upload);
        return {};
      },
      onResponseError(_request, error) {
        if (!("status_code" in error)) throw error;
        return undefined;
      },
    });
    this.store = store;
    this.#requireToken = () => {
      const named = uploadId ?? createdUpload(request);
      if (named !== undefined && !store.upload) authorize(named);
    };
    for (const handler of [this.handlers.POST, this.handlers.PATCH]) Object.assign(handler, { writeToStore });
  }

  /**
   * The package calls this for each refusal, and it becomes one in the form of the interface. The package refuses some
   * requests before it calls `onIncomingRequest`. So the token is checked here: authentication comes first.
   */
  override async write(...[, , status, text = ""]: Parameters<TusServer["write"]>): Promise<never> {
    this.#requireToken();
    throw refusalOf(status, text);
  }
}

/**
 * Gives the store the request's own stream. The package's handlers would send the bytes through three streams of Node
 * first, which takes 1.4 times the processor time for a request of 8 MiB, and 15 MiB more memory. Their bound on the bytes
 * and their wish to end are the store's own: `receiveLocked`.
 */
function writeToStore(
  this: TusServer["handlers"]["PATCH"],
  body: ReadableStream | null,
  { id, offset }: Upload,
): Promise<number> {
  return (this.store as UploadStore).write(body, id, offset);
}

const NO_LOCKS: Locker = { newLock: () => ({ lock: async () => undefined, unlock: async () => undefined }) };

/** The request as the package reads it. It refuses a list of protocols, which chained proxies send. */
function protocolRequest({ request, method }: StorageRequest): Request {
  const headers = new Headers(request.headers);
  headers.delete("x-forwarded-proto");
  return new Request(request.url, { method, headers, body: request.body });
}

/** Adds the fields every tus response has, errors included, and removes the library's own idea of CORS. */
export function asTusResponse(response: Response): Response {
  const { headers } = response;
  for (const name of [...headers.keys()]) if (name.startsWith("access-control-")) headers.delete(name);
  headers.set("tus-resumable", "1.0.0");
  headers.set("cache-control", "no-store");
  return response;
}

/** The upload that a creation names. @throws the package's refusal of metadata */
function namedUpload(metadata: Record<string, string | null> = {}): string {
  const id = metadata.upload_id;
  if (typeof id === "string" && isId("upload", id)) return id;
  throw ERRORS.INVALID_METADATA;
}

/** Finds the upload that a creation names, also where the package refuses it; undefined where it names none. */
function createdUpload({ headers }: Request): string | undefined {
  try {
    return namedUpload(Metadata.parse(headers.get("upload-metadata") ?? undefined));
  } catch {
    return undefined;
  }
}

/**
 * Checks that an upload takes a request. A creation may come again at any time; it must name the upload's own length.
 *
 * @throws AppError `conflict`, `invalid_request`; 410 for one that has run out or was rejected ("The Server SHOULD
 *   respond with 404 or 410", tus 1.0, "Expiration")
 */
function requireTakes(upload: UploadRow, { request, method }: StorageRequest): void {
  if (upload.state === "rejected") {
    throw new TusRefusal(410, upload.errorCode ?? "upload_rejected", {
      message: upload.errorMessage ?? "The upload was rejected.",
    });
  }
  if (method === "POST" && request.headers.get("upload-length") !== String(upload.bytes)) {
    throw new AppError("invalid_request", {
      detail: "upload-length",
      message: `Upload-Length must be the ${upload.bytes} bytes that the upload declares.`,
    });
  }
  if (method === "PATCH" || method === "DELETE") requireReceiving(upload);
  if (method === "POST" || method === "PATCH") refuseEncodings(request);
}

/** What a request says of its body beside the bytes. @throws AppError `invalid_request` */
function senderOf(input: StorageRequest): Sender {
  const { request, method } = input;
  if (method !== "POST" && method !== "PATCH") return {};
  const declared = declaredBytes(request);
  const checksum = requestedChecksum(request);
  const renew = keepAlive(input);
  return {
    ...(declared === undefined ? {} : { declaredBytes: declared }),
    ...(checksum ? { approve: checksum.approve } : {}),
    signal: request.signal,
    onChunk(chunk) {
      renew();
      checksum?.update(chunk);
    },
  };
}

/** Keeps the format that a creation names for a file without a signature, by the keys that clients of tus use. */
async function keepFormat(
  { uploads }: StorageDeps,
  upload: UploadRow | undefined,
  { metadata = {} }: Upload,
): Promise<void> {
  const { filename, name, filetype, type } = metadata;
  const format = rawFormatOf({
    name: filename ?? name ?? undefined,
    mediaType: filetype ?? type ?? undefined,
  });
  if (format && upload?.state === "allocated") await uploads.nameFormat(upload, format);
}

/** Adds `Upload-Expires` while bytes are missing (tus 1.0, "Expiration"). */
function setExpiry(upload: UploadRow, headers: Headers): void {
  if (upload.state !== "allocated" || headers.get("upload-offset") === String(upload.bytes)) return;
  headers.set("upload-expires", new Date(upload.expiresAt).toUTCString());
}
