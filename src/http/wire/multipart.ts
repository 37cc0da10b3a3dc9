import { createHash } from "node:crypto";
import type { EventEmitter } from "node:events";
import { type FileHandle, open } from "node:fs/promises";
import { Busboy, type BusboyFileStream, type BusboyInstance } from "@fastify/busboy";
import { AppError } from "../../domain/errors.ts";
import { type RawFormat, rawFormatOf } from "../../domain/raw-formats.ts";
import { onAbort } from "../../lib/abort.ts";
import { nextTurn } from "../../lib/in-slices.ts";
import { refuseEncoding } from "./parse.ts";

/** Beyond the file: text fields and part heads. */
const SLACK_BYTES = 1024 * 1024;
const MAX_PARTS = 64;
const MAX_FIELD_BYTES = 1024;
const MAX_NAME_BYTES = 200;
/**
 * Bytes that the parser gets in one turn of the event loop: it works in the thread that answers all requests. The parser
 * holds back the rest of a write while a part's buffer is full, and stops for ever when a part that it skips ends in that
 * same write. A piece smaller than the buffer cannot fill it. `MAX_PARTS` bounds the parts of a turn, which may be empty.
 */
const PIECE_BYTES = 16 * 1024;
const PART_BUFFER_BYTES = 64 * 1024;

export type FormOptions = {
  /** Name of the one part that is a file; every other part is text. */
  fileField: string;
  /** Where the file's bytes go; it must not exist. */
  path: string;
  /** Largest file. Of a larger one nothing further is stored. */
  maxFileBytes: number;
  /** Longest text field, bytes; 1024 where left out. */
  maxFieldBytes?: number;
  /** Text fields that may come several times. Their values are joined by line feeds. */
  listFields?: readonly string[];
  /** Text fields whose faults do not matter, because their values are ignored. */
  ignoredFields?: readonly string[];
  signal: AbortSignal;
  /**
   * Called for every piece that arrives; the next one is taken when it resolves.
   *
   * @param store gives the piece to the parser and resolves when that has taken it; to be called once
   */
  onPiece: (bytes: number, store: () => Promise<void>) => Promise<void>;
};

export type ReceivedFile = {
  bytes: number;
  sha256: string;
  /** The format of a file without a signature, as its part names it by media type or file name. */
  format?: RawFormat | undefined;
};

/** What a form carried, each text field once unless it may be a list; judging names and values is the caller's. */
export type ReceivedForm = {
  fields: Map<string, string>;
  /** Names in the order in which they came, the file's included. */
  names: string[];
  file: ReceivedFile | undefined;
  /** The file has more bytes than allowed. */
  isTooLarge: boolean;
  /** The body was so much larger that it was not read to its end: later fields are unknown. */
  isCutOff: boolean;
  /**
   * The first part that no correct form has, for instance a name given twice. With `body` as its name the form itself is
   * broken. Then nothing after this fault was read, so the file may be incomplete.
   */
  fault: FormFault | undefined;
};

export type FormFault = { name: string; message: string };

/**
 * Receives a `multipart/form-data` body (RFC 7578): the file goes to the disk piece by piece, is counted and
 * hashed; text fields are kept. Memory stays flat whatever is sent, and other work of the event loop runs between pieces.
 * Reading ends at the first fault of the form itself. A fault of a field does not end it, because the name of a later
 * field may decide the answer (docs/decisions/order-of-checks.md).
 *
 * @throws AppError `invalid_request` for another content type or a body that is not a correct form, the signal's
 *   reason when it aborts
 */
export async function receiveForm(request: Request, options: FormOptions): Promise<ReceivedForm> {
  const progress: FormProgress = { begun: 0, understood: 0, mediaType: undefined, onBroken: () => {} };
  const parser = openParser(request, progress, options.maxFieldBytes ?? MAX_FIELD_BYTES);
  const file = await open(options.path, "wx", 0o600);
  try {
    const form = await receive(parser, progress, request, file, options);
    if (progress.understood < progress.begun) form.fault ??= UNREADABLE_PART;
    return form;
  } finally {
    parser.destroy();
    await file.close();
  }
}

/** How far a form has been read: how many of its parts have begun, and how many of those have a head that names them. */
type FormProgress = {
  begun: number;
  understood: number;
  /** The media type of the part that began last, with its parameters. The parser itself drops them. */
  mediaType: string | undefined;
  /** Called when a part begins after one that cannot be understood, or when there are too many. */
  onBroken: (fault: FormFault) => void;
};

