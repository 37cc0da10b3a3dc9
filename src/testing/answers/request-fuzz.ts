import { seededRandom } from "../makers/audio-makers.ts";
import type { Asked } from "./answer-check.ts";
import type { FuzzWorld } from "./request-fuzz-world.ts";

/** The bytes of one connection, and what is needed to judge the responses. */
export type FuzzedRequest = {
  index: number;
  label: string;
  pieces: Uint8Array[];
  /** Methods of the requests in `pieces`, as far as these are complete. */
  methods: string[];
  asked: (Asked | undefined)[];
  afterwards: "wait" | "linger" | "end" | "destroy";
  /** Complete requests must get a response, whatever they ask for. */
  mustAnswer: boolean;
};

type Random = () => number;
type Field = readonly [string, string];
type Body = { bytes: Uint8Array; type?: string };
type Plain = { label: string; method: string; target: string; fields: Field[]; body?: Body };

const encode = (text: string) => new TextEncoder().encode(text);
const latin1 = (text: string) => new Uint8Array(Buffer.from(text, "latin1"));
const below = (random: Random, bound: number) => Math.floor(random() * bound);
const pick = <T>(random: Random, items: readonly T[]): T => items[below(random, items.length)] as T;
const chance = (random: Random, share: number) => random() < share;

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/** Methods that Bun knows and the program does not. */
const ODD_METHODS = ["TRACE", "CONNECT", "PROPFIND", "SEARCH", "LOCK", "get", "QUERY", "PURGE", "X"];
const ODD_TEXTS = [
  "",
  " ",
  "null",
  "undefined",
  "-1",
  "0",
  "1e308",
  "99999999999999999999",
  "true",
  "__proto__",
  "constructor",
  "toString",
  "../../etc/passwd",
  "%2e%2e%2f",
  "%00",
  "%",
  "%zz",
  "' OR 1=1 --",
  "<script>",
  "श्रुति",
  "\u202e",
  "\u0000",
  "🎤".repeat(20),
  "a".repeat(300),
  "a".repeat(5000),
  "tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C",
  "up_01KAJ5KZQ8D3F5G7H9J1K3M5N7",
  "tr_81KAJ5M0X2V7Q4N8R6T3Y9ZB1C",
];
const LANGUAGES = ["en", "hi", "en", "hi", "auto", "xx", "EN", "en-IN", "", "h", "ta"];
const CHOICES: Readonly<Record<string, readonly unknown[]>> = {
  mode: ["native", "codemix", "verbatim", "Native", "", "fast"],
  timestamps: ["segment", "none", "word", "words", ""],
  diarization: [
    true,
    false,
    { speakers: 2 },
    { min_speakers: 1, max_speakers: 3 },
    { min_speakers: 3, max_speakers: 1 },
    { speakers: 0 },
    { speakers: 21 },
    { speakers: 1.5 },
    {},
    "true",
    1,
  ],
  channel_mode: ["mix", "separate", "both", ""],
};
const ODD_VALUES: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  Number.POSITIVE_INFINITY,
  Number.MAX_SAFE_INTEGER + 2,
  [],
  {},
  [[]],
  { a: { b: { c: 1 } } },
  ...ODD_TEXTS,
];

/** Makes requests, the same for the same world, seed and index. */
export function createRequestFuzz(world: FuzzWorld, seed: number) {
  return (index: number): FuzzedRequest => {
    const random = seededRandom(seed * 1_000_003 + index * 17 + 1);
    const kind = random();
    const request = plainRequest(world, random);
    if (kind < 0.8) return whole(index, random, request, world);
    if (kind < 0.86) return pipelined(index, random, [request, plainRequest(world, random)], world);
    if (kind < 0.9) return brokenChunks(index, random, request, world);
    if (kind < 0.94) return cutOff(index, random, request, world);
    if (kind < 0.97) return brokenHead(index, random, request, world);
    return noise(index, random);
  };
}

// —— Requests ——

type Maker = (world: FuzzWorld, random: Random) => Plain;
const times = (count: number, maker: Maker): Maker[] => Array.from({ length: count }, () => maker);
const MAKERS: readonly Maker[] = [
  ...times(14, startRequest),
  ...times(10, uploadRequest),
  ...times(8, uploadIdRequest),
  ...times(14, transcriptionIdRequest),
  ...times(10, listRequest),
  ...times(7, synchronousRequest),
  ...times(6, endpointRequest),
  ...times(8, putRequest),
  ...times(9, tusRequest),
  ...times(4, publicRequest),
  ...times(10, pathRequest),
  ...times(8, documentedRequest),
];

