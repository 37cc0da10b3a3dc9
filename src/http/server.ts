import type { Server } from "bun";
import { AppError } from "../domain/errors.ts";
import { onAbort } from "../lib/abort.ts";
import { type Actor, runAs, SERVER } from "../lib/actor.ts";
import { derivedFrom } from "../lib/derived.ts";
import { newId } from "../lib/ids.ts";
import { trustedProxies } from "../services/trusted-proxies.ts";
import { isDiskFull, isOutOfFiles, isRefusedAccess, lastingState } from "../store/disk-full.ts";
import { REQUEST_WAIT } from "../store/write-gate.ts";
import { admit } from "./auth.ts";
import { createClientAddress } from "./client-address.ts";
import { adminRoutes } from "./console/admin-routes.ts";
import { consoleRoutes, homeOf } from "./console/console-routes.ts";
import { callerOf, contextOf, type RequestContext, setContext, targetOf } from "./context.ts";
import { type Cors, createCors } from "./cors.ts";
import type { HttpDeps } from "./deps.ts";
import { createFormReceiver } from "./form-receiver.ts";
import { loggedPath } from "./logged-path.ts";
import { mcpRoutes, type OwnHandler } from "./mcp/routes.ts";
import { openAiShape } from "./openai/errors.ts";
import { OPENAI_PREFIX, openAiRoutes } from "./openai/routes.ts";
import { createRefusalLog, type RefusalLog } from "./refusal-log.ts";
import { defineRoutes } from "./route.ts";
import { audioRoutes } from "./routes/audio.ts";
import { docsRoutes } from "./routes/docs.ts";
import { listeningRoutes } from "./routes/listening.ts";
import { modelRoutes } from "./routes/models.ts";
import { systemRoutes } from "./routes/system.ts";
import { transcriptionRoutes } from "./routes/transcriptions.ts";
import { uploadRoutes } from "./routes/uploads.ts";
import { usageRoutes } from "./routes/usage.ts";
import { webhookEndpointRoutes } from "./routes/webhooks.ts";
import { createStorageHandler, storageMethods } from "./storage/storage.ts";
import { createUnread } from "./unread.ts";
import { type ErrorShape, errorResponse, toAppError } from "./wire/errors.ts";

export type HttpHandler = (request: Request, server?: Server<unknown>) => Promise<Response>;

/** Addresses that take an upload's token in the place of a key. */
const STORAGE = "/storage/";
/** The route of every path that has none. */
const UNKNOWN = "/*";
/** Unknown methods become OTHER, to bound the label's values. */
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);
/** Methods that change nothing. */
const READS = new Set(["GET", "HEAD", "OPTIONS"]);
/** Answered by a stopping server as well; they need no store. */
const PROBES = new Set(["/healthz", "/readyz"]);

/** Answered while an upgrade is not confirmed as well: they write nothing. */
const OPEN_WHILE_HELD = /^\/(metrics|openapi\.json|docs|docs\/.*|console|console\/assets\/.*)$/;
const HELD_RETRY_SECONDS = 5;

/** All routes of the service, in the order of docs/interface.md section 4. */
export function createRoutes(deps: HttpDeps, handle: OwnHandler) {
  const receive = createFormReceiver(deps);
  const keyed = defineRoutes("interface")
    .use(transcriptionRoutes(deps))
    .use(listeningRoutes(deps))
    .use(audioRoutes(deps, receive))
    .use(uploadRoutes(deps))
    .use(modelRoutes(deps))
    .use(usageRoutes(deps))
    .use(webhookEndpointRoutes(deps))
    .use(deps.config.openai.enabled ? openAiRoutes(deps, receive) : defineRoutes("no-openai"))
    .use(deps.config.mcp.enabled ? mcpRoutes(deps, handle) : defineRoutes("no-mcp"));
  const open = defineRoutes("open")
    .use(systemRoutes(deps, () => keyed.routes))
    .use(docsRoutes())
    .use(deps.config.console.enabled ? consoleRoutes().use(adminRoutes(deps)) : defineRoutes("no-console"));
  return { keyed, open };
}

/**
 * Every route of the service as one Elysia application. Elysia finds the route of a request; `all` is what it finds
 * for a method that a path does not have, and for a path that there is not.
 */
