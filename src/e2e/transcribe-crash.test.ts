import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ResultBody } from "../pipeline/render.ts";
import { upToDateBinary } from "./binary.ts";
import { cpuMsOf, descendantsOf } from "./processes.ts";
import { pcmOf, wavFile } from "./samples.ts";

/** `shruti transcribe` is as robust as the server: the end of a worker process costs time, but no text. */

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-transcribe-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const TIMES = 120;
/** Loading the demonstration model takes less; a process that has used more is recognizing chunks. */
const RECOGNIZING_FROM_CPU_MS = 3_000;

test("a file is transcribed in full although the worker process with the model is killed", async () => {
  const pcm = new Uint8Array(pcmOf("04-en").buffer);
  const file = join(folder, "long.wav");
  writeFileSync(file, wavFile(Array(TIMES).fill(pcm), { rateHz: 16_000, channels: 1 }));
  const child = Bun.spawn(
    [await upToDateBinary(), "transcribe", "--language", "en", "--format", "json", file],
    {
      env: { XDG_CACHE_HOME: folder, HOME: folder, SHRUTI_STORAGE_DATA_DIR: join(folder, "data") },
      stdout: "pipe",
      stderr: "pipe",
    },
  );
  const printed = new Response(child.stdout).text();
  const said = new Response(child.stderr).text();
  let killed = 0;
  while (child.exitCode === null && killed === 0) {
    const busy = descendantsOf(child.pid).find((pid) => cpuMsOf([pid]) > RECOGNIZING_FROM_CPU_MS);
    if (busy !== undefined) {
      process.kill(busy, "SIGKILL");
      killed = busy;
    }
    await Bun.sleep(20);
  }
  expect(await child.exited, await said).toBe(0);
  expect(killed).toBeGreaterThan(0);
  const result = JSON.parse(await printed) as ResultBody;
  expect(result.gaps).toBeUndefined();
  expect(result.segments.length).toBeGreaterThanOrEqual(TIMES);
}, 120_000);