const UNREADABLE_PART: FormFault = {
  name: "body",
  message: "A part of the form has no readable Content-Disposition.",
};
const TOO_MANY_PARTS: FormFault = { name: "body", message: `The form has more than ${MAX_PARTS} parts.` };

/** The parser inside, of which the library says when a part begins; of parts that it skips it says nothing itself. */
type WithInnerParser = { _parser: { parser: EventEmitter } };

function openParser(request: Request, progress: FormProgress, maxFieldBytes: number): BusboyInstance {
  const type = request.headers.get("content-type") ?? "";
  refuseEncoding(request);
  try {
    if (!/^multipart\/form-data\s*;/i.test(type)) throw new Error("another type");
    const parser = new Busboy({
      headers: { "content-type": type },
      fileHwm: PART_BUFFER_BYTES,
      isPartAFile(_name, _type, fileName) {
        progress.understood += 1;
        return fileName !== undefined;
      },
      limits: {
        parts: MAX_PARTS,
        fieldSize: maxFieldBytes + 1,
        fieldNameSize: MAX_NAME_BYTES,
        headerPairs: 20,
        headerSize: 8192,
      },
    });
    (parser as unknown as WithInnerParser)._parser.parser.on("part", (part: EventEmitter) => {
      // Before the library's own listener, which announces the file.
      part.prependListener("header", (fields: Record<string, string[] | undefined>) => {
        progress.mediaType = fields["content-type"]?.[0];
      });
      if (progress.understood < progress.begun) progress.onBroken(UNREADABLE_PART);
      progress.begun += 1;
      if (progress.begun > MAX_PARTS) progress.onBroken(TOO_MANY_PARTS);
    });
    return parser;
  } catch (cause) {
    throw new AppError("invalid_request", {
      detail: "content-type",
      message: "The content type must be multipart/form-data with a boundary.",
      cause,
    });
  }
}

const emptyForm = (): ReceivedForm => ({
  fields: new Map(),
  names: [],
  file: undefined,
  isTooLarge: false,
  isCutOff: false,
  fault: undefined,
});

/** Says what is wrong with the value of a text field; undefined: nothing. */
function faultOf(value: string, isCut: boolean, maxBytes: number): string | undefined {
  if (isCut || Buffer.byteLength(value) > maxBytes) return "is too long";
  // What the decoder puts in the place of bytes that are no UTF-8.
  return value.includes("\uFFFD") ? "is not valid UTF-8" : undefined;
}

async function receive(
  parser: BusboyInstance,
  progress: FormProgress,
  request: Request,
  handle: FileHandle,
  options: FormOptions,
): Promise<ReceivedForm> {
  const form = emptyForm();
  const broken = new AbortController();
  let storing: Promise<void> = Promise.resolve();
  const unstorable = Promise.withResolvers<never>();
  unstorable.promise.catch(() => undefined);
  let fileStream: BusboyFileStream | undefined;
  const { maxFieldBytes = MAX_FIELD_BYTES, listFields = [], ignoredFields = [] } = options;
  const note = (name: string, message: string) => {
    if (!ignoredFields.includes(name)) form.fault ??= { name, message };
  };
  /** A part may come without a name; no form has such a field. */
  const take = (given: string | undefined): string => {
    const name = given ?? "";
    if (form.names.includes(name) && !listFields.includes(name)) note(name, `${name} is given twice.`);
    form.names.push(name);
    return name;
  };
  parser.on("field", (given: string | undefined, value, isNameCut, isValueCut) => {
    if (broken.signal.aborted) return;
    const name = take(given);
    if (name === options.fileField) note(name, `${name} must be a file, with a file name.`);
    const fault = faultOf(value, isNameCut || isValueCut, maxFieldBytes);
    if (fault !== undefined) note(name, `${name} ${fault}.`);
    const earlier = listFields.includes(name) ? form.fields.get(name) : undefined;
    form.fields.set(name, earlier === undefined ? value : `${earlier}\n${value}`);
  });
  parser.on("file", (given: string | undefined, stream, fileName: string | undefined) => {
    if (broken.signal.aborted) return void stream.resume();
    const name = take(given);
    const isFirst = name === options.fileField && form.file === undefined;
    if (name !== options.fileField) note(name, `${name} must be text.`);
    if (!isFirst) return void stream.resume();
    const format = rawFormatOf({ name: fileName, mediaType: progress.mediaType });
    const file: ReceivedFile = { bytes: 0, sha256: "", format };
    form.file = file;
    fileStream = stream;
    storing = store(stream, handle, file, options.maxFileBytes).then((isTooLarge) => {
      form.isTooLarge = isTooLarge;
    });
    // The parser waits until the part is read, and the body waits for the parser: after a failed write, both for ever.
    storing.catch(unstorable.reject);
  });
  progress.onBroken = (fault) => {
    form.fault ??= fault;
    broken.abort();
  };
  try {
    const end = await feed(parser, request, options, broken.signal, unstorable.promise);
    form.isCutOff = end === "too large";
    if (form.isCutOff) form.isTooLarge = true;
    else if (end === "whole") await storing;
    return form;
  } finally {
    // Whatever happened, nothing writes to the file any longer once it is closed.
    fileStream?.destroy();
    await storing.catch(() => undefined);
  }
}