function createApp(deps: HttpDeps, cors: Cors, handle: OwnHandler) {
  const { keyed, open } = createRoutes(deps, handle);
  const storage = createStorageHandler(deps);
  const app = defineRoutes("shruti")
    .onRequest(({ request }) => {
      const context = contextOf(request);
      if (PROBES.has(context.path)) return;
      if (deps.stopping.aborted) throw stopped(context);
      if (deps.isHeld() && !OPEN_WHILE_HELD.test(context.path)) throw held();
    })
    .onTransform(({ request, route }) => {
      contextOf(request).route = route;
    })
    .onBeforeHandle(async ({ request }) => {
      // Handlers write in synchronous transactions. One that met a lock of another program would be refused at once.
      if (!READS.has(request.method) && !contextOf(request).path.startsWith(STORAGE))
        await deps.database.gate.passed(REQUEST_WAIT);
    })
    .onError(({ error, request, route }) => {
      contextOf(request).route = route;
      return refuse(deps, request, error);
    })
    .use(keyed)
    .use(open)
    .all(
      `${STORAGE}*`,
      ({ request }) => {
        const { path, server } = contextOf(request);
        return cors.preflight(request, storageMethods(path)) ?? storage(request, server);
      },
      { parse: "none" },
    );
  for (const { routes } of [keyed, open]) {
    for (const [path, found] of Map.groupBy(routes, (route) => route.path)) {
      const allow = found.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]));
      const refusal = () => new AppError("method_not_allowed", { allow });
      app.all(path, refuser(cors, { allow, needsKey: routes === keyed.routes, refusal }));
    }
  }
  const refusal = () => new AppError("not_found");
  const refuseUnknown = refuser(cors, { allow: [], needsKey: true, refusal });
  return app.all(
    UNKNOWN,
    ({ request }) => homeOf(request, deps.config.console.enabled) ?? refuseUnknown({ request }),
  );
}

type Refused = { allow: readonly string[]; needsKey: boolean; refusal: () => AppError };

/** A handler that answers preflights and refuses the rest; where a path needs a key, this does as well. */
function refuser(cors: Cors, { allow, needsKey, refusal }: Refused) {
  return ({ request }: { request: Request }): Response => {
    const answer = cors.preflight(request, allow);
    if (answer) return answer;
    if (needsKey) callerOf(request);
    throw refusal();
  };
}

/**
 * The whole HTTP service as one function. Around Elysia it gives each request its id, waits for unread bodies,
 * completes the header fields of every response, and writes one log line.
 */
export function createHttpHandler(deps: HttpDeps): HttpHandler {
  const cors = createCors(() => deps.config.server.cors_origins);
  const app = createApp(deps, cors, (request) => handle(request));
  const clientOf = derivedFrom(
    () => deps.config.server.trusted_proxies,
    () => createClientAddress(trustedProxies(deps.config)),
  );
  const unread = createUnread(deps.stopping);
  const refusals = createRefusalLog(deps.log);
  onAbort(deps.stopping, refusals.flush);

  const handle: HttpHandler = async (received, server) => {
    const startedMs = performance.now();
    const request = withPlainUrl(received);
    const requestId = newId("request", deps.clock.now());
    const context: RequestContext = {
      ...{ requestId, server, ...targetOf(request.url), responseFields: {} },
      client: clientOf()(received, server),
      admit: () => admit(deps, request, context),
    };
    setContext(request, context);
    const client = context.client.address;
    let response = await runAs(
      () => actorOf(context),
      () => app.fetch(request),
    );
    if (response.status >= 400 && request.signal.aborted) response = cutOff(deps, context);
    // A client that was too slow for the request has had its time.
    const isPatient = response.status !== TOO_SLOW;
    await unread.settle(request, server, { client, isPatient });
    complete(request, context, response);
    cors.decorate(request, response.headers);
    report(deps, refusals, request, context, { client, status: response.status, startedMs });
    return response;
  };
  return handle;
}

/** Who acts in a request, for the audit log. The key is known once it has been recognised. */
function actorOf({ requestId, caller, admin }: RequestContext): Actor {
  if (admin !== undefined) return { source: "console", name: admin, via: requestId };
  return caller ? { source: "api_key", name: caller.keyId, via: requestId } : { ...SERVER, via: requestId };
}

/** The store closes soon: the client must try another server, or this one after its next start. */
function stopped(context: RequestContext): AppError {
  context.closesConnection = true;
  return new AppError("capacity_unavailable", { message: "The server is stopping." });
}

/** Nothing may be written before the server has been ready once after an upgrade (upgrade-hold.ts). */
function held(): AppError {
  return new AppError("capacity_unavailable", {
    message: "The server is starting after an upgrade.",
    retryAfterSeconds: HELD_RETRY_SECONDS,
  });
}

/** Status of `timeout`. */
const TOO_SLOW = 504;
/** nginx's status for "client closed request"; only the log and the metrics have it. */
const CLIENT_GONE = 499;

/** The status of a request whose connection ended before its answer, whatever failed because of that. */
function cutOff(deps: HttpDeps, context: RequestContext): Response {
  return deps.stopping.aborted
    ? errorResponse(stopped(context), shapeFor(deps, context))
    : new Response(null, { status: CLIENT_GONE });
}

