import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { indicCtcFamily } from "../../src/families/ctc/family.ts";
import { checkIndicFiles } from "../../src/families/ctc/indic-files.ts";
import { checkCtcFiles } from "../../src/families/ctc/model-files.ts";
import { extractNativeFiles } from "../../src/native/native-files.ts";
import { CTC_INPUT, fasterFile, loadOnnx } from "../../src/native/onnx/onnx-addon.ts";
import { filesOf } from "../../src/services/models/model-files.ts";
import { median } from "./median.ts";

/**
 * Compares the addon for CTC models with sherpa-onnx's: time, processor time and memory on noise.
 *
 *     bun scripts/bench/ctc.ts FOLDER [--seconds 10,20,30] [--threads 1,2] [--rounds 5] [--at-once 1,2] [--engines shruti] [--unsigned]
 *
 * Each engine, number of threads and number of chunks at once has a process of its own. The engines take turns. With `--unsigned`
 * the addon opens the file as it is, also where it would make something faster of it.
 */

type Measured = {
  loadMs: number;
  firstMs: number;
  loadedMb: number;
  peakMb: number;
  ms: Record<number, number>;
  /** Processor time of one chunk. */
  cpuMs: Record<number, number>;
};
type Engine = "shruti" | "sherpa";
type Run = (samples: Float32Array) => Promise<unknown>;

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: "string", default: "10,20,30" },
    threads: { type: "string", default: "1,2" },
    rounds: { type: "string", default: "5" },
    "at-once": { type: "string", default: "1" },
    engine: { type: "string" },
    unsigned: { type: "boolean", default: false },
    engines: { type: "string", default: "shruti,sherpa" },
  },
});
const [folder = "."] = positionals;
const numbers = (text: string) => text.split(",").map(Number);
const lengths = numbers(values.seconds);

async function openShruti(threads: number): Promise<Run> {
  const { addon } = loadOnnx(await extractNativeFiles(""));
  const given = indicCtcFamily.given(folder);
  const files = given
    ? filesOf(indicCtcFamily, given.files())
    : { model: `${folder}/model.onnx`, tokens: `${folder}/tokens.txt` };
  const info = given ? checkIndicFiles(files) : checkCtcFiles(files.model ?? "", files.tokens ?? "");
  const isMapped = info.external.length > 0;
  const model = files.model ?? "";
  const session = await addon.open(values.unsigned ? model : fasterFile(model), threads, isMapped);
  const head = files.head === undefined ? null : await addon.open(files.head, threads, isMapped);
  const allowed = new Uint8Array(info.tokens.length).fill(1);
  return (samples) => addon.run(session, samples, CTC_INPUT.kaldi, info.bins, allowed, head, null).promise;
}

type Handle = { readonly __handle: unique symbol };
type Sherpa = {
  createOfflineRecognizer(config: object): Handle;
  createOfflineStream(recognizer: Handle): Handle;
  acceptWaveformOffline(stream: Handle, audio: { samples: Float32Array; sampleRate: number }): void;
  decodeOfflineStreamAsync(recognizer: Handle, stream: Handle): Promise<string>;
};
/** sherpa-onnx's addon holds raw pointers of objects, which must therefore not be collected. */
const kept = new Set<Handle>();

async function openSherpa(threads: number): Promise<Run> {
  const platform = `sherpa-onnx-${process.platform}-${process.arch}`;
  const module = { exports: {} };
  process.dlopen(module, join(import.meta.dir, "../../node_modules", platform, "sherpa-onnx.node"));
  const sherpa = module.exports as Sherpa;
  const recognizer = sherpa.createOfflineRecognizer({
    featConfig: { sampleRate: 16_000, featureDim: 80 },
    modelConfig: {
      nemoCtc: { model: `${folder}/model.onnx` },
      tokens: `${folder}/tokens.txt`,
      numThreads: threads,
      provider: "cpu",
      debug: 0,
    },
  });
  kept.add(recognizer);
  return async (samples) => {
    const stream = sherpa.createOfflineStream(recognizer);
    kept.add(stream);
    sherpa.acceptWaveformOffline(stream, { samples, sampleRate: 16_000 });
    await sherpa.decodeOfflineStreamAsync(recognizer, stream);
    kept.delete(stream);
  };
}

const megabytes = (field: string) => {
  const line = readFileSync("/proc/self/status", "utf8").match(new RegExp(`${field}:\\s+(\\d+)`));
  return Math.round(Number(line?.[1] ?? 0) / 1024);
};

/** Measures one engine in this process. */
async function measure(engine: Engine, threads: number, atOnce: number): Promise<Measured> {
  const startedAt = performance.now();
  const run = await (engine === "shruti" ? openShruti : openSherpa)(threads);
  const loadMs = performance.now() - startedAt;
  const loadedMb = megabytes("VmRSS");
  const noise = (seconds: number) =>
    Float32Array.from({ length: seconds * 16_000 }, (_, n) => Math.sin(n * n * 0.001) * 0.1);
  await run(noise(1));
  const firstMs = performance.now() - startedAt;
  const ms: Record<number, number> = {};
  const cpuMs: Record<number, number> = {};
  for (const seconds of lengths) {
    const samples = noise(seconds);
    const times: number[] = [];
    const cpuTimes: number[] = [];
    for (let round = 0; round < Number(values.rounds); round++) {
      const at = performance.now();
      const before = process.cpuUsage();
      await Promise.all(Array.from({ length: atOnce }, () => run(samples)));
      times.push((performance.now() - at) / atOnce);
      const { user, system } = process.cpuUsage(before);
      cpuTimes.push((user + system) / 1000 / atOnce);
    }
    ms[seconds] = Math.round(median(times));
    cpuMs[seconds] = Math.round(median(cpuTimes));
  }
  return { loadMs, firstMs, loadedMb, peakMb: megabytes("VmHWM"), ms, cpuMs };
}

if (values.engine !== undefined) {
  const [threads = 1] = numbers(values.threads);
  const [atOnce = 1] = numbers(values["at-once"]);
  console.log(JSON.stringify(await measure(values.engine as Engine, threads, atOnce)));
} else {
  console.log(
    `engine  threads  at once  load ms  first ms  loaded MB  peak MB  ${lengths.map((s) => `wall/processor ms of ${s} s`).join("  ")}  x real time a core`,
  );
  for (const atOnce of numbers(values["at-once"])) {
    for (const threads of numbers(values.threads)) {
      for (const engine of values.engines.split(",")) {
        const { rounds, seconds } = values;
        const plain = values.unsigned ? ["--unsigned"] : [];
        const options = [...plain, "--rounds", rounds, "--seconds", seconds, "--threads", `${threads}`];
        const command = [import.meta.path, folder, ...options, "--at-once", `${atOnce}`, "--engine", engine];
        const child = Bun.spawnSync([process.execPath, ...command], { stderr: "inherit" });
        const measured = JSON.parse(child.stdout.toString()) as Measured;
        const { loadMs, firstMs, loadedMb, peakMb, ms, cpuMs } = measured;
        const speeds = lengths.map((length) => ((length * 1000) / (cpuMs[length] ?? 1)).toFixed(1));
        const cells = [engine, threads, atOnce, Math.round(loadMs), Math.round(firstMs), loadedMb, peakMb];
        const times = lengths.map((length) => `${ms[length]}/${cpuMs[length]}`);
        console.log([...cells, ...times, speeds.join(" ")].join("\t"));
      }
    }
  }
}
