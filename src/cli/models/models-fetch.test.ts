import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CATALOGUE } from "../../services/models/catalogue.ts";
import { runCaptured } from "../../testing/kits/run-cli.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-fetch-cli-"));
const asked: { url: string; host: string | null }[] = [];
let server: ReturnType<typeof Bun.serve>;
let mirror: string;
beforeAll(() => {
  server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      asked.push({ url: request.url, host: request.headers.get("host") });
      return new Response(`{"of": ${JSON.stringify(new URL(request.url).pathname)}}`);
    },
  });
  mirror = `http://127.0.0.1:${server.port}`;
});
afterAll(async () => {
  await server.stop(true);
  rmSync(folder, { recursive: true });
});

const run = (...argv: string[]) => runCaptured(["models", ...argv], {});

test("the catalogue is there offline, as a table, in full and as JSON", async () => {
  const table = await run("catalogue");
  expect(table.status).toBe(0);
  expect(table.out).toMatch(/\nlarge-v3-q5_0 +1081 +many +MIT/);
  expect(table.out).toMatch(/\nwhisper-hindi-small +≈ 967 +hi +Apache-2\.0 +WER 9\.02 % on FLEURS/);
  expect(table.out).toMatch(/\npyannote-segmentation-3\.0 +6 +all +MIT .*--kind segmentation/);
  expect(table.out).toMatch(/\ncampplus-zh-en +28 +zh en +Apache-2\.0 .*--kind speaker/);
  const one = await run("catalogue", "whisper-tamil-medium");
  expect(one.out).toMatch(/Error rate +none published/);
  expect(one.out).toMatch(/SHA-256 +not known of config\.json, .*: needs --accept-unverified/);
  expect(JSON.parse((await run("catalogue", "--json")).out)).toHaveLength(CATALOGUE.length);
  expect((await run("catalogue", "whisper-9")).status).toBe(4);
  expect(asked).toEqual([]);
});

test("addresses and checksums can be carried by hand", async () => {
  const printed = await run("fetch", "tiny", "--print");
  expect(printed).toEqual({
    status: 0,
    out: "https://huggingface.co/ggerganov/whisper.cpp/resolve/5359861c739e955e79d9a303bcbc70fb988958b1/ggml-tiny.bin\n\nbe07e048e1e599ad46341c8d2a135645097a538221678b7acdd1b1919c6e1b21  ggml-tiny.bin\n",
    err: "",
  });
  const folderOf = await run("fetch", "whisper-hindi-small", "--print");
  expect(folderOf.err).toContain("config.json: its SHA-256 is not known");
  expect(folderOf.out).toEndWith(
    "\n\na19127581a96928c53cc8322249610df2cd59c59e6d06a707d9b1a1b9b25e2d9  pytorch_model.bin\n",
  );
  expect(
    JSON.parse((await run("fetch", "tiny", "--print", "--json", "--mirror", `${mirror}/hf/`)).out)[0].url,
  ).toBe(`${mirror}/hf/ggerganov/whisper.cpp/resolve/5359861c739e955e79d9a303bcbc70fb988958b1/ggml-tiny.bin`);
  expect(asked).toEqual([]);
});

test("files without a known SHA-256 need consent; weights with another one are refused", async () => {
  const refused = await run("fetch", "whisper-hindi-small", "--directory", folder, "--mirror", mirror);
  expect(refused.status).toBe(2);
  expect(refused.err).toContain("--accept-unverified");
  expect(asked).toEqual([]);
  const accepted = await run(
    ...["fetch", "whisper-hindi-small", "--directory", folder, "--mirror", mirror, "--accept-unverified"],
  );
  expect(accepted.status).toBe(1);
  expect(accepted.err).toContain("pytorch_model.bin: the downloaded bytes are not the file");
  expect(asked).toHaveLength(6);
  const path = join(folder, "whisper-hindi-small");
  expect(readdirSync(path).sort()).toEqual([
    "README.md",
    "added_tokens.json",
    "config.json",
    "preprocessor_config.json",
    "vocab.json",
  ]);
  expect(readFileSync(join(path, "config.json"), "utf8")).toContain(
    "/vasista22/whisper-hindi-small/resolve/fb4a24a",
  );
  const wrong = await run("fetch", "tiny", "--directory", folder, "--mirror", mirror);
  expect(wrong.err).toContain("ggml-tiny.bin: the");
  expect(existsSync(join(folder, "ggml-tiny.bin"))).toBe(false);
});

test("proxy variables are honoured, and so are exceptions from them", async () => {
  const program = join(import.meta.dir, "../../main.ts");
  const fetchThrough = async (environment: Record<string, string>, target: string) => {
    asked.length = 0;
    const child = Bun.spawn(
      [process.execPath, program, "models", "fetch", "tiny", "--directory", folder, "--mirror", target],
      { env: { PATH: process.env.PATH ?? "", ...environment }, stdout: "ignore", stderr: "ignore" },
    );
    await child.exited;
    return [...asked];
  };
  const throughProxy = await fetchThrough(
    { HTTP_PROXY: mirror, http_proxy: mirror },
    "http://models.example",
  );
  expect(throughProxy[0]?.host).toBe("models.example");
  const direct = await fetchThrough(
    {
      HTTP_PROXY: "http://127.0.0.1:1",
      http_proxy: "http://127.0.0.1:1",
      NO_PROXY: "127.0.0.1",
      no_proxy: "127.0.0.1",
    },
    mirror,
  );
  expect(direct[0]?.host).toBe(mirror.slice("http://".length));
}, 60_000);
