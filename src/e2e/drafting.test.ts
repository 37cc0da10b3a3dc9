import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import type { ApiClient } from "../testing/answers/api-client.ts";
import { NATIVE_DIR } from "../testing/kits/native-files.ts";
import { openWideModel } from "../testing/makers/wide-model.ts";
import {
  type Installation,
  install,
  type RunningServer,
  reached,
  type Status,
  setInConfig,
  until,
  uploaded,
} from "./kit.ts";
import { sampleBytes } from "./samples.ts";

/** A draft model on the executable: the demonstration model writes ahead of one of twice its width. */

const DEMO = join(import.meta.dirname, "../../models/demo.bin");

let installation: Installation;
let server: RunningServer;
let api: ApiClient;

beforeAll(async () => {
  installation = await install();
  const wide = join(installation.folder, "wide.bin");
  openWideModel(DEMO, NATIVE_DIR)(wide, "f16");
  const languages = ["--languages", "en,hi", "--licence", "ours", "--no-trial"];
  await installation.output("models", "add", wide, "--id", "wide", ...languages);
  await installation.output(
    "models",
    "add",
    DEMO,
    "--id",
    "small",
    "--languages",
    "en",
    "--licence",
    "ours",
    "--no-trial",
  );
  await installation.output("models", "default", "wide");
  server = await (await installation.serve()).ready();
  api = server.api();
}, 180_000);

afterAll(async () => {
  if (server) expect(await server.stop()).toBe(0);
  await installation?.remove();
}, 60_000);

const configure = (id: string) => setInConfig(installation, "draft_model", id);

const reloads = () => server.log().split('"msg":"the config was reloaded"').length - 1;
async function reload(id: string): Promise<void> {
  configure(id);
  const before = reloads();
  process.kill(server.pid, "SIGHUP");
  await until("the config was reloaded", () => reloads() > before);
}

async function segmentsOf(sample: string, language: string): Promise<unknown> {
  const upload = await uploaded(api, sampleBytes(sample));
  const { body } = await api.start({ audio: { upload_id: upload }, language, model: "wide" });
  expect((await reached(api, body.id)).state).toBe("completed");
  return (await api.result(body.id)).segments;
}

/** What the draft model has done for a model, as the metrics say. */
async function countOf(name: "drafted" | "accepted"): Promise<number> {
  const text = await (await fetch(`${server.baseUrl}/metrics`)).text();
  return Number(
    new RegExp(`^shruti_engine_${name}_tokens_total\\{model="wide"\\} (\\d+)$`, "m").exec(text)?.[1] ?? -1,
  );
}

test("texts are those without a draft, and status, metrics, lists and doctor say what it does", async () => {
  const before = [
    await segmentsOf("01-en", "en"),
    await segmentsOf("12-en-long", "en"),
    await segmentsOf("02-hi", "hi"),
  ];
  expect(await countOf("drafted")).toBe(-1);
  await reload("small");
  expect(server.log()).toContain('"models":["wide"],"msg":"a draft model writes ahead"');
  const after = [await segmentsOf("01-en", "en"), await segmentsOf("12-en-long", "en")];
  expect(after).toEqual(before.slice(0, 2));
  const drafted = await countOf("drafted");
  const accepted = await countOf("accepted");
  expect(drafted).toBeGreaterThan(0);
  expect(accepted).toBeGreaterThan(0);
  expect(accepted).toBeLessThanOrEqual(drafted);
  // It does not know Hindi.
  expect(await segmentsOf("02-hi", "hi")).toEqual(before[2]);
  expect(await countOf("drafted")).toBe(drafted);
  await until("the status says it", async () => {
    const { server: status } = await installation.json<Status>("status");
    return JSON.stringify(status).includes(`"draft":{"id":"small","drafted_tokens":${drafted}`);
  });
  expect((await installation.command("models", "list")).err).toContain("small drafts for wide");
  expect((await installation.command("doctor")).out).toContain("small drafts for wide");
}, 240_000);

test.each([
  ["none", "there is no model none to draft; there are small, wide"],
  ["wide", "the model wide drafts for none of the others: small: its file is not smaller"],
])(
  "a draft model %s that cannot be used is named, and work is done without",
  async (id, problem) => {
    await reload(id);
    await until("the log names it", () => server.log().includes(problem));
    const before = await countOf("drafted");
    expect(await segmentsOf("01-en", "en")).not.toEqual([]);
    expect([-1, before]).toContain(await countOf("drafted"));
    expect((await installation.command("doctor")).out).toContain(problem);
    expect((await installation.command("models", "list")).err).toContain(problem);
  },
  240_000,
);
