import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { ROOT } from "../testing/rules/documents.ts";
import { type Installation, install, type RunningServer } from "./kit.ts";

/** The executable and the official client of the Model Context Protocol, over HTTP and on standard input and output. */

const SAMPLE = join(ROOT, "models/samples/02-hi.wav");
const SPOKEN = "अभी दस बजे और दस मिनट हैं";
const TOOLS = [
  "list_models",
  "list_transcriptions",
  "read_transcription",
  "search_transcriptions",
  "transcribe",
];

let installation: Installation;
let server: RunningServer;
let calls: string;
const executable = () => join(installation.folder, "program/shruti");
const clients: Client[] = [];
beforeAll(async () => {
  installation = await install({
    environment: { SHRUTI_MCP_ENABLED: "true", SHRUTI_CAPABILITIES_METADATA: "true" },
  });
  server = await (await installation.serve()).ready();
  calls = join(installation.folder, "calls");
  mkdirSync(calls);
  copyFileSync(SAMPLE, join(calls, "call.wav"));
  writeFileSync(join(calls, "note.txt"), "no sound");
  symlinkSync(SAMPLE, join(calls, "elsewhere.wav"));
  writeFileSync(join(installation.folder, "outside.wav"), "outside");
}, 120_000);
afterAll(async () => {
  for (const client of clients) await client.close();
  await installation.remove();
});

function newClient(roots?: string[]): Client {
  const client = new Client({ name: "test", version: "1" }, { capabilities: roots ? { roots: {} } : {} });
  if (roots) {
    const named = roots.map((path) => ({ uri: pathToFileURL(path).href }));
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: named }));
  }
  clients.push(client);
  return client;
}

async function overHttp(key = installation.key): Promise<Client> {
  const client = newClient();
  const headers = { authorization: `Bearer ${key}` };
  const url = new URL(`${server.baseUrl}/mcp`);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  return client;
}

async function onStdio(options: {
  args?: string[];
  roots?: string[];
  key?: string;
  url?: string;
}): Promise<Client> {
  const client = newClient(options.roots);
  const transport = new StdioClientTransport({
    command: executable(),
    args: ["mcp", "--url", options.url ?? server.baseUrl, ...(options.args ?? [])],
    env: { PATH: process.env.PATH ?? "", MCP_SHRUTI_KEY: options.key ?? installation.key },
    stderr: "pipe",
  });
  await client.connect(transport);
  return client;
}

/** Calls a tool, and returns its text, and whether it was a refusal. */
async function call(client: Client, name: string, args: object): Promise<{ text: string; isError: boolean }> {
  const { content, isError } = (await client.callTool({ name, arguments: { ...args } })) as CallToolResult;
  const [first] = content;
  if (first?.type !== "text") throw new Error("no text");
  return { text: first.text, isError: isError ?? false };
}
async function answer(client: Client, name: string, args: object) {
  const { text, isError } = await call(client, name, args);
  expect({ isError, text: isError ? text : "" }).toEqual({ isError: false, text: "" });
  return JSON.parse(text);
}

const base64 = async () => Buffer.from(await Bun.file(SAMPLE).arrayBuffer()).toString("base64");