/**
 * Makes a request's address begin with `http://` and a host: Elysia looks for the path from the eighth character on
 * (`standardHostname: false`). Over TLS the address begins with `https://`; without `Host` (HTTP/1.0, as in load
 * balancers' health checks) it is the path alone.
 */
function withPlainUrl(request: Request): Request {
  const { url } = request;
  if (url.startsWith("http://")) return request;
  const plain = url.startsWith("/") ? `http://localhost${url}` : `http${url.slice(url.indexOf(":"))}`;
  return Object.defineProperty(request, "url", { value: plain });
}

/** Turns a thrown value into a response, and logs what is not meant for clients. */
function refuse(deps: HttpDeps, request: Request, thrown: unknown): Response {
  const error = toAppError(thrown);
  const context = contextOf(request);
  const shape = shapeFor(deps, context);
  context.code = error.code;
  if (!isOurFault(error)) return errorResponse(error, shape);
  const { requestId } = context;
  const fault = describeFault(error.cause ?? error);
  if (!request.signal.aborted) {
    // A state of the machine: with its name, the log leaves repetitions out.
    const state = lastingState(error.cause);
    deps.log.error({ request_id: requestId, ...(state ? { state } : {}), fault }, "a request failed");
    return errorResponse(error, shape);
  }
  // Work that its client has left fails in many ways. The answer reaches no client, and the program is not at fault.
  deps.log.info({ request_id: requestId, fault }, "a client went away");
  return errorResponse(new AppError("invalid_request", { message: "The connection was closed." }));
}

/** The shape of errors at an address; undefined: the interface's own. */
function shapeFor({ config }: HttpDeps, { path }: RequestContext): ErrorShape | undefined {
  return config.openai.enabled && path.startsWith(`${OPENAI_PREFIX}/`) ? openAiShape : undefined;
}

/** Whether an admin must know of an error. */
function isOurFault({ code, cause }: AppError): boolean {
  return code === "internal_error" || isDiskFull(cause) || isRefusedAccess(cause) || isOutOfFiles(cause);
}

/** Describes where a failure happened. A database error's own message repeats the statement's values: its cause's does not. */
function describeFault(fault: unknown): string {
  if (!(fault instanceof Error)) return typeof fault;
  const isStatement = fault.cause instanceof Error && fault.message.startsWith("Failed query");
  const { message } = isStatement ? (fault.cause as Error) : fault;
  const frames = (fault.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  return [`${fault.name}: ${message}`, ...frames.slice(0, 12)].join("\n");
}

function complete(request: Request, context: RequestContext, response: Response): void {
  const { headers } = response;
  headers.set("x-request-id", context.requestId);
  for (const [name, value] of Object.entries(context.responseFields)) headers.set(name, value);
  if (!headers.has("cache-control")) headers.set("cache-control", "no-store");
  headers.set("x-content-type-options", "nosniff");
  if (context.closesConnection || asksToClose(request)) headers.set("connection", "close");
}

/** The server closes after the answer then, and must say so (RFC 9112 section 9.6). */
function asksToClose(request: Request): boolean {
  const options = request.headers.get("connection")?.toLowerCase().split(",") ?? [];
  return options.some((option) => option.trim() === "close");
}

type Outcome = {
  client: string | undefined;
  status: number;
  startedMs: number;
};

/** Writes one line and one count for a request; never a query, key or body. A flood without keys is only counted. */
function report(
  deps: HttpDeps,
  refusals: RefusalLog,
  request: Request,
  context: RequestContext,
  outcome: Outcome,
): void {
  const { client, status } = outcome;
  const seconds = (performance.now() - outcome.startedMs) / 1000;
  deps.metrics.observeRequest({
    method: METHODS.has(request.method) ? request.method : "OTHER",
    route: routeName(context),
    status,
    seconds,
  });
  if (status === 401 && !refusals.hasOwnLine(client)) return;
  // Load balancers and monitors ask every few seconds. Their answers matter when they are bad.
  const level = isPoll(context.path) && status < 400 ? "debug" : "info";
  deps.log[level](
    {
      request_id: context.requestId,
      method: request.method,
      path: loggedPath(context.path),
      status,
      ...(context.code === undefined || status < 400 ? {} : { code: context.code }),
      client,
      duration_ms: Math.round(seconds * 1e6) / 1000,
      ...(context.caller ? { project_id: context.caller.projectId, key_id: context.caller.keyId } : {}),
    },
    "request",
  );
}

const isPoll = (path: string) => PROBES.has(path) || path === "/metrics";

/** A name with few values, for metrics. */
function routeName({ path, route }: RequestContext): string {
  if (path.startsWith(STORAGE)) return "/storage";
  return route === undefined || route === UNKNOWN ? "(none)" : route;
}
