import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { ModelList } from "../http/wire/schemas.ts";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { expectUtterances } from "./expect-utterances.ts";
import { type Installation, install, type RunningServer, reached, until, uploaded } from "./kit.ts";
import { argumentsOf, descendantsOf, footprintOf } from "./processes.ts";
import { refusal } from "./refusal.ts";
import { concatenated, sampleBytes, secondsOf, utterancesIn } from "./samples.ts";

/** Changes by an admin on the command line take effect in a running server within a second. */

const DEMO_WEIGHTS = resolve(import.meta.dir, "../../models/demo.bin");
const IN_FORCE_MS = 1_000;

let installation: Installation;
let server: RunningServer;
let api: ApiClient;
let uploadId: string;

beforeAll(async () => {
  installation = await install({ creditPaise: 0 });
  server = await (await installation.serve()).ready();
  api = server.api();
  uploadId = await uploaded(api, sampleBytes("01-en"));
}, 300_000);

afterAll(async () => {
  if (server) expect(await server.stop()).toBe(0);
  await installation?.remove();
});

const start = (client: ApiClient, more: { model?: string } = {}) =>
  client.start({ audio: { upload_id: uploadId }, language: "en", ...more });

describe("credit, keys, organizations", () => {
  test("without credit nothing starts; after a grant it does", async () => {
    expect(await refusal(start(api))).toBe("402 insufficient_credits");
    await installation.output("credit", "grant", "--org", installation.organizationId, "--paise", "1000");
    const { body } = await start(api);
    expect((await reached(api, body.id)).state).toBe("completed");
    // At 3000 paise an hour, rounded up.
    const left = 1000 - Math.ceil((secondsOf("01-en") * 3000) / 3600);
    expect((await api.usage()).credit).toEqual({
      balance_paise: left,
      reserved_paise: 0,
      available_paise: left,
    });
  }, 60_000);

  test("a revoked key is refused", async () => {
    const created = await installation.json<{ id: string; key: string }>(
      ...["keys", "create", "--project", installation.projectId, "--name", "short-lived"],
    );
    const client = server.api(created.key);
    expect((await client.list()).object).toBe("list");
    await installation.output("keys", "revoke", created.id);
    await until(
      "the key is refused",
      async () => (await refusal(client.list())) === "401 unauthorized",
      IN_FORCE_MS,
    );
    expect((await api.list()).object).toBe("list");
  });

  test("a revoked key ends the tokens of its uploads", async () => {
    const created = await installation.json<{ id: string; key: string }>(
      ...["keys", "create", "--project", installation.projectId, "--name", "sender"],
    );
    const bytes = sampleBytes("01-en");
    const { upload } = await server.api(created.key).createUpload(bytes.byteLength);
    const send = async () => {
      const { method, url, headers } = upload;
      return (await fetch(url, { method, headers, body: bytes })).status;
    };
    expect(await send()).toBe(200);
    await installation.output("keys", "revoke", created.id);
    expect(await send()).toBe(401);
  });

  test("a disabled organization is refused, and served again once it is enabled", async () => {
    await installation.output("orgs", "disable", installation.organizationId);
    const isRefused = async () => (await refusal(api.list())) === "403 organization_disabled";
    await until("the organization is refused", isRefused, IN_FORCE_MS);
    await installation.output("orgs", "enable", installation.organizationId);
    await until("the organization is served", async () => !(await isRefused()), IN_FORCE_MS);
  });

  test("a scope that a key lacks is refused", async () => {
    const { key } = await installation.json<{ key: string }>(
      ...["keys", "create", "--project", installation.projectId, "--name", "reader"],
      ...["--scopes", "transcriptions:read"],
    );
    const reader = server.api(key);
    expect((await reader.list()).data.length).toBeGreaterThan(0);
    expect(await refusal(start(reader))).toBe("403 forbidden transcriptions:write");
  });
});

