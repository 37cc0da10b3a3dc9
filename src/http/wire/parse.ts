import type { Static, TObject, TSchema } from "@sinclair/typebox";
import { AppError } from "../../domain/errors.ts";
import { inspectJson } from "../../lib/strict-json.ts";
import { refuseUnknown, validateKnown } from "./validate.ts";

/** Bounds of what is read before it is understood (docs/decisions/conventions.md). */
export const MAX_JSON_BYTES = 64 * 1024;
export const MAX_JSON_DEPTH = 32;
export const MAX_QUERY_CHARACTERS = 4096;

/**
 * The body of a JSON request.
 *
 * @param withheld fields of the schema that the config does not switch on
 * @throws AppError `invalid_request` for a wrong content type, more than 64 KiB, invalid UTF-8, malformed JSON,
 *   a repeated name, or a field that does not fit; `unknown_parameter` before all but the first four
 */
export async function readJson<T extends TSchema>(
  request: Request,
  schema: T,
  withheld: readonly string[] = [],
): Promise<Static<T>> {
  requireContentType(request);
  const text = decodeUtf8(await readBounded(request, MAX_JSON_BYTES));
  if (text.trim() === "") throw new AppError("invalid_request", { message: "The body is empty." });
  return checkJson(text, schema, withheld);
}

/**
 * A JSON body of a protocol that has rules of its own for it.
 *
 * @throws AppError `invalid_request` for a wrong content type, a body that is too large, invalid UTF-8 or malformed JSON
 */
export async function readMessage(request: Request, maxBytes: number): Promise<unknown> {
  requireContentType(request);
  return parseJson(decodeUtf8(await readBounded(request, maxBytes)));
}

/**
 * The body of a request that needs none: absent, empty or an empty JSON object.
 *
 * @throws AppError `unknown_parameter` for a field, `invalid_request` for anything else
 */
export async function readEmptyBody(request: Request, emptyObject: TObject): Promise<void> {
  if (!announcesBody(request)) return;
  const text = decodeUtf8(await readBounded(request, MAX_JSON_BYTES));
  if (text === "") return;
  requireContentType(request);
  checkJson(text, emptyObject);
}

/**
 * Refuses the body of a GET, which the server hides: its head still says that there is one.
 *
 * @throws AppError `invalid_request`
 */
export function refuseBody(request: Request): void {
  if (announcesBody(request))
    throw new AppError("invalid_request", { message: "This request takes no body." });
}

/** Whether a request's head announces a body; one of zero bytes does not count. */
export function announcesBody(request: Request): boolean {
  const length = request.headers.get("content-length");
  return length === null ? request.body !== null : length !== "0";
}

function checkJson<T extends TSchema>(text: string, schema: T, withheld: readonly string[] = []): Static<T> {
  const value = parseJson(text);
  const { duplicate, depth } = inspectJson(text);
  if (depth > MAX_JSON_DEPTH) {
    throw new AppError("invalid_request", {
      message: `The body nests deeper than ${MAX_JSON_DEPTH} levels.`,
    });
  }
  return checkValue(schema, value, duplicate, withheld);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new AppError("invalid_request", { message: "The body is not valid JSON." });
  }
}

/**
 * Checks what JSON text says.
 *
 * @param duplicate dotted path of a name that the text has twice
 * @param withheld fields of the schema that the config does not switch on
 * @throws AppError `unknown_parameter`, `invalid_request`
 */
export function checkValue<T extends TSchema>(
  schema: T,
  value: unknown,
  duplicate: string | undefined,
  withheld: readonly string[] = [],
): Static<T> {
  refuseUnknown(schema, value, withheld);
  if (duplicate !== undefined) {
    throw new AppError("invalid_request", { detail: duplicate, message: `${duplicate} is given twice.` });
  }
  return validateKnown(schema, value);
}

/** @throws AppError `invalid_request`, detail `content-encoding`, for a compressed body */
export function refuseEncoding(request: Request): void {
  const encoding = request.headers.get("content-encoding");
  if (encoding === null || encoding.toLowerCase() === "identity") return;
  throw new AppError("invalid_request", {
    detail: "content-encoding",
    message: "The body must not be compressed.",
  });
}