function plainRequest(world: FuzzWorld, random: Random): Plain {
  const request = pick(random, MAKERS)(world, random);
  if (chance(random, 0.04)) request.method = pick(random, METHODS);
  // A deleted resource is missing for all later requests.
  const isDeletion = request.label === "transcription" && request.method === "DELETE";
  if (isDeletion && !request.target.endsWith(world.transcriptions[1] ?? "")) request.method = "GET";
  if (chance(random, 0.01)) request.method = pick(random, ODD_METHODS);
  if (chance(random, 0.05)) request.target += oddQuery(random);
  if (!request.fields.some(([name]) => name === "authorization")) {
    const value = authorization(world, random);
    if (value !== undefined) request.fields.push(["authorization", value]);
  }
  if (chance(random, 0.08)) request.fields.push(...oddFields(random));
  return request;
}

function authorization({ keys }: FuzzWorld, random: Random): string | undefined {
  const right = keys.right ?? "";
  if (chance(random, 0.86)) return `Bearer ${right}`;
  const other = pick(random, Object.values(keys));
  return pick(random, [
    undefined,
    ...Object.values(keys).map((key) => `Bearer ${key}`),
    `bearer ${other}`,
    `Bearer  ${other}`,
    `Basic ${btoa(`x:${other}`)}`,
    other,
    "Bearer",
    "Bearer ",
    `Bearer ${right.slice(0, -1)}`,
    `Bearer ${right}x`,
    `Bearer ${right.toUpperCase()}`,
    `Bearer shr_${"a".repeat(24)}_${"b".repeat(49)}`,
    `Bearer ${"x".repeat(3000)}`,
    `Bearer ${other}, Bearer ${right}`,
    "Bearer \u00e9\u00ff",
  ]);
}

function json(value: unknown, random: Random): Body {
  const text = chance(random, 0.07)
    ? mutateText(JSON.stringify(value) ?? "", random)
    : (JSON.stringify(value) ?? "");
  const bytes = chance(random, 0.03) ? mutateBytes(encode(text), random) : encode(text);
  return { bytes, type: chance(random, 0.94) ? "application/json" : oddType(random) };
}

const oddType = (random: Random) =>
  pick(random, [
    "",
    "application/json; charset=utf-8",
    'application/json;charset="UTF-8"',
    "application/json; charset=utf-16",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "multipart/form-data; boundary=",
    "application/octet-stream",
    "APPLICATION/JSON",
    "application/json, text/plain",
    "application/offset+octet-stream",
    ";;;",
  ]);

/** Damages a JSON text: repeated names, deep nesting, incomplete ends. */
function mutateText(text: string, random: Random): string {
  return pick(random, [
    () => text.slice(0, below(random, text.length)),
    () => `${text}${text}`,
    () => text.replace("{", '{"language":"en",'),
    () => text.replace("{", '{"bytes":1,"bytes":2,'),
    () => text.replace("{", '{"__proto__":{"x":1},'),
    () => "[".repeat(below(random, 3000)) + text,
    () => '{"audio":'.repeat(40) + text + "}".repeat(40),
    () => `{"a":${"[".repeat(30)}1${"]".repeat(30)}}`,
    () => `\ufeff${text}`,
    () => text.replaceAll('"', "'"),
    () => text.replace("}", ",}"),
    () => text.replace(/"([a-z_]+)":/, '"\\u0061$1":'),
    () => "",
    () => "null",
    () => "[]",
    () => '"text"',
    () => "1",
    () => `${text}${" ".repeat(70_000)}`,
    () => JSON.stringify({ padding: "x".repeat(below(random, 140_000)) }),
    () => '"\\ud800"',
  ])();
}

function mutateBytes(bytes: Uint8Array, random: Random): Uint8Array {
  const out = bytes.slice();
  for (let count = 1 + below(random, 4); count > 0 && out.length > 0; count -= 1) {
    out[below(random, out.length)] = below(random, 256);
  }
  return out;
}

/** Exchanges, removes or adds fields of a valid body. */
function mutateFields(value: Record<string, unknown>, random: Random): Record<string, unknown> {
  if (chance(random, 0.45)) return value;
  const out = { ...value };
  const names = Object.keys(out);
  const name = pick(random, names);
  const change = below(random, 4);
  if (change === 0) delete out[name];
  else if (change === 1) out[name] = pick(random, ODD_VALUES);
  else if (change === 2)
    out[pick(random, ["extra", "Language", "audio.upload_id", "", "__proto__x", "id"])] = 1;
  else if (typeof out[name] === "object" && out[name] !== null)
    out[name] = mutateFields({ ...(out[name] as object), x: 1 }, random);
  return out;
}

