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

/** The refusals of header fields, by the field that the package's text names. Where it names several, the first here counts. */
const REFUSED_FIELDS: [field: string, refusal: () => AppError][] = [
  ["tus-resumable", () => refusedField(412, "tus-resumable", "The request must have Tus-Resumable: 1.0.0.")],
  [
    "content-type",
    () => refusedField(415, "content-type", "The content type must be application/offset+octet-stream."),
  ],
  [
    "upload-offset",
    () => refusedField(422, "upload-offset", "Upload-Offset must be the number of bytes that are stored."),
  ],
  ["upload-metadata", unnamedUpload],
  [
    "upload-length",
    () => refusedField(422, "upload-length", "Upload-Length must be the bytes that the upload declares."),
  ],
];

function refusedField(status: number, detail: string, message: string): TusRefusal {
  return new TusRefusal(status, "invalid_request", { detail, message });
}

/** The refusal of a creation whose metadata does not name an upload. */
export function unnamedUpload(): AppError {
  return new AppError("invalid_request", {
    detail: "metadata.upload_id",
    message: "The metadata must have the upload_id that POST /v1/uploads gave.",
  });
}

/** Turns a refusal of `@tus/server`, which is a status and a line of text, into one of the interface. */
export function refusalOf(status: number, text: string): AppError {
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
    case 412:
      return fieldRefusal(text);
    case 501:
      return unsupported(text);
    default:
      return new AppError("internal_error", { cause: new Error(`tus: ${status} ${text.trim()}`) });
  }
}

function fieldRefusal(text: string): AppError {
  const known = REFUSED_FIELDS.find(([field]) => text.toLowerCase().includes(field));
  if (known) return known[1]();
  const field = /^Invalid ([\w-]+)/.exec(text)?.[1];
  return new AppError("invalid_request", {
    ...(field === undefined ? {} : { detail: field }),
    message: text.trim(),
  });
}

function unsupported(text: string): TusRefusal {
  return /concatenation/i.test(text)
    ? new TusRefusal(501, "capability_unavailable", {
        detail: "tus.concatenation",
        message: "Parallel uploads (tus concatenation) are not supported.",
      })
    : new TusRefusal(501, "capability_unavailable", {
        detail: "tus.creation-defer-length",
        message: "The length is known when the upload is allocated and cannot be deferred.",
      });
}
