import { Value } from "@sinclair/typebox/value";
import { ERROR_TABLE } from "../../domain/errors.ts";
import { ErrorObject } from "../../http/wire/schemas.ts";
import { createDescriptionCheck, type Described } from "./described.ts";
import type { RawAnswer } from "./raw-http.ts";

/** The parts of a request on which its response depends; undefined when the bytes are not a request. */
export type Asked = { method: string; target: string; headers: readonly (readonly [string, string])[] };

export type Verdict = {
  /** Operation, status and code. Responses are counted by this name. */
  name: string;
  status: number;
  /** Bun wrote the response before the program saw a request. */
  isRuntime: boolean;
  /** The kind of row that was stored, as the response reports it. */
  stored?: "uploads" | "asynchronous" | "synchronous" | "endpoints";
  faults: string[];
};

type Documented = { operationId: string; responses: Record<string, { content?: Record<string, Content> }> };
type Content = { examples?: Record<string, unknown> };
type Document = { paths: Record<string, Record<string, Documented>> };

const STORED: Readonly<Record<string, NonNullable<Verdict["stored"]>>> = {
  "createUpload 201": "uploads",
  "createTranscription 202": "asynchronous",
  "transcribeAudio 200": "synchronous",
  "createWebhookEndpoint 201": "endpoints",
};
/** Statuses of the storage addresses other than PUT: those of tus 1.0, its extensions, and docs/decisions/uploads.md. */
const STORAGE_STATUSES = new Set([
  200, 201, 204, 400, 401, 404, 405, 409, 410, 412, 413, 415, 422, 460, 501, 503,
]);
const RUNTIME_STATUSES = new Set([400, 413, 414, 431, 505]);
const REQUEST_ID = /^req_[0-9A-HJKMNP-TV-Z]{26}$/;

/** Reads the table of a running server. The returned check judges single responses. */
export async function createAnswerCheck(baseUrl: string) {
  const document = (await (await fetch(`${baseUrl}/openapi.json`)).json()) as Document & Described;
  const faultOf = createDescriptionCheck(document);
  const templates = Object.entries(document.paths).map(([path, methods]) => ({
    methods,
    segments: path.split("/"),
  }));

  function find(path: string) {
    const segments = path.split("/");
    return templates.find(
      (one) =>
        one.segments.length === segments.length &&
        one.segments.every((part, at) =>
          part.startsWith("{") ? segments[at] !== "" && !segments[at]?.includes("%") : part === segments[at],
        ),
    );
  }

  return (asked: Asked | undefined, answer: RawAnswer): Verdict => {
    const { status, headers } = answer;
    const faults: string[] = status === 500 ? [`500: ${answer.body.slice(0, 300)}`] : [];
    if (!headers.has("x-request-id")) {
      if (!RUNTIME_STATUSES.has(status)) faults.push(`${status} without x-request-id`);
      return { name: `(runtime) ${status}`, status, isRuntime: true, faults };
    }
    if (!REQUEST_ID.test(headers.get("x-request-id") ?? "")) faults.push("a malformed x-request-id");
    if (!asked) return { name: `(broken) ${status}`, status, isRuntime: false, faults };
    const path = pathOf(asked.target);
    // The runtime removes `.` and `..` from a path before the program sees it, except when a request names no host.
    if (/\/\.{1,2}(\/|$)/.test(path)) {
      return { name: `(steps in the path) ${status}`, status, isRuntime: false, faults };
    }
    const method = asked.method === "HEAD" ? "GET" : asked.method;
    const template = find(path);
    const operation = template?.methods[method.toLowerCase()];
    const isStorage = path.startsWith("/storage/");
    const error = status >= 400 ? readError(answer, asked.method, path, faults) : undefined;
    const place =
      operation?.operationId ?? (isStorage ? `storage ${method}` : template ? "(method)" : "(path)");
    // The document describes the body and the header fields of each success. Those of tus are the protocol's.
    if (operation && asked.method !== "HEAD" && status < 300 && !path.startsWith("/storage/tus")) {
      const seen = { method, path, status, headers: new Headers([...headers]), text: answer.body };
      const fault = faultOf(seen);
      if (fault !== undefined) faults.push(`${operation.operationId} ${status}: ${fault}`);
    }
    if (operation) checkDocumented(operation, status, error, faults);
    else if (isStorage) {
      if (!STORAGE_STATUSES.has(status)) faults.push(`${status} of a storage address`);
    } else checkElsewhere({ isKnown: template !== undefined, status, error, path, method }, faults);
    checkFields(answer, faults);
    const stored = STORED[`${operation?.operationId} ${status}`];
    const name = `${place} ${status}${error ? ` ${error}` : ""}`;
    return { name, status, isRuntime: false, faults, ...(stored ? { stored } : {}) };
  };
}

