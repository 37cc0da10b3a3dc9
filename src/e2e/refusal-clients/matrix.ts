import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Installation, RunningServer } from "../kit.ts";

/** A refusal as a client must see it, and the request that the server refuses in this way. */
export type RefusalCase = {
  name: string;
  /** Status and code as the clients report them, with `retry-after` where the response has that field. */
  expected: string;
  method: "POST" | "PUT";
  path: string;
  headers: Record<string, string>;
  isForm: boolean;
  isChunked: boolean;
  /** Smallest body that is refused in this way. */
  minBytes: number;
  /** Statuses with which the server accepted the request, so that the client tries again. */
  again: readonly string[];
  /** Key whose request limit other requests use up while a client sends this one. */
  limitedKey?: string;
};

/** How often each response was received. */
export type Seen = Record<string, number>;
export type RefusalClient = {
  name: string;
  canSend(refusal: RefusalCase): boolean;
  send(baseUrl: string, refusal: RefusalCase, bytes: number, tries: number): Promise<Seen>;
};

const FORM_PATH = "/v1/audio/transcriptions";
const MODELS_PATH = "/v1/models";
const DECLARED_BYTES = 1000;
/** Forms of 50 MB are read to the end, and forms of 60 MB are not. */
export const REFUSAL_ENVIRONMENT = {
  SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0",
  SHRUTI_LIMITS_UNPAID_ACTS_PER_SECOND: "0",
  SHRUTI_LIMITS_REQUEST_BURST: "1",
  SHRUTI_LIMITS_SYNCHRONOUS_MAX_BYTES: String(25 * 1024 * 1024),
};

/** Lists the refusals of large requests. The server must run with `REFUSAL_ENVIRONMENT`. */
export async function refusalCases(
  installation: Installation,
  server: RunningServer,
): Promise<RefusalCase[]> {
  const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
  const form = {
    method: "POST",
    path: FORM_PATH,
    isForm: true,
    isChunked: false,
    minBytes: 0,
    again: [],
  } as const;
  const put = { ...form, method: "PUT", isForm: false } as const;
  const { upload } = await server.api().createUpload(DECLARED_BYTES);
  const path = new URL(upload.url).pathname;
  const { key } = installation;
  const limited = await limitedKey(installation);
  return [
    { ...form, name: "wrong key", expected: "401 unauthorized", headers: bearer(`${key}x`) },
    {
      ...form,
      name: "rate limit",
      expected: "429 rate_limited retry-after",
      headers: bearer(limited),
      again: ["413", "415", "422", "503"],
      limitedKey: limited,
    },
    {
      ...form,
      name: "unknown path",
      expected: "404 not_found",
      headers: bearer(key),
      path: "/v1/nothing/audio/transcriptions",
    },
    {
      ...form,
      name: "too large a form",
      expected: "413 audio_too_large",
      headers: bearer(key),
      minBytes: 26_300_000,
    },
    {
      ...form,
      name: "too large a form, chunked",
      expected: "413 audio_too_large",
      headers: bearer(key),
      minBytes: 26_300_000,
      isChunked: true,
    },
    { ...put, name: "wrong upload token", expected: "401 unauthorized", headers: bearer("upt_wrong"), path },
    {
      ...put,
      name: "too long a PUT",
      expected: "413 audio_too_large",
      headers: bearer(tokenOf(upload.headers)),
      path,
    },
    {
      ...put,
      name: "too long a PUT, chunked",
      expected: "413 audio_too_large",
      headers: bearer(tokenOf(upload.headers)),
      path,
      isChunked: true,
    },
    {
      ...form,
      name: "too large a JSON body",
      expected: "422 invalid_request",
      headers: { ...bearer(key), "content-type": "application/json" },
      path: "/v1/uploads",
      isForm: false,
      minBytes: 70_000,
    },
  ];
}

const tokenOf = (headers: Record<string, string>) => (headers.authorization ?? "").slice("Bearer ".length);

/** Makes a key whose organization may send one request a second. */
async function limitedKey(installation: Installation): Promise<string> {
  const organization = await installation.json<{ id: string }>("orgs", "create", "Limited");
  await installation.output("orgs", "set", organization.id, "--requests-per-second", "1");
  const project = await installation.json<{ id: string }>(
    "projects",
    "create",
    "limited",
    "--org",
    organization.id,
  );
  const { key } = await installation.json<{ key: string }>(
    "keys",
    "create",
    "--project",
    project.id,
    "--name",
    "k",
  );
  return key;
}