/** Writes a part to the disk as it arrives; returns whether it was larger than allowed. */
async function store(
  stream: BusboyFileStream,
  handle: FileHandle,
  file: ReceivedFile,
  maxBytes: number,
): Promise<boolean> {
  const hash = createHash("sha256");
  for await (const piece of stream as AsyncIterable<Buffer>) {
    hash.update(piece);
    file.bytes += piece.byteLength;
    if (file.bytes <= maxBytes) await writeAll(handle, piece);
  }
  file.sha256 = hash.digest("hex");
  return file.bytes > maxBytes;
}

async function writeAll(handle: FileHandle, piece: Buffer): Promise<void> {
  let written = 0;
  while (written < piece.byteLength) {
    const { bytesWritten } = await handle.write(piece, written);
    written += bytesWritten;
  }
}

/** Lets the parser take what has arrived, a piece in each turn; ends early when the form is finished or broken. */
async function write(
  parser: BusboyInstance,
  bytes: Uint8Array,
  broken: AbortSignal,
  finished: Promise<void>,
): Promise<void> {
  let isFinished = false;
  const finish = finished.then(() => {
    isFinished = true;
  });
  for (let at = 0; at < bytes.byteLength && !broken.aborted && !isFinished; at += PIECE_BYTES) {
    const written = Promise.withResolvers<void>();
    parser.write(bytes.subarray(at, at + PIECE_BYTES), () => written.resolve());
    await Promise.race([written.promise, finish]);
    await nextTurn();
  }
}

/** How reading a body ended. A broken one is not read on, nor is one that is too large to be read to its end. */
type End = "whole" | "broken" | "too large";

/**
 * Gives the body to the parser at the parser's pace.
 *
 * @param broken aborts when the form has a fault that nothing after it can mend
 * @param unstorable rejects when what arrives can be kept no more
 */
async function feed(
  parser: BusboyInstance,
  request: Request,
  options: FormOptions,
  broken: AbortSignal,
  unstorable: Promise<never>,
): Promise<End> {
  // A file up to twice too large is read to its end and thrown away: the fields after it count, and a client
  // that sends everything before it looks for an answer gets one.
  const maxBytes = 2 * options.maxFileBytes + SLACK_BYTES;
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) return "too large";
  const finished = Promise.withResolvers<void>();
  finished.promise.catch(() => undefined);
  unstorable.catch(finished.reject);
  parser.on("finish", finished.resolve);
  parser.on("error", (cause) =>
    finished.reject(new AppError("invalid_request", { message: "The body is not a valid form.", cause })),
  );
  const unwatch = onAbort(options.signal, () => finished.reject(options.signal.reason));
  // A piece may wait until the part before it has been read. A broken form must not wait with it.
  onAbort(broken, finished.resolve);
  const reader = request.body?.getReader();
  try {
    let bytes = 0;
    for (;;) {
      const next = await Promise.race([reader?.read(), finished.promise]);
      if (broken.aborted) return "broken";
      if (next?.value) {
        const { value } = next;
        bytes += value.byteLength;
        if (bytes > maxBytes) return "too large";
        await options.onPiece(value.byteLength, () => write(parser, value, broken, finished.promise));
        if (broken.aborted) return "broken";
      }
      if (!next || next.done) break;
    }
    parser.end();
    await finished.promise;
    return broken.aborted ? "broken" : "whole";
  } finally {
    unwatch();
    // What is left is thrown away by the server (unread.ts).
    reader?.releaseLock();
  }
}