function startRequest(world: FuzzWorld, random: Random): Plain {
  const body: Record<string, unknown> = {
    audio: { upload_id: uploadFor(world, random) },
    language: chance(random, 0.6) ? "en" : pick(random, LANGUAGES),
  };
  for (const [name, choices] of Object.entries(CHOICES))
    if (chance(random, 0.1)) body[name] = pick(random, choices);
  if (chance(random, 0.1))
    body.webhook_endpoint_id = chance(random, 0.5) ? world.endpoints[0] : anyId(world, random);
  if (chance(random, 0.1)) body.model = chance(random, 0.5) ? world.model : pick(random, ODD_TEXTS);
  return {
    label: "start",
    method: "POST",
    target: "/v1/transcriptions",
    fields: idempotency(random),
    body: json(mutateFields(body, random), random),
  };
}

/** Returns an upload. Half of the time it is one from which work can start. */
function uploadFor(world: FuzzWorld, random: Random): string | undefined {
  if (chance(random, 0.5)) return world.uploads[0];
  if (chance(random, 0.3)) return pick(random, world.open).id;
  return chance(random, 0.6) ? pick(random, world.uploads) : anyId(world, random);
}

function idempotency(random: Random): Field[] {
  if (chance(random, 0.75)) return [];
  return [
    [
      "idempotency-key",
      pick(random, [
        `key-${below(random, 30)}`,
        "",
        " ",
        "k".repeat(255),
        "k".repeat(256),
        "\u00e9",
        "a\tb",
        "x",
      ]),
    ],
  ];
}

function uploadRequest(_world: FuzzWorld, random: Random): Plain {
  const body: Record<string, unknown> = {
    bytes: pick(random, [1, 100, 3244, 5e9, 6e9, 0, -1, 1.5, "100", null, 2 ** 53]),
  };
  if (chance(random, 0.4)) {
    body.sha256 = pick(random, ["a".repeat(64), "A".repeat(64), "a".repeat(63), "g".repeat(64), "", null, 1]);
  }
  return {
    label: "create upload",
    method: "POST",
    target: "/v1/uploads",
    fields: [],
    body: json(mutateFields(body, random), random),
  };
}

/** Returns an identifier of any kind, or a text that is not an identifier. */
function anyId(world: FuzzWorld, random: Random): string {
  const known = [...world.uploads, ...world.transcriptions, ...world.endpoints];
  const id = pick(random, known);
  return pick(random, [
    () => id,
    () => id,
    () => id.toLowerCase(),
    () => id.slice(0, -1),
    () => `${id}0`,
    () => id.replace("_", "%5f"),
    () => `${id}%00`,
    () => id.replace(/[0-9]/, "O"),
    () => `${id.slice(0, 3)}${"Z".repeat(26)}`,
    () => pick(random, ODD_TEXTS),
  ])();
}

