import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { TranscriptionResult } from "../http/wire/schemas.ts";
import { isNewerVersion, newestGlibcOf } from "../native/build/glibc.ts";
import { RELEASE_GLIBC, releaseToolchain } from "../native/build/toolchain.ts";
import { programEnvironment } from "../testing/rules/test-variables.ts";
import { elfFilesOf, RELEASE_BUILD_LIMIT_MS, releaseBinary } from "./binary.ts";
import { expectUtterances } from "./expect-utterances.ts";
import { type Installation, install, uploaded } from "./kit.ts";
import { sampleBytes, samplePath, utterancesIn } from "./samples.ts";

/**
 * The executable of a release for 64-bit ARM, emulated by qemu (scripts/emulate.sh). What emulation cannot show is in
 * docs/release.md section 9.
 */

const ROOT = resolve(import.meta.dir, "../..");
const PARTS = join(ROOT, "build/native-linux-arm64");
const EMULATE = join(ROOT, "scripts/emulate.sh");
/** Emulated code takes 20 to 50 times as long, and `doctor` recognizes two minutes of noise. */
const PATIENCE_MS = 900_000;
/** An emulated server takes long for each question, so it is asked less often than others. */
const LOOK_EVERY_MS = 2_000;
const FINAL = ["completed", "partial", "failed", "cancelled"];

type Finding = { check: string; ok: boolean; detail: string };

/** Returns why nothing can be tested here; undefined: it can. */
function obstacle(): string | undefined {
  if (!existsSync(join(ROOT, "dist/shruti-linux-arm64")))
    return "scripts/bun.sh run build --target linux-arm64, first";
  const { success, stderr } = Bun.spawnSync([EMULATE, "--check"]);
  return success ? undefined : stderr.toString().trim();
}

/** Processors that are emulated, and the code that is chosen there: with few, with more and with most instructions. */
const PROCESSORS = [
  ["cortex-a72", "armv8.0_1"],
  ["neoverse-n1", "armv8.2_2"],
  ["max", "armv9.2_2"],
] as const;

const because = obstacle();

describe.skipIf(because !== undefined)(`on 64-bit ARM (needs ${because ?? "an emulated processor"})`, () => {
  let executable: string;
  const installations: Installation[] = [];

  /** Makes an installation whose program runs on an emulated processor. */
  async function installOn(processor: string): Promise<Installation> {
    const place = async (path: string) => {
      const script = `#!/bin/sh\nexec '${EMULATE}' --cpu ${processor} '${executable}' "$@"\n`;
      writeFileSync(path, script, { mode: 0o755 });
    };
    const installation = await install({ place });
    installations.push(installation);
    return installation;
  }

  /** Runs another program for ARM, and returns what it prints. */
  async function output(processor: string, ...command: string[]): Promise<string> {
    const child = Bun.spawn([EMULATE, "--cpu", processor, ...command], {
      ...{ env: programEnvironment(), stdout: "pipe", stderr: "pipe" },
    });
    const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    if ((await child.exited) !== 0) throw new Error(err);
    return out;
  }

  beforeAll(async () => {
    executable = await releaseBinary("linux-arm64");
  }, RELEASE_BUILD_LIMIT_MS);
  afterAll(() => Promise.all(installations.map((installation) => installation.remove())));

  test(`no file inside needs a glibc newer than ${RELEASE_GLIBC}`, () => {
    const { names, files } = elfFilesOf(executable, PARTS);
    expect(names).toContain("libggml-cpu-armv9.2_2.so");
    expect(files.length).toBe(names.length + 1);
    const newest = newestGlibcOf(files) ?? "none";
    expect({ newest, isTooNew: isNewerVersion(newest, RELEASE_GLIBC) }).toEqual({ newest, isTooNew: false });
  });

  test.each(PROCESSORS)(
    "%s: the code for %s is chosen, and a sample has its words",
    async (processor, chosen) => {
      const child = join(ROOT, "src/testing/programs/whisper-test-child.ts");
      const { runtime = "" } = await releaseToolchain("linux-arm64");
      const described = await output(processor, runtime, child, PARTS, "describe", '{"models":[]}');
      expect(JSON.parse(described)).toMatchObject({ cpuVariant: chosen });
      const { command } = await installOn(processor);
      const { code, out } = await command(
        ...["transcribe", samplePath("01-en"), "--model", "demo", "--language", "en", "--format", "json"],
      );
      expect(code).toBe(0);
      expectUtterances(JSON.parse(out) as TranscriptionResult, utterancesIn("01-en"));
    },
    PATIENCE_MS,
  );

  test(
    "doctor finds everything in order",
    async () => {
      const { command } = await installOn("neoverse-n1");
      const findings = JSON.parse((await command("doctor", "--json")).out) as Finding[];
      expect(findings.filter(({ ok }) => !ok)).toEqual([]);
      const checks = findings.map(({ check }) => check);
      for (const check of ["executable", "parts", "engine", "model", "speed"])
        expect(checks).toContain(check);
    },
    PATIENCE_MS,
  );

  test(
    "the server becomes ready, transcribes recordings in two languages over HTTP, and stops",
    async () => {
      const installation = await installOn("neoverse-n1");
      const server = await installation.serve();
      const isReady = async () => (await fetch(`${server.baseUrl}/readyz`)).ok;
      while (!(await isReady())) await Bun.sleep(LOOK_EVERY_MS);
      for (const name of ["01-en", "07-hi"]) {
        const language = name.slice(-2);
        const audio = { upload_id: await uploaded(server.api(), sampleBytes(name)) };
        let { body: latest } = await server.api().start({ audio, language });
        while (!FINAL.includes(latest.state)) {
          await Bun.sleep(LOOK_EVERY_MS);
          latest = await server.api().get(latest.id);
        }
        expect(latest.state).toBe("completed");
        expectUtterances(await server.api().result(latest.id), utterancesIn(name));
      }
      expect(await server.stop()).toBe(0);
    },
    PATIENCE_MS,
  );
});