/** Returns the path that the server sees: without the query, and without an origin in front. */
function pathOf(target: string): string {
  return target.replace(/^https?:\/\/[^/]*/i, "").split("?")[0] ?? "";
}

/** Returns the code of an error body. Responses to `HEAD` have none. */
function readError(answer: RawAnswer, method: string, path: string, faults: string[]): string | undefined {
  const { status, headers, body } = answer;
  if (method === "HEAD" || path === "/readyz") return undefined;
  if (headers.get("content-type") !== "application/json")
    faults.push(`${status} as ${headers.get("content-type")}`);
  const parsed = parseJson(body);
  if (!Value.Check(ErrorObject, parsed)) {
    faults.push(`${status} without the error body: ${body.slice(0, 200)}`);
    return undefined;
  }
  const { code, message } = parsed.error;
  // tus prescribes some statuses. The code is the nearest one of the interface.
  if (ERROR_TABLE[code].status !== status && !path.startsWith("/storage/tus"))
    faults.push(`${status} with ${code}`);
  if (message === "" || /\/tmp\/|node_modules|SQLITE|at .*\.ts:\d/.test(message))
    faults.push(`message: ${message}`);
  return code;
}

function checkDocumented(operation: Documented, status: number, code: string | undefined, faults: string[]) {
  const response = operation.responses[String(status)];
  if (!response) {
    faults.push(`${operation.operationId}: ${status} ${code ?? ""} is not documented`);
    return;
  }
  const examples = response.content?.["application/json"]?.examples;
  if (code !== undefined && examples && !(code in examples)) {
    faults.push(`${operation.operationId}: ${status} ${code} is not documented`);
  }
}

type Elsewhere = {
  isKnown: boolean;
  status: number;
  error: string | undefined;
  path: string;
  method: string;
};

/** Checks responses that belong to no operation: unknown paths, wrong methods, and pages. */
function checkElsewhere({ isKnown, status, error, path, method }: Elsewhere, faults: string[]) {
  const isPage = path === "/openapi.json" || path.startsWith("/docs") || path.startsWith("/console");
  if (status < 400 && (isPage || (method === "OPTIONS" && status === 204))) return;
  const allowed = isKnown || isPage ? [401, 403, 404, 405, 429] : [401, 403, 404, 429];
  if (!allowed.includes(status))
    faults.push(`${status} ${error ?? ""} of ${isKnown ? "a wrong method" : "no route"}`);
}

function checkFields({ status, headers }: RawAnswer, faults: string[]) {
  const needs: readonly (readonly [number, string])[] = [
    [405, "allow"],
    [429, "retry-after"],
    [503, "retry-after"],
    [401, "www-authenticate"],
  ];
  for (const [of, name] of needs)
    if (status === of && !headers.has(name)) faults.push(`${status} without ${name}`);
  if (headers.get("x-content-type-options") !== "nosniff") faults.push("without x-content-type-options");
  if (!headers.has("cache-control")) faults.push("without cache-control");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
