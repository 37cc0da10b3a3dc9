import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ResultBody } from "../pipeline/render.ts";
import { upToDateBinary } from "./binary.ts";
import { cpuMsOf, descendantsOf, isAlive } from "./processes.ts";
import { pcmOf, wavFile } from "./samples.ts";

/** `shruti transcribe` is as robust as the server: the end of a worker process costs time, but no text. */

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-transcribe-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Long enough that a fast processor is still recognizing then. */
const TIMES = 300;
/** Loading the demonstration model takes less; a process that has used more is recognizing chunks. */
const RECOGNIZING_FROM_CPU_MS = 2_000;

test("a file is transcribed in full although the worker process with the model is killed", async () => {
  const pcm = new Uint8Array(pcmOf("04-en").buffer);
  const file = join(folder, "long.wav");
  writeFileSync(file, wavFile(Array(TIMES).fill(pcm), { rateHz: 16_000, channels: 1 }));
  const child = Bun.spawn(
    [await upToDateBinary(), "transcribe", "--language", "en", "--format", "json", file],
    {
      env: {
        XDG_CACHE_HOME: folder,
        HOME: folder,
        SHRUTI_STORAGE_DATA_DIR: join(folder, "data"),
        SHRUTI_MODELS_DEFAULT: "demo",
      },
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

test("a batch of several jobs that is killed leaves whole files only, and --skip-existing completes it", async () => {
  const calls = join(folder, "calls");
  mkdirSync(calls);
  const pcm = new Uint8Array(pcmOf("04-en").buffer);
  // The first one is short, so that it is done while the others are worked on.
  const REPETITIONS = { a: 1, b: 8, c: 8, d: 8 };
  const NAMES = Object.keys(REPETITIONS);
  for (const [name, times] of Object.entries(REPETITIONS))
    writeFileSync(
      join(calls, `${name}.wav`),
      wavFile(Array(times).fill(pcm), { rateHz: 16_000, channels: 1 }),
    );
  const program = await upToDateBinary();
  const temporary = join(folder, "temporary");
  mkdirSync(temporary);
  const run = (output: string, ...more: string[]) =>
    Bun.spawn(
      [
        ...[program, "transcribe", "--language", "en", "--format", "json", "--jobs", "3"],
        ...["--output", output, ...more, calls],
      ],
      {
        env: {
          ...{
            XDG_CACHE_HOME: folder,
            HOME: folder,
            SHRUTI_STORAGE_DATA_DIR: join(folder, "data"),
            SHRUTI_MODELS_DEFAULT: "demo",
          },
          TMPDIR: temporary,
        },
        stdout: "ignore",
        stderr: "pipe",
      },
    );
  const output = join(folder, "words");
  // A kill during a write may leave a hidden file of another name.
  const filesIn = (place: string) =>
    existsSync(place)
      ? readdirSync(place)
          .filter((name) => !name.startsWith("."))
          .sort()
      : [];
  const first = run(output);
  // The first result is there, and others are being worked on.
  while (first.exitCode === null && filesIn(output).length === 0) await Bun.sleep(5);
  const children = descendantsOf(first.pid);
  first.kill("SIGKILL");
  await first.exited;
  expect(first.signalCode).toBe("SIGKILL");
  const deadline = Date.now() + 30_000;
  while (children.some(isAlive) && Date.now() < deadline) await Bun.sleep(20);
  expect(children.filter(isAlive)).toEqual([]);
  const done = filesIn(output);
  expect(done.length).toBeGreaterThan(0);
  for (const name of done) JSON.parse(readFileSync(join(output, name), "utf8"));
  const times = done.map((name) => statSync(join(output, name)).mtimeMs);

  const second = run(output, "--skip-existing");
  const said = await new Response(second.stderr).text();
  expect(await second.exited, said).toBe(0);
  expect(said).toContain(`${done.length} of ${NAMES.length} are there already.`);
  expect(done.map((name) => statSync(join(output, name)).mtimeMs)).toEqual(times);
  expect(filesIn(output)).toEqual(NAMES.map((name) => `${name}.json`));
  for (const [name, times] of Object.entries(REPETITIONS)) {
    const result = JSON.parse(readFileSync(join(output, `${name}.json`), "utf8")) as ResultBody;
    expect(result.gaps).toBeUndefined();
    expect(result.segments.length).toBeGreaterThanOrEqual(times);
  }
}, 180_000);
