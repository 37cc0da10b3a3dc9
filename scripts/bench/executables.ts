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
import { loadavg } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { repeated } from "./engine/audio.ts";
import { runBench } from "./engine/bench.ts";
import { type Shruti, startShruti } from "./engine/shruti.ts";
import { median } from "./median.ts";

const ROOT = join(import.meta.dirname, "../..");
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

await runBench("executables", { names: options.models, words: Number(options.words) }, async (bench) => {
  const dense = bench.write("dense.wav", repeated(bench.speech, Number(options.seconds)));
  const start = async (executable: string, port: number): Promise<Side> => {
    const home = bench.subfolder(String(port));
    const given = { executable: resolve(executable), folder: home, port, synchronousWorkers: 1 };
    const shruti = bench.keep(await startShruti(given, bench.models));
    return { shruti, uploadId: await shruti.upload(dense) };
  };
  const before = await start(options.before, FIRST_PORT);
  const after = await start(options.after, FIRST_PORT + 1);
  console.log(`${options.seconds} s of speech, ${options.pairs} pairs, load ${loadavg()[0]?.toFixed(1)}`);
  for (const { id } of bench.models) await compare(before, after, id);
});
