import { AppError, type AppErrorOptions, type ErrorCode } from "../../domain/errors.ts";

/** A refusal with the status that the protocol prescribes, and the nearest code of the interface. */
export class TusRefusal extends AppError {
  readonly protocolStatus: number;

  constructor(status: number, code: ErrorCode, options: AppErrorOptions = {}) {
    super(code, options);
    this.protocolStatus = status;
  }

  override get status(): number {
    return this.protocolStatus;
  }
}

/** Our status, detail and message for a text of `@tus/server`. Of several that match, the first counts. */
const REFUSALS: [text: RegExp, status: number, detail: string | undefined, message: string][] = [
  [/tus-resumable/i, 412, "tus-resumable", "The request must have Tus-Resumable: 1.0.0."],
  [/content-type/i, 415, "content-type", "Content-Type must be application/offset+octet-stream."],
  [/offset conflict/i, 409, "upload-offset", "HEAD reports the number of stored bytes; send from there."],
  [/upload-offset/i, 422, "upload-offset", "Upload-Offset must be the number of stored bytes."],
  [/upload-metadata/i, 422, "metadata.upload_id", "The metadata must have the upload's upload_id."],
  [/upload-length/i, 422, "upload-length", "Upload-Length must be the bytes that the upload declares."],
  [/concat/i, 501, "tus.concatenation", "Parallel uploads (tus concatenation) are not supported."],
  [/defer-length/i, 501, "tus.creation-defer-length", "The length is known and cannot be deferred."],
  [/size exceeded/i, 413, undefined, "More bytes were sent than the upload declares."],
  [/file for this url/i, 404, undefined, "The upload has no file."],
];

const CODES: Readonly<Record<number, ErrorCode>> = {
  404: "not_found",
  409: "conflict",
  413: "audio_too_large",
  501: "capability_unavailable",
};

/** Turns a refusal of `@tus/server`, which is a status and a line of text, into one of the interface. */
export function refusalOf(status: number, text: string): AppError {
  const known = REFUSALS.find(([pattern]) => pattern.test(text));
  if (!known && status >= 500) return new AppError("internal_error", { cause: new Error(text.trim()) });
  if (!known) return new AppError("invalid_request", { message: text.trim() });
  const [, own, detail, message] = known;
  return new TusRefusal(own, CODES[own] ?? "invalid_request", {
    ...(detail === undefined ? {} : { detail }),
    message,
  });
}
