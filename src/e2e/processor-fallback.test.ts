import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { functionOffset } from "../testing/makers/elf.ts";
import { RELEASE_BUILD_LIMIT_MS, releaseBinary } from "./binary.ts";
import { expectUtterances } from "./expect-utterances.ts";
import { type Installation, install, reached, until, uploaded } from "./kit.ts";
import { sampleBytes, utterancesIn } from "./samples.ts";

/**
 * Library code that ends the worker process at its first chunk. In the embedded library that is chosen here, and in the
 * next one, the function that computes is overwritten: it begins with an instruction that does not exist, or with a read
 * from address 0. The executable is that of a release, because a build for one machine has fewer libraries.
 */

type Finding = { check: string; ok: boolean; detail: string };

const MISSING_INSTRUCTION = [0x0f, 0x0b];
const READ_OF_NULL = [0x8b, 0x04, 0x25, 0, 0, 0, 0];

let installation: Installation;
/** The libraries with broken code, and the library that is used then. */
let broken: string[] = [];
let sound = "";

beforeAll(async () => {
  const executable = await releaseBinary("linux-x64");
  installation = await install({ place: async (path) => copyFileSync(executable, path) });
  const [first = "", second = "", third = ""] = usableCode();
  [broken, sound] = [[first, second], third];
  // This command writes the libraries to disk.
  expect(await transcribed()).toBe(0);
  const native = join(installation.dataDir, "native");
  for (const [i, instruction] of [MISSING_INSTRUCTION, READ_OF_NULL].entries()) {
    const library = join(native, readdirSync(native)[0] ?? "", `libggml-cpu-${broken[i]}.so`);
    const bytes = readFileSync(library);
    bytes.set(instruction, functionOffset(library, "ggml_graph_compute"));
    writeFileSync(library, bytes);
  }
}, RELEASE_BUILD_LIMIT_MS);

afterAll(() => installation?.remove());

async function findings(): Promise<Finding[]> {
  return JSON.parse((await installation.command("doctor", "--json")).out);
}

/** Returns the names of this processor's libraries, best first. */
function usableCode(): string[] {
  const script = join(import.meta.dirname, "../testing/programs/whisper-test-child.ts");
  const native = join(import.meta.dirname, "../../build/native-linux-x64");
  const { stdout } = Bun.spawnSync([process.execPath, script, native, "describe", '{"models":[]}']);
  const { cpuVariant, plainerVariants } = JSON.parse(stdout.toString());
  return [cpuVariant, ...plainerVariants];
}

async function transcribed(): Promise<number> {
  const path = join(installation.folder, "01-en.wav");
  writeFileSync(path, sampleBytes("01-en"));
  const command = ["transcribe", path, "--language", "en", "--format", "json"];
  const { out, code } = await installation.command(...command);
  if (code === 0) expectUtterances(JSON.parse(out), utterancesIn("01-en"));
  return code;
}

function usedCode(found: Finding[]): string {
  const engine = found.find(({ check }) => check === "engine")?.detail ?? "";
  return /processor code (\S+)$/.exec(engine)?.[1] ?? "";
}

test("doctor measures with the next library that works, and names those that it avoids", async () => {
  const found = await findings();
  expect(usedCode(found)).toBe(sound);
  expect(found.filter(({ ok }) => !ok)).toMatchObject([
    {
      check: "processor",
      detail: expect.stringContaining(`processor code ${broken[0]}: a worker ended in it (SIGILL)`),
    },
    {
      check: "processor",
      detail: expect.stringContaining(`processor code ${broken[1]}: a worker ended in it (SIGSEGV)`),
    },
  ]);
  expect(found.filter(({ check }) => check === "speed").length).toBeGreaterThan(0);
}, 60_000);

test("a server does its first work with a library that works: nothing fails, and two worker processes are lost", async () => {
  const server = await (await installation.serve()).ready();
  const api = server.api();
  const upload = await uploaded(api, sampleBytes("01-en"));
  const { id } = (await api.start({ audio: { upload_id: upload }, language: "en" })).body;
  const [sent] = await Promise.all([
    api.transcribe(sampleBytes("01-en"), { language: "en" }),
    reached(api, id, ["completed"]),
  ]);
  expectUtterances(sent, utterancesIn("01-en"));
  expectUtterances(await api.result(id), utterancesIn("01-en"));

  const log = server
    .log()
    .split("\n")
    .flatMap((line) => (line.includes("plainer code takes its place") ? [JSON.parse(line)] : []));
  expect(log).toMatchObject([
    { level: expect.anything(), variant: broken[0], plainer: broken[1], signal: "SIGILL" },
    { variant: broken[1], plainer: sound, signal: "SIGSEGV" },
  ]);
  expect(server.log()).not.toContain("a chunk failed");
  expect(server.log().split('"msg":"worker ended"').length - 1).toBe(2);

  const avoided = [
    { name: broken[0], signal: "SIGILL" },
    { name: broken[1], signal: "SIGSEGV" },
  ];
  // The server writes its status once a second, so it can name one of the two at first.
  const isWritten = async () =>
    (await installation.output("status")).includes(`processor code ${broken[1]}: `);
  await until("the status names the code", isWritten, 10_000);
  expect(await installation.json("status")).toMatchObject({ server: { avoided_processor_code: avoided } });
  expect(await installation.output("status")).toContain(`avoided   processor code ${broken[0]}: `);
  expect(await (await fetch(`${server.baseUrl}/metrics`)).text()).toContain(
    "shruti_engine_avoided_processor_code 2",
  );
  expect(await server.stop()).toBe(0);
}, 90_000);

test("a file is transcribed without a server as well", async () => {
  expect(await transcribed()).toBe(0);
}, 60_000);
