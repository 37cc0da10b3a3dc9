import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { childProcesses } from "../engine/workers/orphans.ts";
import { sha256Hex } from "../lib/sha256.ts";
import { makeTensors, SMALL_SHAPE, writeCheckpoint } from "../testing/makers/checkpoint-makers.ts";
import { makeZip } from "../testing/makers/zip-maker.ts";
import { type ImportJob, RefusedImport, runImport } from "./import-process.ts";

let root: string;
let source: string;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "shruti-import-"));
  source = writeCheckpoint(join(root, "folder"), {
    shape: SMALL_SHAPE,
    tensors: makeTensors(SMALL_SHAPE),
    type: "F16",
    form: "torch",
  });
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

let count = 0;
/** A job into a new folder of models, which does not exist yet. */
const jobOf = (changes: Partial<ImportJob> = {}): ImportJob => ({
  kind: "folder",
  source,
  type: "f16",
  reserveBytes: 0,
  directory: join(root, `models-${count++}`),
  isDryRun: false,
  onProgress: () => {},
  ...changes,
});

test("a file is written under a temporary name, and unpacked files are removed", async () => {
  const zip = join(root, "folder.zip");
  const entries = readdirSync(source).map((name) => ({
    name,
    content: readFileSync(join(source, name)),
    isPacked: true,
  }));
  writeFileSync(zip, makeZip(entries));
  for (const job of [jobOf(), jobOf({ kind: "zip", source: zip })]) {
    const shares: number[] = [];
    const imported = await runImport({ ...job, onProgress: (done) => void shares.push(done) });
    const path = imported.path ?? "";
    expect(readdirSync(job.directory)).toEqual([path.slice(job.directory.length + 1)]);
    expect(path).toEndWith(".unfinished");
    expect(sha256Hex(readFileSync(path))).toBe(imported.sha256);
    expect(shares.length).toBeGreaterThan(3);
    expect(imported.peakBytes).toBeGreaterThan(20e6);
    expect(imported.peakBytes).toBeLessThan(500e6);
  }
}, 60_000);

test("a dry run says the same and leaves nothing", async () => {
  const job = jobOf({ type: "q5_1" });
  const dry = await runImport({ ...job, isDryRun: true });
  expect(dry.path).toBeUndefined();
  expect(readdirSync(job.directory)).toEqual([]);
  const { sha256, bytes } = await runImport(job);
  expect({ sha256: dry.sha256, bytes: dry.bytes }).toEqual({ sha256, bytes });
}, 60_000);

test("a refusal and a full disk leave nothing, and are different errors", async () => {
  const broken = join(root, "broken");
  mkdirSync(broken);
  const job = jobOf({ source: broken });
  const refusal = runImport(job);
  await expect(refusal).rejects.toThrow(RefusedImport);
  await expect(refusal).rejects.toThrow("config.json: the file is missing");
  expect(readdirSync(job.directory)).toEqual([]);
  const full = jobOf({ reserveBytes: 1e18 });
  const failure = runImport(full);
  await expect(failure).rejects.toThrow("not enough space");
  await expect(failure).rejects.not.toThrow(RefusedImport);
  expect(readdirSync(full.directory)).toEqual([]);
}, 60_000);

test("a process that takes more memory than it may is ended", async () => {
  const job = jobOf({ maxBytes: 30e6 });
  await expect(runImport(job)).rejects.toThrow("needs more than 30 MB of memory");
  expect(readdirSync(job.directory)).toEqual([]);
}, 60_000);

test("the process gets no variables, and its end is a failure that leaves nothing", async () => {
  process.env.SHRUTI_METRICS_TOKEN = "secret";
  try {
    // The weights never come: the process waits in the pipe's place until it is killed.
    const job = jobOf();
    const before = childProcesses();
    let environment: string | undefined;
    const importing = runImport({
      ...job,
      onProgress: () => {
        const child = childProcesses().find((pid) => !before.includes(pid));
        if (child === undefined) return;
        environment ??= readFileSync(`/proc/${child}/environ`, "utf8");
        process.kill(child, "SIGKILL");
      },
    });
    await expect(importing).rejects.toThrow("The process that imports the model ended (SIGKILL).");
    expect(environment).toBeDefined();
    expect(environment).not.toContain("secret");
    expect(environment).not.toContain("HOME=");
    expect(existsSync(job.directory) ? readdirSync(job.directory) : []).toEqual([]);
  } finally {
    delete process.env.SHRUTI_METRICS_TOKEN;
  }
}, 60_000);
