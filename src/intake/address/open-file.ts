import { AppError } from "../../domain/errors.ts";
import { type AddressRules, checkUrl } from "../../outbound/addresses.ts";
import { retryAfterMs } from "../../outbound/failures.ts";
import { AddressRefused, type GuardedFetch } from "../../outbound/guarded-fetch.ts";
import { clockAdvice } from "./bucket-clock.ts";
import type { FetchFailureKind } from "./fetch-numbers.ts";

/** Redirects that are followed. */
const MAX_REDIRECTS = 5;
/** Time until an answer must have begun, over all redirects. */
const ANSWER_MS = 30_000;
/** A recording is one of these media types. What it is indeed, verification finds. */
const TYPES = /^(audio\/|video\/|application\/(octet-stream|ogg|mp4|x-matroska|mxf)$|binary\/octet-stream$)/;

/** A fetch that failed. Another attempt may succeed, unless `isFinal`. */
export class FetchFailure extends Error {
  readonly isFinal: boolean;
  /** How long the server there asks to wait, milliseconds. */
  readonly waitMs: number;
  /** The bytes that are here cannot be continued. */
  readonly mustStartOver: boolean;
  readonly kind: FetchFailureKind;

  constructor(
    kind: FetchFailureKind,
    message: string,
    { isFinal = false, waitMs = 0, mustStartOver = false } = {},
  ) {
    super(message);
    this.name = "FetchFailure";
    this.kind = kind;
    this.isFinal = isFinal;
    this.waitMs = waitMs;
    this.mustStartOver = mustStartOver;
  }
}

export type OpenFile = {
  url: URL;
  rules: AddressRules;
  /** Checks the address to which a redirect leads. @throws AppError with a sentence that names the host */
  checkHop: (url: URL) => void;
  /** The address is that of an object in a bucket, and was signed a moment ago. Left out: it was not. */
  isSigned?: boolean;
  /** Where the fetch continues, and what names the version of the file whose first bytes are here. */
  from?: { position: number; validator: string; totalBytes: number };
  attempts: number;
  signal: AbortSignal;
  nowMs: number;
};

/** A file that has begun to arrive. */
export type OpenedFile = {
  response: Response;
  /** Position of its first byte in the file: 0, or that which was asked for. */
  start: number;
  /** Size of the whole file; undefined: the server there does not say. */
  totalBytes: number | undefined;
  /** What names this version of the file in a later request; undefined: nothing does. */
  validator: string | undefined;
};

/**
 * Asks for a file, or for the rest of it, and follows redirects within the rules. The caller reads the body or cancels it.
 *
 * @throws FetchFailure with a sentence that names the host; the signal's reason
 */
export async function openFile(guarded: GuardedFetch, wanted: OpenFile): Promise<OpenedFile> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), ANSWER_MS);
  let { url } = wanted;
  try {
    for (let redirects = 0; ; redirects += 1) {
      const response = await request(guarded, wanted, url, AbortSignal.any([wanted.signal, late.signal]));
      if (![301, 302, 303, 307, 308].includes(response.status)) return await accept(response, wanted, url);
      await drop(response);
      if (redirects === MAX_REDIRECTS)
        throw new FetchFailure("address", `${wanted.url.host} redirects more than ${MAX_REDIRECTS} times.`, {
          isFinal: true,
        });
      url = nextHop(url, response.headers.get("location"), wanted);
    }
  } catch (error) {
    wanted.signal.throwIfAborted();
    if (late.signal.aborted)
      throw new FetchFailure("connection", `${url.host} did not answer within ${ANSWER_MS / 1000} s.`);
    if (error instanceof FetchFailure) throw error;
    const isFinal = error instanceof AddressRefused && error.isRule;
    const kind = isFinal ? "address" : "connection";
    throw new FetchFailure(kind, `${url.host} could not be asked: ${guarded.describe(error)}.`, { isFinal });
  } finally {
    clearTimeout(timer);
  }
}

/** The signal of the time limit covers the answer's head alone: reading the body has limits of its own. */
function request(guarded: GuardedFetch, wanted: OpenFile, url: URL, signal: AbortSignal): Promise<Response> {
  const { rules, attempts, from } = wanted;
  const headers: Record<string, string> = {
    accept: "audio/*, video/*, application/octet-stream;q=0.9, */*;q=0.1",
    "accept-encoding": "identity",
    "user-agent": "Shruti-Intake/1",
    ...(from ? { range: `bytes=${from.position}-`, "if-range": from.validator } : {}),
    // Another host does not get them: the address of a redirect has no user but its own.
    ...(url.username || url.password ? { authorization: basic(url) } : {}),
  };
  return guarded.fetch({ url, rules, method: "GET", headers, signal, attempts });
}

