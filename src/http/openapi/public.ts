import { Health, NotReady, Readiness, Upload } from "../wire/schemas.ts";
import { ERROR, errorResponses, headerRef, type Json, pathParameters } from "./parts.ts";

/** The addresses that no project key opens: an upload's own, and those for who runs the program. */
export function publicPaths({ hasMetrics }: { hasMetrics: boolean }): Json {
  const paths: Record<string, Record<string, Json>> = {
    "/storage/uploads/{upload_id}": PUT_PATH,
    "/storage/tus": TUS_COLLECTION,
    "/storage/tus/{upload_id}": TUS_RESOURCE,
    "/healthz": { get: HEALTH },
    "/readyz": { get: READINESS },
    ...(hasMetrics ? { "/metrics": { get: METRICS } } : {}),
  };
  return mapValues(paths, (item) =>
    // Linters ask every operation for a description.
    mapValues(item, (operation) => ({ description: `${operation.summary}.`, ...operation })),
  );
}

function mapValues<A, B>(values: Record<string, A>, map: (value: A) => B): Record<string, B> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]));
}

const REQUEST_ID = headerRef("x-request-id");
const NO_KEY = [{}];
const TOKEN = [{ uploadToken: [] }];
const ref = ({ title }: { title?: string }) => ({ $ref: `#/components/schemas/${title}` });

function json(description: string, schema: { title?: string; examples?: unknown[] }): Json {
  const content = { "application/json": { schema: ref(schema), example: schema.examples?.[0] } };
  return { description, headers: REQUEST_ID, content };
}

function empty(description: string, headers: Json = {}): Json {
  return { description, headers: { ...REQUEST_ID, ...headers } };
}

/** A refusal under a status that tus prescribes, whatever the code's own. */
function refusal(description: string, headers: Json = {}): Json {
  return { ...empty(description, headers), content: { "application/json": { schema: ERROR } } };
}

/** What both ways of sending a file can answer. */
const STORAGE_ERRORS = [
  "unauthorized",
  "organization_disabled",
  "not_found",
  "method_not_allowed",
  "conflict",
  "audio_too_large",
  "invalid_request",
  "unknown_parameter",
  "internal_error",
  "capacity_unavailable",
] as const;

/** What a request with bytes can answer beside them, where the organization may not store more. */
const NO_SPACE = ["insufficient_credits", "rate_limited"] as const;

/** The answers to HEAD have no body. */
const withoutBody = (responses: Json): Json =>
  mapValues(responses as Record<string, Json>, ({ content: _, ...response }) => response);

const BINARY = { type: "string", format: "binary", contentMediaType: "application/octet-stream" };
const integerField = (description: string) => ({ description, schema: { type: "integer", minimum: 0 } });
const textField = (description: string) => ({ description, schema: { type: "string" } });

const [UPLOAD_ID] = pathParameters("/:upload_id");

const PUT_PATH = {
  put: {
    operationId: "sendFile",
    summary: "Send a file in one request",
    description:
      "Address, method and header fields are those of the upload's create response. A repeated PUT starts over.",
    tags: ["Uploads"],
    security: TOKEN,
    parameters: [UPLOAD_ID],
    requestBody: { required: true, content: { "application/octet-stream": { schema: BINARY } } },
    responses: {
      "200": json("Every byte is stored.", Upload),
      ...errorResponses(
        [...STORAGE_ERRORS, ...NO_SPACE, "upload_incomplete", "upload_rejected", "audio_decode_failed"],
        {},
      ),
    },
  },
  head: {
    operationId: "countSentBytes",
    summary: "How many bytes of a file are stored",
    tags: ["Uploads"],
    security: TOKEN,
    parameters: [UPLOAD_ID],
    responses: {
      "200": empty("They are counted; a sender is not disturbed.", {
        "Upload-Length": integerField("Bytes that the upload declares."),
        "Upload-Offset": integerField("Bytes that are stored."),
      }),
      ...withoutBody(errorResponses([...STORAGE_ERRORS, "upload_rejected", "audio_decode_failed"], {})),
    },
  },
  delete: {
    operationId: "discardFile",
    summary: "Throw away what is stored",
    description: "The upload can be sent again until it expires.",
    tags: ["Uploads"],
    security: TOKEN,
    parameters: [UPLOAD_ID],
    responses: {
      "204": empty("Nothing is stored."),
      ...errorResponses([...STORAGE_ERRORS, "upload_rejected", "audio_decode_failed"], {}),
    },
  },
};

const TUS_DOCS = { description: "tus 1.0", url: "https://tus.io/protocols/resumable-upload" };
const OFFSET = { "Upload-Offset": integerField("Bytes that are stored.") };
const RESUMABLE = { "Tus-Resumable": textField("Version of the protocol, `1.0.0`.") };
const EXPIRES = {
  "Upload-Expires": textField("When the upload ends, as an HTTP date, while bytes are missing."),
};
const tusParameter = (name: string, description: string, schema: Json, required = true) => ({
  name,
  in: "header",
  required,
  description,
  schema,
});
const VERSION_FIELD = tusParameter("Tus-Resumable", "Version of the protocol.", { const: "1.0.0" });
const CHECKSUM_FIELD = tusParameter(
  "Upload-Checksum",
  "`sha1`, `sha256` or `md5`, a space, and the body's digest in base64.",
  { type: "string" },
  false,
);
const TUS_BODY = { content: { "application/offset+octet-stream": { schema: BINARY } } };