describe("models", () => {
  const listed = async () => (await api.call<ModelList>("GET", "/v1/models")).body.data;

  /** Transcribes with the default model, and returns its id. */
  async function modelThatAnswers(model?: string): Promise<string> {
    const { body } = await start(api, model === undefined ? {} : { model });
    expect((await reached(api, body.id)).state).toBe("completed");
    const result = await api.result(body.id);
    expectUtterances(result, utterancesIn("01-en"));
    return result.model;
  }

  test("an added model is usable without a restart; the admin's choice becomes the default; a removed model is gone", async () => {
    expect(await modelThatAnswers()).toBe("demo");
    const languages = ["--language", "en:native", "--language", "hi:native"];
    for (const id of ["second", "third"]) {
      await installation.output("models", "add", DEMO_WEIGHTS, "--id", id, ...languages);
    }
    // The first model that is added replaces the demonstration model as the default.
    await until(
      "both are listed",
      async () => (await listed()).map(({ id }) => id).join() === "second,third",
      IN_FORCE_MS,
    );
    expect(await modelThatAnswers()).toBe("second");
    expect(await modelThatAnswers("third")).toBe("third");

    await installation.output("models", "default", "third");
    await until("the choice is in force", async () => (await listed())[0]?.id === "third", IN_FORCE_MS);
    expect(await modelThatAnswers()).toBe("third");

    // A removal does not change the default silently either.
    expect((await installation.command("models", "remove", "third")).code).toBe(5);
    expect(await modelThatAnswers()).toBe("third");
    await installation.output("models", "default", "second");
    const removed = await installation.command("models", "remove", "third");
    expect(removed).toMatchObject({ code: 0, err: expect.stringContaining("use second (trial") });
    await until("it is gone", async () => (await listed()).every(({ id }) => id !== "third"), IN_FORCE_MS);
    expect(await refusal(start(api, { model: "third" }))).toBe("422 invalid_request model");
    expect(await modelThatAnswers()).toBe("second");
  }, 60_000);

  test.each([
    ["nothing", () => new Uint8Array(0)],
    ["noise", () => crypto.getRandomValues(new Uint8Array(60_000))],
    ["the first half of a model", () => readFileSync(DEMO_WEIGHTS).subarray(0, 500_000)],
    ["a recording", () => sampleBytes("01-en")],
  ])("a file that holds %s is refused as a model", async (_what, content) => {
    const path = join(installation.folder, "broken.bin");
    writeFileSync(path, content());
    const { code, err } = await installation.command("models", "add", path);
    expect(code).toBe(2);
    expect(err).toMatch(/^error: .+\n$/);
    expect((await listed()).map(({ id }) => id)).not.toContain("broken");
  });

  test("a model whose file is damaged later fails its transcriptions with a reason; the server and other models keep working", async () => {
    await installation.output("models", "add", DEMO_WEIGHTS, "--id", "damaged", "--language", "en:native");
    truncateSync(join(installation.dataDir, "models", "damaged.bin"), 300_000);
    const verified = await installation.command("models", "verify", "damaged");
    expect(verified.code).toBe(1);
    const { body } = await start(api, { model: "damaged" });
    expect(await reached(api, body.id)).toMatchObject({
      state: "failed",
      error: { code: "capacity_unavailable" },
    });
    const shown = await installation.output("transcriptions", "show", body.id);
    expect(shown).toMatch(/^error +capacity_unavailable: \w/m);
    expect(await installation.output("transcriptions", "list")).toMatch(
      new RegExp(`^${body.id} .* capacity_unavailable$`, "m"),
    );
    expect(await modelThatAnswers("second")).toBe("second");
    expect((await fetch(`${server.baseUrl}/healthz`)).ok).toBe(true);
  }, 60_000);
});

describe("metrics", () => {
  const metric = async (name: string) => {
    const text = await (await fetch(`${server.baseUrl}/metrics`)).text();
    const line = text.split("\n").find((each) => each.startsWith(`${name} `));
    return Number(line?.slice(name.length + 1));
  };

  test("count what a command cancels", async () => {
    await installation.output("credit", "grant", "--org", installation.organizationId, "--paise", "100000");
    const name = 'shruti_transcriptions_finished_total{state="cancelled"}';
    const before = await metric(name);
    const long = await uploaded(api, concatenated(["12-en-long"], 8));
    const { body } = await api.start({ audio: { upload_id: long }, language: "en" });
    await installation.output("transcriptions", "cancel", body.id);
    expect((await api.get(body.id)).state).toBe("cancelled");
    expect(await metric(name)).toBe(before + 1);
  }, 60_000);

  test("have the memory of the workers", async () => {
    const workers = descendantsOf(server.pid).filter((pid) => argumentsOf(pid).includes("engine-worker"));
    expect(workers.length).toBeGreaterThan(0);
    const mebibytes = workers.reduce((sum, pid) => sum + footprintOf(pid).residentMiB, 0);
    const measured = (await metric("shruti_child_processes_resident_memory_bytes")) / 1024 ** 2;
    expect(measured).toBeGreaterThan(0.8 * mebibytes);
    expect(measured).toBeLessThan(1.2 * mebibytes + 20);
    expect(await metric("shruti_child_processes")).toBeGreaterThanOrEqual(workers.length);
    expect(await metric("shruti_ready")).toBe(1);
  });
});
