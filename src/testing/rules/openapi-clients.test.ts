import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openTestApp, type TestApp } from "../kits/open-test-app.ts";
import { scriptedAudio } from "../kits/scripted-engine.ts";
import { ROOT } from "./documents.ts";

/** The OpenAPI document, read by linters and generators of clients. */

/** Linters and generators with their own packages: they need another version of TypeScript than this program. */
const SOURCE = join(ROOT, "scripts/openapi");
/** Where the packages are installed and the clients are made. */
const TOOLS = join(ROOT, "build/openapi-tools");

let testApp: TestApp;
let directory: string;
beforeAll(async () => {
  testApp = await openTestApp({ listens: true, config: { openai: { enabled: true } } });
  directory = mkdtempSync(join(tmpdir(), "shruti-openapi-"));
  mkdirSync(TOOLS, { recursive: true });
  for (const name of readdirSync(SOURCE)) copyFileSync(join(SOURCE, name), join(TOOLS, name));
  // Does nothing where the packages are there already.
  expect(await run("install", "--frozen-lockfile")).toMatchObject({ code: 0 });
}, 300_000);
afterAll(async () => {
  await testApp.close();
  rmSync(directory, { recursive: true, force: true });
});

async function run(...args: string[]): Promise<{ code: number; output: string }> {
  const child = Bun.spawn([process.execPath, ...args], { cwd: TOOLS, stdin: "ignore", stderr: "pipe" });
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code: await child.exited, output: output + errors };
}

test("redocly and spectral have no complaint; the clients of three generators compile and work", async () => {
  const document = join(directory, "openapi.json");
  await Bun.write(document, await (await testApp.fetch("/openapi.json")).text());
  const made = join(TOOLS, "made");
  rmSync(made, { recursive: true, force: true });
  expect(await run("generate.mjs", document, made)).toMatchObject({
    code: 0,
    output: expect.not.stringMatching(/redocly|spectral|⚠/),
  });
  expect(await run("x", "tsc", "--project", "tsconfig.json")).toEqual({ code: 0, output: "" });
  const audio = join(directory, "a.wav");
  writeFileSync(audio, scriptedAudio({ seconds: 2, text: "नमस्ते" }));
  const { output } = await run("use.ts", testApp.baseUrl(), testApp.key, audio);
  expect(output.trim().split("\n")).toEqual([
    "openapi-typescript list native",
    "hey-api नमस्ते 2",
    "orval demo 404",
  ]);
}, 300_000);