function requireContentType(request: Request): void {
  refuseEncoding(request);
  const [type, ...parameters] = (request.headers.get("content-type") ?? "")
    .split(";")
    .map((part) => part.trim());
  const isJson = type?.toLowerCase() === "application/json";
  const isUtf8 = parameters.every((parameter) => parameter === "" || /^charset="?utf-8"?$/i.test(parameter));
  if (!isJson || !isUtf8) {
    throw new AppError("invalid_request", {
      detail: "content-type",
      message: "The content type must be application/json in UTF-8.",
    });
  }
}

/** The whole body, counted while it arrives; a longer one is not read to its end. */
async function readBounded(request: Request, maxBytes: number): Promise<Uint8Array> {
  const tooLarge = () =>
    new AppError("invalid_request", { message: `The body is larger than ${maxBytes} bytes.` });
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge();
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  // createHttpHandler throws away what comes after the bound (unread.ts).
  for await (const piece of request.body?.values({ preventCancel: true }) ?? []) {
    bytes += piece.byteLength;
    if (bytes > maxBytes) throw tooLarge();
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new AppError("invalid_request", { message: "The body is not valid UTF-8." });
  }
}

/**
 * The query of a request: every parameter known, given once, correctly encoded. Whole numbers are converted
 * where the schema asks for them.
 *
 * @param search what follows the question mark. A member of a parameter that is an object is given as `name[member]`
 * @param withheld parameters of the schema that the config does not switch on
 * @throws AppError `unknown_parameter`, `invalid_request` with the parameter's name
 */
export function readQuery(
  search: string,
  schema: TObject,
  withheld: readonly string[] = [],
): Record<string, unknown> {
  if (search.length > MAX_QUERY_CHARACTERS) {
    throw new AppError("invalid_request", {
      message: `The query is longer than ${MAX_QUERY_CHARACTERS} characters.`,
    });
  }
  const pairs = search.split("&").flatMap((pair) => {
    if (pair === "") return [];
    const at = pair.indexOf("=");
    const [name, value] = at < 0 ? [pair, ""] : [pair.slice(0, at), pair.slice(at + 1)];
    return [{ name: decodeForm(name) ?? name, value: decodeForm(value) }];
  });
  // A null prototype, because a parameter may be called __proto__.
  const values: Record<string, unknown> = Object.create(null);
  for (const { name } of pairs) {
    const object = objectOf(name, schema);
    // A refusal of the whole object names the parameter as the client sent it.
    values[object === undefined || withheld.includes(object) ? name : object] = undefined;
  }
  refuseUnknown(schema, values, withheld);
  for (const { name, value } of pairs) {
    if (value === undefined) {
      throw new AppError("invalid_request", {
        detail: name,
        message: `${name} must be percent-encoded UTF-8.`,
      });
    }
    const object = objectOf(name, schema);
    const place = object === undefined ? values : membersIn(values, object);
    const key = object === undefined ? name : name.slice(object.length + 1, -1);
    if (place[key] !== undefined) {
      throw new AppError("invalid_request", { detail: name, message: `${name} is given twice.` });
    }
    const isInteger = schema.properties[name]?.type === "integer";
    place[key] = isInteger && /^(0|-?[1-9]\d{0,15})$/.test(value) ? Number(value) : value;
  }
  return validateKnown(schema, { ...values }) as Record<string, unknown>;
}

/** The parameter that is an object and of which a name such as `metadata[agent]` gives a member. */
function objectOf(name: string, schema: TObject): string | undefined {
  const object = name.endsWith("]") ? name.slice(0, Math.max(0, name.indexOf("["))) : "";
  return schema.properties[object]?.type === "object" ? object : undefined;
}

function membersIn(values: Record<string, unknown>, object: string): Record<string, unknown> {
  const known = values[object];
  if (typeof known === "object" && known !== null) return known as Record<string, unknown>;
  if (known !== undefined) {
    throw new AppError("invalid_request", { detail: object, message: `${object} is given twice.` });
  }
  const members: Record<string, unknown> = Object.create(null);
  values[object] = members;
  return members;
}

/** `application/x-www-form-urlencoded` text; undefined for broken percent-encoding or UTF-8. */
function decodeForm(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return undefined;
  }
}