function basic({ username, password }: URL): string {
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Basic ${Buffer.from(pair).toString("base64")}`;
}

/** Checks where a redirect leads. @throws FetchFailure, final */
function nextHop(from: URL, location: string | null, { rules, checkHop }: OpenFile): URL {
  const refuse = (reason: string) =>
    new FetchFailure("address", `${from.host} redirects to a place that is not allowed: ${reason}`, {
      isFinal: true,
    });
  const target = location === null ? null : URL.parse(location, from.href);
  if (!target) throw refuse("its answer names no address.");
  try {
    // A fragment is for browsers. A user in the address of a redirect is not one that the customer has named.
    target.hash = "";
    const url = checkUrl(target.href, rules, {
      detail: "audio.source_url",
      refusal: "Files are not fetched from it",
    });
    checkHop(url);
    return url;
  } catch (error) {
    if (error instanceof AppError) throw refuse(error.message);
    throw error;
  }
}

/** Checks the head of an answer. @throws FetchFailure */
async function accept(response: Response, wanted: OpenFile, { host }: URL): Promise<OpenedFile> {
  try {
    if (response.status === 403 && wanted.isSigned) await requireClock(response, host);
    requireStatus(response, host, wanted.nowMs);
    requireType(response.headers, host);
    const length = wholeNumber(response.headers.get("content-length"));
    const validator = validatorOf(response.headers);
    if (response.status === 200) return { response, start: 0, totalBytes: length, validator };
    const range = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(response.headers.get("content-range") ?? "");
    const [start, end, totalBytes] = [range?.[1], range?.[2], range?.[3]].map(Number);
    const { from } = wanted;
    const isAsked = from !== undefined && start === from.position;
    if (!isAsked || end === undefined || totalBytes === undefined || end + 1 !== totalBytes)
      throw new FetchFailure("answer", `${host} answered with a part of the file that was not asked for.`, {
        mustStartOver: true,
      });
    if (totalBytes !== from.totalBytes || isOtherVersion(response.headers, from.validator))
      throw new FetchFailure("answer", `${host} answered with a part of another version of the file.`, {
        mustStartOver: true,
      });
    return { response, start, totalBytes, validator: from.validator };
  } catch (error) {
    await drop(response);
    throw error;
  }
}

/** @throws FetchFailure where this machine's clock is the cause of a refusal: it may be right at the next attempt */
async function requireClock(response: Response, host: string): Promise<void> {
  const advice = await clockAdvice(response);
  if (advice !== undefined) throw new FetchFailure("answer", `${host} answered 403${advice}.`);
}

/** Statuses after which another attempt may succeed. */
const PASSING = [408, 416, 425, 429];

function requireStatus({ status, headers }: Response, host: string, nowMs: number): void {
  if (status === 200 || status === 206) return;
  const isFinal = status < 500 && !PASSING.includes(status);
  const advice =
    status === 401 || status === 403
      ? ": it does not give the file without other credentials, or the address has expired"
      : status === 404 || status === 410
        ? ": there is no such file"
        : "";
  throw new FetchFailure("answer", `${host} answered ${status}${advice}.`, {
    isFinal,
    mustStartOver: status === 416,
    waitMs: retryAfterMs(headers.get("retry-after"), nowMs),
  });
}

function requireType(headers: Headers, host: string): void {
  const type = (headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
  if (type !== "" && !TYPES.test(type)) {
    throw new FetchFailure(
      "file",
      `${host} answered with the media type ${type.slice(0, 100)}, which is not that of a recording.`,
      { isFinal: true },
    );
  }
  const encoding = (headers.get("content-encoding") ?? "identity").trim().toLowerCase();
  if (encoding !== "identity" && encoding !== "") {
    throw new FetchFailure(
      "file",
      `${host} answered in the encoding ${encoding.slice(0, 40)}, which was not asked for.`,
      {
        isFinal: true,
      },
    );
  }
}

/** RFC 9110 section 13.1.5: a weak ETag does not name bytes. */
function validatorOf(headers: Headers): string | undefined {
  const etag = headers.get("etag");
  if (etag?.startsWith('"')) return etag.slice(0, 1000);
  return headers.get("last-modified")?.slice(0, 100);
}

/** Some servers ignore `If-Range`: the part that they send tells by the header that named the version. */
function isOtherVersion(headers: Headers, validator: string): boolean {
  const named = headers.get(validator.startsWith('"') ? "etag" : "last-modified");
  return named !== null && named.slice(0, validator.length) !== validator;
}

function wholeNumber(text: string | null): number | undefined {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** Ends an answer whose body is not wanted. */
export async function drop(response: Response): Promise<void> {
  await response.body?.cancel().catch(() => undefined);
}