/** Encodes a text for a path, so that it cannot end the request line. */
const inPath = (text: string) => text.replaceAll(/[^!-~]|[?#]/gu, (found) => encodeURIComponent(found));

const emptyBody = (random: Random): { body?: Body } =>
  chance(random, 0.85) ? {} : { body: json(pick(random, [{}, { a: 1 }, [], null, ""]), random) };

function uploadIdRequest(world: FuzzWorld, random: Random): Plain {
  const known = chance(random, 0.6) ? pick(random, world.uploads) : pick(random, world.open).id;
  const id = inPath(chance(random, 0.8) ? known : anyId(world, random));
  const isCompletion = chance(random, 0.5);
  return {
    label: "upload",
    method: isCompletion ? "POST" : "GET",
    target: `/v1/uploads/${id}${isCompletion ? "/complete" : ""}`,
    fields: [],
    ...emptyBody(random),
  };
}

function transcriptionIdRequest(world: FuzzWorld, random: Random): Plain {
  const id = inPath(chance(random, 0.7) ? pick(random, world.transcriptions) : anyId(world, random));
  const [method, suffix] = pick(random, [
    ["GET", ""],
    ["GET", "/result"],
    ["GET", "/result"],
    ["POST", "/cancel"],
    ["GET", "/audio"],
    ["GET", "/waveform"],
    // Only resources that are deleted already, so that other requests still find theirs.
    ["DELETE", ""],
  ] as const);
  const target =
    method === "DELETE"
      ? `/v1/transcriptions/${world.transcriptions[1]}`
      : `/v1/transcriptions/${id}${suffix}${suffix === "/result" ? resultQuery(random) : ""}`;
  const fields: Field[] = chance(random, 0.4)
    ? [
        [
          "accept",
          pick(random, [
            "text/vtt",
            "application/x-subrip",
            "text/plain",
            "*/*",
            "application/xml",
            "",
            "a/b;q=2",
            "x".repeat(500),
          ]),
        ],
      ]
    : [];
  return { label: "transcription", method, target, fields, ...emptyBody(random) };
}

/** Makes the query of a result, whose parameters do not go with every format. */
function resultQuery(random: Random): string {
  const values = {
    format: ["json", "srt", "vtt", "vtt", "text", "ctm", "txt", ""],
    download: ["1", "true", "0"],
    word_times: ["1", "true", "0"],
    max_line_characters: ["10", "42", "200", "9", "201", "1e1", "-1", ""],
    max_lines: ["1", "2", "5", "0", "6", "two"],
    max_cue_seconds: ["1", "7", "60", "0.5", "61", "NaN"],
  };
  const pairs = Object.entries(values).flatMap(([name, choices]) =>
    chance(random, name === "format" ? 0.5 : 0.2) ? [`${name}=${pick(random, choices)}`] : [],
  );
  return pairs.length > 0 ? `?${pairs.join("&")}` : "";
}

function listRequest(world: FuzzWorld, random: Random): Plain {
  const path = pick(random, ["/v1/transcriptions", "/v1/usage", "/v1/models", "/v1/webhook_endpoints"]);
  const pairs: string[] = [];
  if (chance(random, 0.5))
    pairs.push(
      `limit=${pick(random, ["1", "100", "20", "0", "101", "-1", "1.5", "abc", "", "1e2", "%31", "+1", "01"])}`,
    );
  if (chance(random, 0.4))
    pairs.push(
      `after=${inPath(chance(random, 0.6) ? pick(random, world.transcriptions) : anyId(world, random))}`,
    );
  if (chance(random, 0.3))
    pairs.push(
      `state=${pick(random, ["completed", "queued,failed", "nothing", "", ",", "completed,completed", "COMPLETED"])}`,
    );
  if (chance(random, 0.1)) pairs.push(pick(random, pairs.length > 0 ? pairs : ["x=1"]));
  return {
    label: "list",
    method: "GET",
    target: pairs.length > 0 ? `${path}?${pairs.join("&")}` : path,
    fields: [],
    ...emptyBody(random),
  };
}

const oddQuery = (random: Random) =>
  pick(random, [
    "?",
    "?x=1",
    "?limit=1&limit=2",
    "?%ff=1",
    "?__proto__=1",
    "?a[]=1",
    "?=",
    "?&&&",
    "?limit",
    `?x=${"y".repeat(5000)}`,
    "?a=%zz",
    "?constructor",
  ]);

/** Makes the form of the synchronous endpoint, with parts that a form may not have. */
function synchronousRequest(world: FuzzWorld, random: Random): Plain {
  const boundary = pick(random, ["x", "----WebKitFormBoundary7MA4YWxkTrZu0gW", "a b", "'()+_,-./:=?"]);
  const parts: Uint8Array[] = [];
  const part = (head: string, body: Uint8Array) =>
    parts.push(
      encode(`--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n`),
      body,
      encode("\r\n"),
    );
  const file = pick(random, [
    world.recording,
    world.recording,
    world.recording.slice(0, 100),
    new Uint8Array(),
    encode("text"),
    mutateBytes(world.recording, random),
  ]);
  if (chance(random, 0.92))
    part(
      pick(random, [
        'name="file"; filename="a.wav"\r\nContent-Type: audio/wav',
        'name="file"; filename="../../x"',
        'name="file"; filename=""',
        'name=file; filename="a"',
      ]),
      file,
    );
  if (chance(random, 0.92)) part('name="language"', encode(pick(random, LANGUAGES)));
  for (const [name, choices] of Object.entries(CHOICES)) {
    if (chance(random, 0.15)) part(`name="${name}"`, encode(String(pick(random, choices))));
  }
  if (chance(random, 0.15)) {
    part(
      pick(random, [
        'name="extra"',
        "",
        'name="language"',
        'name="file"',
        'name="file"; filename="b"',
        'name="__proto__"',
        `name="${"n".repeat(400)}"`,
        'name="model"',
      ]),
      encode(pick(random, ODD_TEXTS)),
    );
  }
  if (chance(random, 0.03)) for (let count = 0; count < 80; count++) part(`name="f${count}"`, encode("1"));
  parts.push(encode(chance(random, 0.95) ? `--${boundary}--\r\n` : `--${boundary}`));
  const body = new Uint8Array(Buffer.concat(parts));
  const type = `multipart/form-data; boundary=${boundary.includes(" ") || boundary.includes("(") ? `"${boundary}"` : boundary}`;
  return {
    label: "synchronous",
    method: "POST",
    target: "/v1/audio/transcriptions",
    fields: idempotency(random),
    body: {
      bytes: chance(random, 0.05) ? mutateBytes(body, random) : body,
      type: chance(random, 0.95) ? type : oddType(random),
    },
  };
}

function endpointRequest(_world: FuzzWorld, random: Random): Plain {
  const url = pick(random, [
    "https://receiver.example.in/hook",
    "http://receiver.example.in/hook",
    "https://127.0.0.1/hook",
    "https://[::1]/",
    "https://169.254.169.254/latest/meta-data",
    "https://user:pass@example.in/",
    "ftp://example.in/",
    "file:///etc/passwd",
    "javascript:1",
    "https://",
    "//example.in",
    `https://example.in/${"a".repeat(3000)}`,
    "https://exa mple.in/",
    "https://example.in:99999/",
    "https://श्रुति.example/",
  ]);
  const lists = [[], ["credit.low"], ["credit.low", "credit.low"], ["transcription.completed"], "credit.low"];
  const events = chance(random, 0.3) ? { events: pick(random, [...lists, ...ODD_VALUES]) } : {};
  return {
    label: "endpoint",
    method: "POST",
    target: "/v1/webhook_endpoints",
    fields: [],
    body: json(
      mutateFields({ url: chance(random, 0.9) ? url : pick(random, ODD_VALUES), ...events }, random),
      random,
    ),
  };
}

function uploadToken(token: string, world: FuzzWorld, random: Random): string {
  if (chance(random, 0.85)) return `Bearer ${token}`;
  return pick(random, [
    `Bearer ${world.keys.right}`,
    `Bearer ${token}x`,
    "Bearer",
    "",
    `Basic ${token}`,
    `Bearer ${"t".repeat(4000)}`,
  ]);
}

function putRequest(world: FuzzWorld, random: Random): Plain {
  const upload = pick(random, world.open);
  const id = chance(random, 0.9) ? upload.id : inPath(anyId(world, random));
  const fields: Field[] = [["authorization", uploadToken(upload.token, world, random)]];
  if (chance(random, 0.15))
    fields.push(
      pick(random, [
        ["content-encoding", "gzip"],
        ["content-range", "bytes 0-1/2"],
        ["content-encoding", "identity"],
        ["range", "bytes=0-"],
      ] as const),
    );
  const { recording } = world;
  const bytes = pick(random, [
    recording,
    recording,
    recording.slice(0, 10),
    new Uint8Array(recording.length + 1),
    new Uint8Array(),
    mutateBytes(recording, random),
  ]);
  return {
    label: "PUT",
    method: chance(random, 0.85) ? "PUT" : pick(random, ["HEAD", "DELETE", "OPTIONS", "GET", "POST"]),
    target: `/storage/uploads/${id}`,
    fields,
    body: { bytes, type: chance(random, 0.9) ? "application/octet-stream" : oddType(random) },
  };
}

function tusRequest(world: FuzzWorld, random: Random): Plain {
  const upload = pick(random, world.open);
  const fields: Field[] = [["authorization", uploadToken(upload.token, world, random)]];
  if (chance(random, 0.93))
    fields.push([
      "tus-resumable",
      chance(random, 0.95) ? "1.0.0" : pick(random, ["0.2.2", "", "2", "1.0.0 "]),
    ]);
  if (chance(random, 0.08))
    fields.push(
      pick(random, [
        ["upload-concat", "partial"],
        ["upload-defer-length", "1"],
        ["x-http-method-override", "PATCH"],
        ["x-http-method-override", "delete"],
        ["upload-checksum", "sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0="],
        ["upload-checksum", "crc32 x"],
        ["upload-checksum", "md5"],
      ] as const),
    );
  if (chance(random, 0.35)) {
    if (chance(random, 0.92))
      fields.push([
        "upload-length",
        pick(random, [
          String(upload.bytes),
          String(upload.bytes),
          String(upload.bytes),
          "0",
          "-1",
          "abc",
          "1e3",
          "99999999999999999999",
        ]),
      ]);
    const metadata = pick(random, [
      `upload_id ${btoa(upload.id)}`,
      `upload_id ${btoa(upload.id)},filename YQ==`,
      `upload_id ${btoa(upload.id)}`,
      "upload_id",
      "upload_id !!!",
      "",
      "a b c",
      `upload_id ${btoa("../../x")}`,
      ",",
    ]);
    if (chance(random, 0.95)) fields.push(["upload-metadata", metadata]);
    return {
      label: "tus creation",
      method: chance(random, 0.9) ? "POST" : pick(random, METHODS),
      target: "/storage/tus",
      fields,
    };
  }
  const id = chance(random, 0.92) ? upload.id : inPath(anyId(world, random));
  const method = chance(random, 0.6)
    ? "PATCH"
    : pick(random, ["HEAD", "HEAD", "DELETE", "OPTIONS", "GET", "POST"]);
  const target = `/storage/tus/${id}`;
  if (method !== "PATCH") return { label: "tus", method, target, fields };
  fields.push([
    "upload-offset",
    pick(random, [
      "0",
      "0",
      "10",
      "100",
      "-1",
      "abc",
      "",
      "1.5",
      "99999999999999999999",
      String(upload.bytes),
    ]),
  ]);
  const bytes = world.recording.slice(0, pick(random, [0, 10, 100, world.recording.length]));
  return {
    label: "tus",
    method,
    target,
    fields,
    body: { bytes, type: chance(random, 0.92) ? "application/offset+octet-stream" : oddType(random) },
  };
}

function publicRequest(_world: FuzzWorld, random: Random): Plain {
  const target = pick(random, [
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/docs/x",
    "/healthz/",
    "/HEALTHZ",
  ]);
  return { label: "public", method: chance(random, 0.8) ? "GET" : pick(random, METHODS), target, fields: [] };
}

/**
 * Makes a request of any operation of the document, so that a new one is met without a maker of its own. The body is the
 * document's example, mutated.
 */
function documentedRequest(world: FuzzWorld, random: Random): Plain {
  const { method, path, example } = pick(random, world.operations);
  const target = path.replaceAll(/\{\w+\}/g, () => inPath(anyId(world, random)));
  const label = "documented";
  if (example === undefined) return { label, method, target, fields: [], ...emptyBody(random) };
  return { label, method, target, fields: [], body: json(mutateFields({ ...example }, random), random) };
}

function pathRequest(world: FuzzWorld, random: Random): Plain {
  const id = inPath(anyId(world, random));
  const target = pick(random, [
    "/",
    "/v1",
    "/v1/",
    "/v2/transcriptions",
    "/v1/transcriptions/",
    `/v1/transcriptions/${id}/`,
    `/v1/transcriptions/${id}/result/x`,
    "//v1/models",
    "/v1//models",
    "/v1/./models",
    "/v1/../v1/models",
    "/v1/%6dodels",
    "/v1/models%00",
    "/v1/models;x=1",
    "/V1/MODELS",
    "/storage",
    "/storage/",
    "/storage/uploads/../../v1/models",
    "/storage/uploads/",
    `/storage/uploads/${id}/${id}`,
    "/storage/tus/",
    "/console",
    "/console/../../etc/passwd",
    "/.git/config",
    `/${"a".repeat(6000)}`,
    `/v1/uploads/${id}/complete/`,
    "/v1/models#x",
    "/openai/v1/models",
    "/openai/v1/audio/transcriptions",
    `http://${world.host}/v1/models`,
    "http://evil.example/v1/models",
    "/%",
    "/%e0%a4%b6",
    "/v1/webhook_endpoints/x",
    "/v1/webhook_endpoints/whe_01KAJ5KZQ8D3F5G7H9J1K3M5N7/enable",
  ]);
  return { label: "path", method: pick(random, METHODS), target, fields: [], ...emptyBody(random) };
}

function oddFields(random: Random): Field[] {
  return [
    pick(random, [
      ["content-encoding", pick(random, ["gzip", "identity", "br", ""])],
      ["range", pick(random, ["bytes=0-1", "bytes=-1", "items=0-1", "bytes=5-2"])],
      ["expect", pick(random, ["100-continue", "200-ok"])],
      ["if-none-match", "*"],
      ["x-forwarded-for", pick(random, ["1.2.3.4", "::1, 5.6.7.8", "x".repeat(2000)])],
      ["x-forwarded-host", "evil.example"],
      ["origin", "https://evil.example"],
      ["access-control-request-method", "POST"],
      ["connection", pick(random, ["close", "keep-alive", "upgrade"])],
      ["upgrade", "websocket"],
      ["cookie", "a=b; c=d"],
      ["x-request-id", "req_mine"],
      ["accept-encoding", "gzip, br"],
      ["x-http-method-override", "DELETE"],
      ["x-long", "y".repeat(below(random, 9000))],
      ["x-many", "\u00e9\u00ff"],
      ["transfer-encoding", "identity"],
      ["te", "trailers"],
    ] as const),
  ];
}

// —— Writing to the connection ——

type Wire = { head: string; body: Uint8Array };

/** Writes a request as a correct client does: with `Host`, and `Content-Length` or correct chunks. */
function wire({ method, target, fields, body }: Plain, random: Random, { host }: FuzzWorld): Wire {
  const version = chance(random, 0.03) ? "HTTP/1.0" : "HTTP/1.1";
  const isHostless = version === "HTTP/1.0" && chance(random, 0.5);
  const named = chance(random, 0.97)
    ? host
    : pick(random, ["evil.example", "", "a b", "[::1]:80", "x".repeat(300)]);
  const lines: Field[] = isHostless ? [] : [["host", named]];
  lines.push(...fields);
  let bytes = body?.bytes ?? new Uint8Array();
  if (body) {
    if (body.type !== undefined && body.type !== "") lines.push(["content-type", body.type]);
    const isChunked =
      version === "HTTP/1.1" &&
      chance(random, 0.15) &&
      !fields.some(([name]) => name === "transfer-encoding");
    if (isChunked) {
      lines.push(["transfer-encoding", "chunked"]);
      bytes = chunked(bytes, random);
    } else lines.push(["content-length", String(bytes.length)]);
  }
  const head = [
    `${method} ${target} ${version}`,
    ...lines.map(([name, value]) => `${name}: ${value}`),
    "",
    "",
  ].join("\r\n");
  return { head, body: bytes };
}

function chunked(bytes: Uint8Array, random: Random): Uint8Array {
  const parts: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; ) {
    const size = Math.min(bytes.length - at, 1 + below(random, 2000));
    parts.push(encode(`${size.toString(16)}\r\n`), bytes.subarray(at, at + size), encode("\r\n"));
    at += size;
  }
  return new Uint8Array(Buffer.concat([...parts, encode("0\r\n\r\n")]));
}

const joinedWire = ({ head, body }: Wire) => new Uint8Array(Buffer.concat([latin1(head), body]));
const askedOf = ({ method, target, fields }: Plain): Asked => ({ method, target, headers: fields });

/** Splits bytes at random places, as a network may. */
function inPieces(bytes: Uint8Array, random: Random): Uint8Array[] {
  if (chance(random, 0.85)) return [bytes];
  const places = Array.from({ length: 1 + below(random, 3) }, () => below(random, bytes.length)).sort(
    (a, b) => a - b,
  );
  return [0, ...places].map((start, at) => bytes.subarray(start, places[at] ?? bytes.length));
}

function whole(index: number, random: Random, request: Plain, world: FuzzWorld): FuzzedRequest {
  const bytes = joinedWire(wire(request, random, world));
  return {
    index,
    label: request.label,
    pieces: inPieces(bytes, random),
    methods: [request.method],
    asked: [askedOf(request)],
    afterwards: "wait",
    // The runtime does not respond to other methods than these.
    mustAnswer: /^[A-Z]{3,}$/.test(request.method),
  };
}

function pipelined(index: number, random: Random, requests: Plain[], world: FuzzWorld): FuzzedRequest {
  const bytes = Buffer.concat(requests.map((request) => joinedWire(wire(request, random, world))));
  return {
    index,
    label: `pipelined ${requests.map(({ label }) => label).join(", ")}`,
    pieces: inPieces(new Uint8Array(bytes), random),
    methods: requests.map(({ method }) => method),
    asked: requests.map(askedOf),
    // A refusal may close the connection before the second request is read.
    afterwards: "wait",
    mustAnswer: false,
  };
}

/** Writes a request with a correct head and malformed chunks. */
function brokenChunks(index: number, random: Random, request: Plain, world: FuzzWorld): FuzzedRequest {
  const { head } = wire(
    { ...request, fields: request.fields.filter(([name]) => name !== "transfer-encoding") },
    () => 0.5,
    world,
  );
  const start = head
    .replace(/\r\ncontent-length: \d+/, "")
    .replace(/\r\n\r\n$/, "\r\ntransfer-encoding: chunked\r\n\r\n");
  const body = pick(random, [
    "zz\r\nabc\r\n0\r\n\r\n",
    "-1\r\nabc\r\n0\r\n\r\n",
    "ffffffffffffffff\r\nabc\r\n",
    "5\r\nabc\r\n0\r\n\r\n",
    "3;ext=1\r\nabc\r\n0\r\nx: y\r\n\r\n",
    "3\nabc\n0\n\n",
    "3\r\nabcdef\r\n0\r\n\r\n",
    "0x3\r\nabc\r\n0\r\n\r\n",
    "\r\n\r\n",
  ]);
  return broken(index, `broken chunks, ${request.label}`, latin1(`${start}${body}`), request, random);
}

/** Sends half a request and leaves. The request is never complete, so nothing of it may be stored. */
function cutOff(index: number, random: Random, request: Plain, world: FuzzWorld): FuzzedRequest {
  const { head, body } = wire(request, () => 0.5, world);
  const bytes = new Uint8Array(Buffer.concat([latin1(head), body]));
  const longest = body.length > 0 ? bytes.length - 1 : head.length - 2;
  const cut = bytes.subarray(0, 1 + below(random, longest - 1));
  return {
    ...broken(index, `cut off, ${request.label}`, cut, request, random),
    afterwards: chance(random, 0.5) ? "destroy" : "end",
  };
}

/** Heads that are not HTTP, or that two parsers may read differently. */
function brokenHead(index: number, random: Random, request: Plain, world: FuzzWorld): FuzzedRequest {
  const { head, body } = wire(request, () => 0.5, world);
  const changed = pick(random, [
    () => head.replace("\r\n", "\r\ncontent-length: 5\r\ncontent-length: 6\r\n"),
    () => head.replace("\r\n", "\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n"),
    () => head.replace("\r\n", "\r\ncontent-length: -1\r\n"),
    () => head.replace("\r\n", "\r\ncontent-length: abc\r\n"),
    () => head.replace("\r\n", "\r\ncontent-length: 99999999999999999999999\r\n"),
    () => head.replace("HTTP/1.1", pick(random, ["HTTP/2.0", "HTTP/9.9", "HTTX/1.1", "", "HTTP/1.1 x"])),
    () => head.replace("\r\n", "\r\n folded: yes\r\n"),
    () => head.replace("\r\n", "\r\nno colon here\r\n"),
    () => head.replace("\r\n", "\r\nname : space\r\n"),
    () => head.replace("\r\n", "\r\nx: a\u0000b\r\n"),
    () => head.replace("\r\n", `\r\nx: ${"y".repeat(40_000)}\r\n`),
    () => head.replace("\r\n", `\r\n${Array.from({ length: 300 }, (_, at) => `x${at}: y`).join("\r\n")}\r\n`),
    () => head.replaceAll("\r\n", "\n"),
    () => head.replace(" ", "  "),
    () => head.replace(/^\S+ /, "\u0001\u0002 "),
    () => head.replace(/ \S+ /, ` /${"a".repeat(30_000)} `),
    () => head.replace("\r\n", "\r\nhost: second.example\r\n"),
    () => head.replace("\r\n", "\r\ntransfer-encoding: gzip, chunked\r\n"),
    () => `\r\n\r\n${head}`,
  ])();
  const bytes = new Uint8Array(Buffer.concat([latin1(changed), body]));
  return {
    ...broken(index, `broken head, ${request.label}`, bytes, undefined, random),
    methods: [request.method],
  };
}

function noise(index: number, random: Random): FuzzedRequest {
  const bytes = pick(random, [
    () => Uint8Array.from({ length: 1 + below(random, 3000) }, () => below(random, 256)),
    // The beginnings of TLS, HTTP/2 and other protocols.
    () =>
      Uint8Array.from([
        0x16,
        3,
        1,
        2,
        0,
        1,
        0,
        1,
        0xfc,
        3,
        3,
        ...Array.from({ length: 500 }, () => below(random, 256)),
      ]),
    () => encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    () => encode("SSH-2.0-OpenSSH_9.2\r\n"),
    () => encode("\r\n".repeat(below(random, 200))),
    () => new Uint8Array(below(random, 5000) + 1),
    () => encode("GET\r\n\r\n"),
    () => encode("GET / HTTP/1.1"),
  ])();
  return broken(index, "noise", bytes, undefined, random);
}

function broken(
  index: number,
  label: string,
  bytes: Uint8Array,
  request: Plain | undefined,
  random: Random,
): FuzzedRequest {
  const asked = request ? askedOf(request) : undefined;
  return {
    index,
    label,
    pieces: inPieces(bytes, random),
    methods: [request?.method ?? "GET"],
    asked: [asked],
    afterwards: "linger",
    mustAnswer: false,
  };
}
