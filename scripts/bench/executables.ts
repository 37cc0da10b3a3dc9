/**
 * Compares two executables of Shruti in one run, such as the release's form with the build for this machine: a recording of
 * dense speech, with generated models as in engine.ts. Both servers run side by side, and only one works at a time. They
 * take turns, and change who begins, so that a change of the machine's load affects both.
 *
 *   bun run build && bun scripts/build.ts --target linux-x64
 *   bun scripts/bench/executables.ts [--before dist/shruti] [--after dist/shruti-linux-x64] [--seconds 120] [--pairs 8]
 *                                    [--models bench-base,bench-base-q8_0,bench-base-q5_0] [--words 96]
 *
 * Prints the median times of both, and the median of the pairs' ratios: wall time and processor time of recognition.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { pcmOf } from "../../src/e2e/samples.ts";
import { buildWhisperPeers } from "../native/whisper.ts";
import { denseSpeech, repeated, writeWav } from "./engine/audio.ts";
import { modelFile } from "./engine/model-file.ts";
import { type Shruti, startShruti } from "./engine/shruti.ts";
import { median } from "./median.ts";

const ROOT = join(import.meta.dirname, "../..");
const SAMPLES = ["01-en", "04-en", "12-en-long"];
const FIRST_PORT = 18_441;

const { values: options } = parseArgs({
  options: {
    before: { type: "string", default: join(ROOT, "dist/shruti") },
    after: { type: "string", default: join(ROOT, "dist/shruti-linux-x64") },
    seconds: { type: "string", default: "120" },
    pairs: { type: "string", default: "8" },
    models: { type: "string", default: "bench-base,bench-base-q8_0,bench-base-q5_0" },
    words: { type: "string", default: "96" },
  },
});

type Side = { shruti: Shruti; uploadId: string };
/** Seconds of one recording. */
type Times = { wall: number; recognition: number };

async function timesOf({ shruti, uploadId }: Side, model: string): Promise<Times> {
  const before = shruti.cpuSeconds();
  const { wallMs } = await shruti.transcribe(uploadId, model);
  const { workers } = shruti.cpuSeconds();
  const recognition = [...workers].map(([pid, seconds]) => seconds - (before.workers.get(pid) ?? 0));
  return { wall: wallMs / 1000, recognition: recognition.reduce((sum, seconds) => sum + seconds, 0) };
}

async function compare(before: Side, after: Side, model: string): Promise<void> {
  // Each loads the model once before the measurement.
  for (const side of [before, after]) await timesOf(side, model);
  const pairs: { before: Times; after: Times }[] = [];
  for (let n = 0; n < Number(options.pairs); n++) {
    const times = new Map<Side, Times>();
    for (const side of n % 2 === 0 ? [before, after] : [after, before])
      times.set(side, await timesOf(side, model));
    const [first, second] = [times.get(before), times.get(after)];
    if (first !== undefined && second !== undefined) pairs.push({ before: first, after: second });
  }
  const line = (what: keyof Times) => {
    const [a, b] = [
      median(pairs.map((pair) => pair.before[what])),
      median(pairs.map((pair) => pair.after[what])),
    ];
    const ratios = pairs.map((pair) => pair.after[what] / pair.before[what]);
    return `${a.toFixed(2)} → ${b.toFixed(2)} s, ratio ${median(ratios).toFixed(2)}`;
  };
  console.log(`${model}: wall ${line("wall")}; recognition's processor time ${line("recognition")}`);
}

const folder = mkdtempSync(join(tmpdir(), "shruti-bench-executables-"));
const running: Shruti[] = [];
const cleanUp = async () => {
  await Promise.all(running.map((shruti) => shruti.stop()));
  rmSync(folder, { recursive: true, force: true });
};
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.on(signal, () => void cleanUp().finally(() => process.exit(1)));

async function start(
  executable: string,
  port: number,
  models: { id: string; path: string }[],
): Promise<Side> {
  const home = join(folder, String(port));
  mkdirSync(home);
  const shruti = await startShruti(
    { executable: resolve(executable), folder: home, port, synchronousWorkers: 1 },
    models,
  );
  running.push(shruti);
  return { shruti, uploadId: await shruti.upload(join(folder, "dense.wav")) };
}

try {
  const speech = denseSpeech(SAMPLES.map((name) => new Int16Array(pcmOf(name).buffer)));
  writeWav(join(folder, "dense.wav"), repeated(speech, Number(options.seconds)));
  const place = { folder, peersFolder: await buildWhisperPeers(), words: Number(options.words) };
  const models = options.models.split(",").map((id) => ({ id, path: modelFile(id, place) }));
  const before = await start(options.before, FIRST_PORT, models);
  const after = await start(options.after, FIRST_PORT + 1, models);
  console.log(`${options.seconds} s of speech, ${options.pairs} pairs, load ${loadavg()[0]?.toFixed(1)}`);
  for (const { id } of models) await compare(before, after, id);
} finally {
  await cleanUp();
}