/** Refusals of tus requests. */
const TUS_ERRORS = {
  ...errorResponses(STORAGE_ERRORS, {}),
  "400": refusal("`invalid_request`: `Upload-Checksum` has another form or algorithm."),
  "410": refusal("`upload_rejected` or `audio_decode_failed`: the upload has expired or was rejected."),
  "412": refusal("`invalid_request`: another version of tus.", {
    "Tus-Version": textField("Versions that are spoken."),
  }),
  "415": refusal("`invalid_request`: another content type than `application/offset+octet-stream`."),
  "460": refusal("`invalid_request`: the body does not have the checksum it names, and was not kept."),
};

const TUS_BODY_ERRORS = { ...errorResponses(NO_SPACE, {}), ...TUS_ERRORS };

function tusOptions(operationId: string): Json {
  return {
    operationId,
    summary: "What the tus server can do",
    tags: ["Uploads"],
    security: NO_KEY,
    externalDocs: TUS_DOCS,
    responses: {
      "204": empty("Its version, extensions, largest size and checksum algorithms.", {
        ...RESUMABLE,
        "Tus-Version": textField("Versions that are spoken."),
        "Tus-Extension": textField("Extensions, separated by commas."),
        "Tus-Max-Size": integerField("Bytes of the largest upload."),
        "Tus-Checksum-Algorithm": textField("Algorithms, separated by commas."),
      }),
      ...errorResponses(["not_found", "unknown_parameter", "capacity_unavailable"], {}),
    },
  };
}

const TUS_COLLECTION = {
  post: {
    operationId: "createTusUpload",
    summary: "Begin a resumable upload",
    description:
      "Client libraries of tus do this with the fields of `resumable_upload`. A repeated request gives the same address and leaves the stored bytes as they are.",
    tags: ["Uploads"],
    security: TOKEN,
    externalDocs: TUS_DOCS,
    parameters: [
      VERSION_FIELD,
      tusParameter("Upload-Length", "Bytes, as declared to POST /v1/uploads.", {
        type: "integer",
        minimum: 1,
      }),
      tusParameter("Upload-Metadata", "`upload_id`, a space, and the upload's identifier in base64.", {
        type: "string",
      }),
      CHECKSUM_FIELD,
    ],
    requestBody: { required: false, ...TUS_BODY },
    responses: {
      "201": empty("Send the bytes to `Location`.", {
        ...RESUMABLE,
        ...OFFSET,
        ...EXPIRES,
        Location: textField("Address of the upload."),
      }),
      ...TUS_BODY_ERRORS,
      "501": refusal("`capability_unavailable`: parallel uploads and deferred lengths are not supported."),
    },
  },
  options: tusOptions("describeTus"),
};

const TUS_RESOURCE = {
  head: {
    operationId: "getTusOffset",
    summary: "Where to continue",
    tags: ["Uploads"],
    security: TOKEN,
    externalDocs: TUS_DOCS,
    parameters: [UPLOAD_ID, VERSION_FIELD],
    responses: {
      "200": empty("Send from the offset on.", {
        ...RESUMABLE,
        ...OFFSET,
        ...EXPIRES,
        "Upload-Length": integerField("Bytes that the upload declares."),
      }),
      ...withoutBody(TUS_ERRORS),
    },
  },
  patch: {
    operationId: "sendTusBytes",
    summary: "Send bytes from an offset on",
    tags: ["Uploads"],
    security: TOKEN,
    externalDocs: TUS_DOCS,
    parameters: [
      UPLOAD_ID,
      VERSION_FIELD,
      tusParameter("Upload-Offset", "Bytes that are stored.", { type: "integer", minimum: 0 }),
      CHECKSUM_FIELD,
    ],
    requestBody: { required: true, ...TUS_BODY },
    responses: {
      "204": empty("They are stored.", { ...RESUMABLE, ...OFFSET, ...EXPIRES }),
      ...TUS_BODY_ERRORS,
    },
  },
  delete: {
    operationId: "endTusUpload",
    summary: "Throw away what is stored",
    description: "The upload can be created and sent again until it expires.",
    tags: ["Uploads"],
    security: TOKEN,
    externalDocs: TUS_DOCS,
    parameters: [UPLOAD_ID, VERSION_FIELD],
    responses: { "204": empty("Nothing is stored.", RESUMABLE), ...TUS_ERRORS },
  },
  options: { ...tusOptions("describeTusUpload"), parameters: [UPLOAD_ID] },
};

const HEALTH = {
  operationId: "getHealth",
  summary: "Whether the program is alive",
  tags: ["Operations"],
  security: NO_KEY,
  responses: { "200": json("It is.", Health), ...errorResponses(["method_not_allowed"], {}) },
};

const READINESS = {
  operationId: "getReadiness",
  summary: "Whether the program can take work",
  tags: ["Operations"],
  security: NO_KEY,
  responses: {
    "200": json("It can.", Readiness),
    ...errorResponses(["method_not_allowed"], {}),
    "503": json("It cannot; the body says why.", NotReady),
  },
};

const METRICS = {
  operationId: "getMetrics",
  summary: "Numbers in Prometheus text format",
  description: "With `metrics.token` in the config, that token is asked for.",
  tags: ["Operations"],
  security: [{}, { metricsToken: [] }],
  responses: {
    "200": {
      ...empty("The numbers."),
      content: { "text/plain": { schema: { type: "string", description: "Prometheus text format." } } },
    },
    ...errorResponses(["unauthorized", "method_not_allowed", "capacity_unavailable"], {}),
  },
};
