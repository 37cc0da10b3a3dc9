import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { TranscriptionResult } from "../http/wire/schemas.ts";
import { isNewerVersion, newestGlibcOf } from "../native/build/glibc.ts";
import { machineProcessorCode } from "../native/build/processor-code.ts";
import { RELEASE_GLIBC } from "../native/build/toolchain.ts";
import { elfFilesOf, RELEASE_BUILD_LIMIT_MS, releaseBinary } from "./binary.ts";
import { expectUtterances } from "./expect-utterances.ts";
import { type Installation, install } from "./kit.ts";
import { samplePath, utterancesIn } from "./samples.ts";

/** The executable of a release for x86-64, built with the pinned compiler for all systems from RHEL 8 on. */

const ROOT = resolve(import.meta.dir, "../..");
const PARTS = join(ROOT, "build/native-linux-x64");

let executable: string;
let installation: Installation;
beforeAll(async () => {
  executable = await releaseBinary("linux-x64");
  installation = await install({ place: async (path) => copyFileSync(executable, path) });
}, RELEASE_BUILD_LIMIT_MS);
afterAll(() => installation?.remove());

test(`no file inside needs a glibc newer than ${RELEASE_GLIBC}`, () => {
  const { names, files } = elfFilesOf(executable, PARTS);
  expect(names.length).toBeGreaterThan(20);
  expect(files.length).toBe(names.length + 1);
  const newest = newestGlibcOf(files) ?? "none";
  expect({ newest, isTooNew: isNewerVersion(newest, RELEASE_GLIBC) }).toEqual({ newest, isTooNew: false });
});

test("its code for this processor is what a build for this machine would have", async () => {
  const child = join(ROOT, "src/testing/programs/whisper-test-child.ts");
  const command = [process.execPath, child, PARTS, "describe", '{"models":[]}'];
  const { cpuVariant } = await Bun.spawn(command, { stdout: "pipe" }).stdout.json();
  expect(cpuVariant).toBe(machineProcessorCode(process.arch, readFileSync("/proc/cpuinfo", "utf8"))[0]);
});

test("it transcribes", async () => {
  const command = ["transcribe", samplePath("01-en"), "--language", "en", "--format", "json"];
  const { code, out } = await installation.command(...command);
  expect(code).toBe(0);
  expectUtterances(JSON.parse(out) as TranscriptionResult, utterancesIn("01-en"));
}, 60_000);