describe("over HTTP", () => {
  test("an assistant transcribes, lists, reads and searches", async () => {
    const client = await overHttp();
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name).sort()).toEqual(TOOLS);
    const metadata = { agent: "12" };
    const one = await answer(client, "transcribe", {
      audio_base64: await base64(),
      language: "hi",
      metadata,
    });
    expect(one).toMatchObject({ state: "completed", metadata });
    expect(one.text).toContain(SPOKEN);
    const filter = { metadata: { agent: "12" } };
    const list = await answer(client, "list_transcriptions", filter);
    expect(list.data.map(({ id }: { id: string }) => id)).toEqual([one.id]);
    const read = await answer(client, "read_transcription", { transcription_id: one.id, max_characters: 5 });
    expect(read).toMatchObject({ text: one.text.slice(0, 5), next_offset: 5, characters: one.text.length });
    const srt = await call(client, "read_transcription", { transcription_id: one.id, format: "srt" });
    expect(srt.text).toContain("00:00:0");
    const found = await answer(client, "search_transcriptions", { query: "दस बजे", ...filter });
    expect(found.matches).toEqual([expect.objectContaining({ id: one.id, metadata })]);
    expect((await answer(client, "search_transcriptions", { query: "नहीं कहा गया" })).matches).toEqual([]);
    const models = await answer(client, "list_models", {});
    expect(models.data[0].id).toBe("demo");
  }, 60_000);

  const REFUSED: [name: string, args: object, text: string][] = [
    [
      "transcribe",
      { language: "hi" },
      "invalid_request: Give the recording once: audio_base64 or upload_id.",
    ],
    [
      "transcribe",
      { audio_base64: "AAAA", upload_id: "up_1", language: "hi" },
      "invalid_request: Give the recording once",
    ],
    [
      "transcribe",
      { audio_base64: "!", language: "hi" },
      "invalid_request (audio_base64): audio_base64 is not base64.",
    ],
    ["transcribe", { audio_base64: "AAAA", language: "hi" }, "audio_decode_failed"],
    ["transcribe", { path: SAMPLE, language: "hi" }, "unknown_parameter (path)"],
    ["transcribe", { upload_id: "up_none", language: "hi" }, "not_found"],
    ["transcribe", { upload_id: "up_none", language: "xx" }, "unsupported_language (language)"],
    ["read_transcription", { transcription_id: "../uploads" }, "not_found"],
    ["read_transcription", {}, "invalid_request (transcription_id): transcription_id is required."],
    ["list_transcriptions", { limit: 1000 }, "invalid_request (limit)"],
    ["list_transcriptions", { metadata: { "a b": "1" } }, "invalid_request (metadata.a?b)"],
  ];
  test.each(REFUSED)("%s with %j is refused", async (name, args, text) => {
    const client = await overHttp();
    const refusal = await call(client, name, args);
    expect(refusal).toEqual({ isError: true, text: expect.stringContaining(text) });
  });

  test("unknown tools and keys are refused, and bodies without a message", async () => {
    const client = await overHttp();
    await expect(client.callTool({ name: "delete_everything" })).rejects.toThrow("There is no tool");
    await expect(overHttp("sk_wrong")).rejects.toThrow();
    const post = (body: string, headers: object = {}) =>
      fetch(`${server.baseUrl}/mcp`, {
        method: "POST",
        body,
        headers: {
          authorization: `Bearer ${installation.key}`,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          ...headers,
        },
      });
    expect((await post("{}", { authorization: "" })).status).toBe(401);
    for (const body of ["[]", "{", "1", '{"jsonrpc":"2.0"}', " ".repeat(4 * 1024 * 1024)]) {
      const { status } = await post(body);
      expect({ body: body.slice(0, 20), isRefused: status >= 400 && status < 500 }).toEqual({
        body: body.slice(0, 20),
        isRefused: true,
      });
    }
    expect(
      (await fetch(`${server.baseUrl}/mcp`, { headers: { authorization: `Bearer ${installation.key}` } }))
        .status,
    ).toBe(405);
  });

  test("a key with fewer rights can do less", async () => {
    const made = [
      "keys",
      "create",
      "--project",
      installation.projectId,
      "--name",
      "reader",
      "--scopes",
      "transcriptions:read",
    ];
    const { key } = await installation.json<{ key: string }>(...made);
    const client = await overHttp(key);
    expect((await answer(client, "list_transcriptions", {})).object).toBe("list");
    const refusal = await call(client, "transcribe", { audio_base64: await base64(), language: "hi" });
    expect(refusal).toEqual({ isError: true, text: expect.stringContaining("forbidden (uploads:write)") });
  });
});

describe("on standard input and output", () => {
  test("a file in a folder that the admin names", async () => {
    const client = await onStdio({ args: ["--root", calls] });
    const progress: number[] = [];
    const result = (await client.callTool(
      { name: "transcribe", arguments: { path: join(calls, "call.wav"), language: "hi" } },
      undefined,
      { onprogress: ({ progress: share }) => progress.push(share) },
    )) as CallToolResult;
    const [first] = result.content;
    expect(first?.type === "text" && JSON.parse(first.text).text).toContain(SPOKEN);
    // The client drops what comes together with the answer, so the last one may be missing.
    expect(progress.length).toBeGreaterThan(0);
    expect(progress).toEqual(progress.toSorted((one, other) => one - other));
    expect(progress.every((share) => share >= 0 && share <= 1)).toBe(true);
  }, 60_000);

  const paths = (): [path: string, text: string][] => [
    [join(installation.folder, "outside.wav"), "it is in none of the allowed folders"],
    [join(calls, "elsewhere.wav"), "it is in none of the allowed folders"],
    [join(calls, "../outside.wav"), "it is in none of the allowed folders"],
    [calls, "it is in none of the allowed folders"],
    [join(calls, "missing.wav"), "no such file"],
    ["call.wav", "it is not absolute"],
    [join(calls, "note.txt"), "audio_decode_failed"],
  ];
  test("a folder that the client names, and nothing outside it", async () => {
    const client = await onStdio({ roots: [calls] });
    for (const [path, text] of paths()) {
      const refusal = await call(client, "transcribe", { path, language: "hi" });
      expect(refusal).toEqual({ isError: true, text: expect.stringContaining(text) });
    }
  }, 60_000);

  test("without folders, with a wrong key, and without a server", async () => {
    const none = await onStdio({});
    expect((await call(none, "transcribe", { path: SAMPLE, language: "hi" })).text).toContain(
      "no folder is allowed",
    );
    const wrong = await onStdio({ key: "sk_wrong" });
    expect((await call(wrong, "list_transcriptions", {})).text).toStartWith("unauthorized");
    const alone = await onStdio({ url: "http://127.0.0.1:9" });
    const { text, isError } = await call(alone, "list_transcriptions", {});
    expect([isError, text]).toEqual([true, expect.stringContaining("127.0.0.1:9 cannot be reached")]);
  }, 30_000);

  test("wrong usage ends at once, and repeats no secret", async () => {
    for (const [args, environment] of [
      [["mcp"], {}],
      [["mcp", "--url", "ftp://u:pass-word@x"], { MCP_SHRUTI_KEY: "sk_x" }],
      [["mcp", "--url", "http://x"], {}],
    ] as const) {
      const { exitCode, stderr } = Bun.spawnSync([executable(), ...args], {
        env: { PATH: process.env.PATH ?? "", ...environment },
      });
      expect(exitCode).toBe(2);
      expect(stderr.toString()).not.toContain("pass-word");
    }
  });
});