/** Lists the clients that are installed here. `missing` names the others. */
export function refusalClients(): { clients: RefusalClient[]; missing: string[] } {
  const script = join(import.meta.dir, "client.mjs");
  const node = Bun.which("node");
  const python = Bun.which("python3");
  const isSdkCase = (refusal: RefusalCase) => refusal.isForm && !refusal.isChunked;
  const all: (RefusalClient | string)[] = [
    scripted("Bun fetch", [process.execPath, script], "fetch"),
    node ? scripted("Node fetch", [node, script], "fetch") : "Node fetch",
    node ? scripted("Node http, pooled", [node, script], "http") : "Node http, pooled",
    { ...scripted("OpenAI SDK", [node ?? process.execPath, script], "sdk"), canSend: isSdkCase },
    python
      ? scripted("Python http.client", [python, join(import.meta.dir, "client.py")], "http.client")
      : "Python http.client",
    Bun.which("curl") ? { name: "curl", canSend: () => true, send: byCurl } : "curl",
  ];
  return {
    clients: all.filter((each) => typeof each !== "string").map(withLimitUsedUp),
    missing: all.filter((each) => typeof each === "string"),
  };
}

/** Small requests of the limited key are so frequent that a client, however slow, hardly ever finds the limit unused. */
const SMALL_REQUEST_INTERVAL_MS = 50;

/** Returns a client that sends while small requests use up the limit of the refusal's key, if it has one. */
function withLimitUsedUp(client: RefusalClient): RefusalClient {
  return {
    ...client,
    async send(baseUrl, refusal, bytes, tries) {
      const { limitedKey: key } = refusal;
      if (key === undefined) return client.send(baseUrl, refusal, bytes, tries);
      const request = async () =>
        (await fetch(`${baseUrl}${MODELS_PATH}`, { headers: { authorization: `Bearer ${key}` } })).text();
      await request();
      let isSending = true;
      const useUp = async () => {
        for (; isSending; await Bun.sleep(SMALL_REQUEST_INTERVAL_MS)) await request();
      };
      const sent = client.send(baseUrl, refusal, bytes, tries).finally(() => {
        isSending = false;
      });
      const [seen] = await Promise.all([sent, useUp()]);
      return seen;
    },
  };
}

function scripted(name: string, command: string[], client: string): RefusalClient {
  return {
    name,
    canSend: () => true,
    async send(baseUrl, refusal, bytes, tries) {
      const order = { ...refusal, client, url: `${baseUrl}${refusal.path}`, bytes, tries };
      return JSON.parse(await run([...command, JSON.stringify(order)])) as Seen;
    },
  };
}

async function byCurl(baseUrl: string, refusal: RefusalCase, bytes: number, tries: number): Promise<Seen> {
  const folder = mkdtempSync(join(tmpdir(), "shruti-curl-"));
  const file = join(folder, "a.wav");
  await Bun.write(file, Buffer.alloc(bytes, "a"));
  const headers = Object.entries(refusal.headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  const chunked = refusal.isChunked ? ["-H", "Transfer-Encoding: chunked"] : [];
  const body = refusal.isForm ? ["-F", `file=@${file}`, "-F", "language=hi"] : ["-T", file];
  const command = [
    "curl",
    "-sS",
    "-i",
    "-X",
    refusal.method,
    ...headers,
    ...chunked,
    ...body,
    `${baseUrl}${refusal.path}`,
  ];
  const counts: Seen = {};
  try {
    for (let n = 0, repeats = 0; n < tries; n += 1) {
      const outcome = await run(command).then(
        readCurl,
        (error: Error) => `lost: ${error.message.slice(0, 60)}`,
      );
      if (refusal.again.some((status) => outcome.startsWith(status)) && repeats < 100) {
        repeats += 1;
        n -= 1;
        continue;
      }
      counts[outcome] = (counts[outcome] ?? 0) + 1;
    }
    return counts;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Returns the last head and body that curl printed. One or two `100 Continue` may come before them. */
function readCurl(text: string): string {
  const final = text.slice(Math.max(0, text.lastIndexOf("HTTP/1.1 ")));
  const [head = "", body = ""] = final.split("\r\n\r\n");
  const code = /"code":"(\w+)"/.exec(body)?.[1] ?? "no code";
  const retry = /^retry-after:/im.test(head) ? " retry-after" : "";
  const id = /^x-request-id:/im.test(head) ? "" : " without x-request-id";
  return `${head.slice(9, 12)} ${code}${retry}${id}`;
}

/** Returns the output of a command. For curl, also when it ended early. */
export async function run(command: string[]): Promise<string> {
  const child = Bun.spawn(command, { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, err, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (status !== 0 && !out.startsWith("HTTP/1.1 ")) throw new Error(err.trim() || `status ${status}`);
  return out;
}
