import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { upToDateBinary } from "./binary.ts";

/** Runs the scripts that fuzz the executable, in their short form. src/README.md describes the long form. */

const ROOT = resolve(import.meta.dir, "../..");
let folder: string;
let binary: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "shruti-fuzzed-"));
  binary = await upToDateBinary();
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function run(script: string, ...options: string[]): Promise<string> {
  const keep = join(folder, script);
  const child = Bun.spawn([process.execPath, `scripts/${script}.ts`, ...options, "--keep", keep], {
    cwd: ROOT,
    env: { ...process.env, SHRUTI_BINARY: binary },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`${script}: status ${code}\n${out}\n${err}`);
  return out;
}

test("1,500 fuzzed requests get documented answers, and leave nothing behind", async () => {
  const out = await run("fuzz-requests", "--count", "1500", "--seed", "41");
  expect(out).toContain("findings: 0");
  // Some of each kind were accepted, so the others were not all refused for one reason.
  for (const expected of [
    "createUpload 201",
    "createTranscription 202",
    "sendFile 200",
    "transcribeAudio 200",
  ]) {
    expect(out).toContain(expected);
  }
}, 120_000);

test.skipIf(Bun.which("ffmpeg") === null)(
  "400 damaged recordings become complete uploads or get documented refusals (needs ffmpeg)",
  async () => {
    const out = await run("fuzz-verification", "--count", "400", "--seed", "41", "--transcribe-every", "40");
    expect(out).toContain("server ends: 0; findings: 0");
    expect(out).toMatch(/\d{2,}\s+complete/);
    expect(out).toContain("rejected: audio_decode_failed");
    expect(out).toContain("The stored bytes do not have the declared SHA-256");
  },
  120_000,
);
