/**
 * Compares Shruti with whisper.cpp's own programs in one run: same weights, same number of threads, same settings (greedy,
 * no second attempts, no text from earlier windows), same source of whisper.cpp.
 *
 *   bun scripts/bench/engine.ts [--executable dist/shruti] [--seconds 300] [--rounds 2] [--words 96]
 *                               [--cases abcdefg] [--lengths 30,60,600] [--models bench-base,bench-demo]
 *
 * With generated models that write the same number of words for every window, such as `bench-base`, `bench-small-q5_0` or
 * `bench-turbo-q8_0` (shapes in engine/shapes.ts; whisper.cpp's types of weights), and with the demonstration model
 * (`bench-demo`), in windows of 30 s. Prints the processor code in use, and the share of the processor's peak in case a.
 *
 *   a  one recording of dense speech                    against whisper-cli                  goal ≤ 1.0 of its time
 *   b  the same length, half of it silence              against whisper-cli                  goal ≤ 0.6
 *   c  four recordings of a quarter of the length       against whisper-cli, one by one      goal ≤ 0.9
 *   d  eight synchronous requests of 10 s at once       against whisper-server, eight at once goal ≥ 1.2 × throughput
 *   e  one recording of each of the lengths             against whisper-cli                  goal ≤ 1.0
 *   f  four recordings of each of the lengths at once   against one after the other          goal ≤ 1.0
 *
 *   g  synchronous requests of 10 s, one after the other, against the same beside a machine    goal ≤ 1.1 of the time
 *      beside a machine full of background chunks         whose chunks share no steps
 *
 * Case g also prints the time on an idle machine, and how many times as long requests take beside the others. Chunks share
 * no steps with as many workers as there are cores. SHRUTI_ENGINE_BACKGROUND_NICENESS=0 measures both with background
 * chunks that are as urgent as the requests.
 *
 * Case f also prints what the recognizer had of the machine while chunks waited (goal: 97 %).
 *
 * Each round measures A then B for every case, so that a change of the machine's load affects both. whisper-cli's time
 * includes loading the model, which is printed as well; Shruti's server has it loaded and its files uploaded.
 */
import { availableParallelism, cpus, loadavg } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { programEnvironment } from "../../src/testing/rules/test-variables.ts";
import { halfSilent, repeated } from "./engine/audio.ts";
import { type Bench, runBench } from "./engine/bench.ts";
import { besideFullLoad, timeRequests } from "./engine/beside-load.ts";
import { measurePeak, type Peak } from "./engine/peak.ts";
import { type PeerOptions, runWhisperCli, startWhisperServer } from "./engine/peers.ts";
import { readBenchModelName, windowOperations } from "./engine/shapes.ts";
import { shareWhileWaiting } from "./engine/share.ts";
import { type CpuSeconds, type Shruti, type ShrutiRun, startShruti } from "./engine/shruti.ts";
import { median } from "./median.ts";

const ROOT = join(import.meta.dirname, "../..");
const SYNCHRONOUS = 8;
const SHORT_SECONDS = 10;
const RECORDINGS = 4;
const WINDOW_SECONDS = 30;
const GET_EVERY_MS = 100;
/** Case g: requests in a row, and the length of the recording that fills the machine meanwhile. */
const REQUESTS = 6;
const LOAD_SECONDS = 3_600;
const PORTS = { shruti: 18_431, server: 18_432, unshared: 18_433 };

const { values: options } = parseArgs({
  options: {
    executable: { type: "string", default: join(ROOT, "dist/shruti") },
    seconds: { type: "string", default: "300" },
    rounds: { type: "string", default: "2" },
    words: { type: "string", default: "96" },
    cases: { type: "string", default: "abcdefg" },
    lengths: { type: "string", default: "30,60,600" },
    models: { type: "string", default: "bench-base,bench-demo" },
  },
});
const seconds = Number(options.seconds);
const rounds = Number(options.rounds);
const lengths = options.lengths.split(",").map(Number);
const threads = availableParallelism();

type Files = {
  dense: string;
  silent: string;
  quarters: string[];
  short: string;
  /** Fills the machine in case g. */
  load: string;
  /** `RECORDINGS` different ones of each of the lengths. */
  byLength: { seconds: number; wavs: string[] }[];
};
type Sides = {
  shruti: Shruti;
  /** The same program whose chunks share no steps, for case g. */
  unshared: Shruti | undefined;
  peers: PeerOptions;
  model: string;
  files: Files;
};

const percentile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0;
const inSeconds = (milliseconds: number) => (milliseconds / 1000).toFixed(2);
const load = () =>
  loadavg()
    .map((value) => value.toFixed(1))
    .join(" ");

function makeFiles({ speech, write, several }: Bench): Files {
  return {
    dense: write("dense.wav", repeated(speech, seconds)),
    silent: write("silent.wav", halfSilent(speech, seconds)),
    quarters: several("quarter", RECORDINGS, Math.floor(seconds / RECORDINGS)),
    short: write("short.wav", repeated(speech, SHORT_SECONDS)),
    load: options.cases.includes("g") ? write("load.wav", repeated(speech, LOAD_SECONDS)) : "",
    byLength: lengths.map((length) => ({
      seconds: length,
      wavs: several(`length-${length}`, RECORDINGS, length),
    })),
  };
}

/** The measurements of a case on both sides, round by round. */
type Pair = { ours: number; theirs: number };

async function measure(name: string, goal: string, round: () => Promise<Pair>): Promise<void> {
  if (!options.cases.includes(name.slice(0, 1))) return;
  const pairs: Pair[] = [];
  for (let n = 0; n < rounds; n++) pairs.push(await round());
  const ratio = median(pairs.map(({ ours, theirs }) => ours / theirs));
  const each = pairs.map(({ ours, theirs }) => `${inSeconds(ours)}/${inSeconds(theirs)}`).join("  ");
  console.log(`  ${name}: ratio ${ratio.toFixed(2)} (goal ${goal}); Shruti/peer s: ${each}; load ${load()}`);
}

/** The time of one recording after its upload, by step. */
async function longRecording({ shruti, peers, model }: Sides, wav: string): Promise<Pair> {
  const uploadId = await shruti.upload(wav);
  const before = shruti.cpuSeconds();
  const run = await shruti.transcribe(uploadId, model);
  report(run, before, shruti.cpuSeconds());
  if (wav.endsWith("dense.wav")) reportShare(busiest);
  const cli = await runWhisperCli(peers, wav);
  console.log(
    `    whisper-cli ${inSeconds(cli.wallMs)} s, of which ${inSeconds(cli.loadMs)} s loading the model`,
  );
  return { ours: run.wallMs, theirs: cli.wallMs };
}

/** Measures how long requests take during a transcription. It is separate from the comparison, because requests cost time. */
async function reportLatency({ shruti, model }: Sides, wav: string): Promise<void> {
  const uploadId = await shruti.upload(wav);
  const latencies: number[] = [];
  let isDone = false;
  const asking = (async () => {
    while (!isDone) {
      await Bun.sleep(GET_EVERY_MS);
      latencies.push(await shruti.timeGet(shruti.lastId()));
    }
  })();
  await shruti.transcribe(uploadId, model);
  isDone = true;
  await asking;
  console.log(
    `  GET while transcribing: ${latencies.length} requests, median ${median(latencies).toFixed(1)} ms, ` +
      `p99 ${percentile(latencies, 0.99).toFixed(1)} ms (goal ≤ 20)`,
  );
}

function report(run: ShrutiRun, before: CpuSeconds, after: CpuSeconds): void {
  const { wallMs, preparingMs, transcribingMs, finalizingMs, segments } = run;
  console.log(
    `    Shruti ${inSeconds(wallMs)} s: preparing ${inSeconds(preparingMs)}, transcribing ${inSeconds(transcribingMs)}, ` +
      `finalizing ${inSeconds(finalizingMs)}; ${segments} segments; ${spentBy(before, after, wallMs)}`,
  );
}

/** CPU seconds of the process that recognizes, in the last measurement. */
let busiest = 0;

/** Divides the processor time between processes. The busiest worker process is the one that recognizes. */
function spentBy(before: CpuSeconds, after: CpuSeconds, wallMs: number): string {
  const workers = [...after.workers].map(([pid, seconds]) => seconds - (before.workers.get(pid) ?? 0));
  const decoder = Math.max(...workers);
  busiest = decoder;
  const speech = workers.reduce((sum, seconds) => sum + seconds, 0) - decoder;
  const server = after.server - before.server;
  const percent = (part: number, whole: number) => `${((part / whole) * 100).toFixed(1)} %`;
  return (
    `CPU s: decoder ${decoder.toFixed(2)}, speech detector ${speech.toFixed(2)}, server and decoders ` +
    `${server.toFixed(2)}, so around the decoder ${percent(speech + server, speech + server + decoder)}; ` +
    `the decoder had ${percent(decoder * 1000, wallMs * threads)} of the machine`
  );
}

async function fourAtOnce({ shruti, peers, model, files }: Sides): Promise<Pair> {
  const uploads = [];
  for (const wav of files.quarters) uploads.push(await shruti.upload(wav));
  const before = shruti.cpuSeconds();
  const runs = await Promise.all(uploads.map((id) => shruti.transcribe(id, model)));
  const ours = Math.max(...runs.map(({ wallMs }) => wallMs));
  console.log(`    ${spentBy(before, shruti.cpuSeconds(), ours)}`);
  let theirs = 0;
  for (const wav of files.quarters) theirs += (await runWhisperCli(peers, wav)).wallMs;
  return { ours, theirs };
}

async function eightAtOnce({ shruti, peers, model, files }: Sides): Promise<Pair> {
  const timed = async (one: () => Promise<string>) => {
    await one();
    const startedMs = performance.now();
    await Promise.all(Array.from({ length: SYNCHRONOUS }, one));
    return performance.now() - startedMs;
  };
  const ours = await timed(() => shruti.transcribeNow(files.short, model));
  const server = await startWhisperServer(peers, PORTS.server);
  try {
    return { ours, theirs: await timed(() => server.transcribe(files.short)) };
  } finally {
    await server.stop();
  }
}

/** Compares recordings that arrive at once with the same recordings one after the other. */
async function atOnceAndInTurn({ shruti, model }: Sides, wavs: readonly string[]): Promise<Pair> {
  const uploads: string[] = [];
  for (const wav of wavs) uploads.push(await shruti.upload(wav));
  let ours = 0;
  const { share, waitedMs } = await shareWhileWaiting(shruti, async () => {
    const runs = await Promise.all(uploads.map((id) => shruti.transcribe(id, model)));
    ours = Math.max(...runs.map(({ wallMs }) => wallMs));
  });
  let theirs = 0;
  for (const id of uploads) theirs += (await shruti.transcribe(id, model)).wallMs;
  const had = share === undefined ? "chunks did not wait" : `${(share * 100).toFixed(1)} % of the machine`;
  console.log(`    while chunks waited, ${inSeconds(waitedMs)} s, the recognizer had ${had}`);
  return { ours, theirs };
}

/** Compares synchronous requests beside background chunks that share steps with those beside chunks that do not. */
async function besideLoad({ shruti, unshared, model, files }: Sides): Promise<Pair> {
  if (!unshared) throw new Error("case g needs a second server");
  const requests = { wav: files.short, model, count: REQUESTS };
  const idle = await timeRequests(shruti, requests);
  const beside = async (server: Shruti) => {
    const load = await server.upload(files.load);
    return besideFullLoad(server, { load, model }, () => timeRequests(server, requests));
  };
  const ours = await beside(shruti);
  const theirs = await beside(unshared);
  const row = (times: readonly number[]) =>
    `${inSeconds(median(times))} (${inSeconds(Math.min(...times))} to ${inSeconds(Math.max(...times))}) s`;
  const ofIdle = (times: readonly number[]) =>
    `${row(times)}, ${(median(times) / median(idle)).toFixed(2)} of idle`;
  console.log(
    `    a request of ${SHORT_SECONDS} s: idle ${row(idle)}; beside shared steps ${ofIdle(ours)}; ` +
      `beside steps of each ${ofIdle(theirs)}`,
  );
  return { ours: median(ours), theirs: median(theirs) };
}

async function benchModel(name: string, sides: Sides): Promise<void> {
  console.log(`${name}:`);
  const { files } = sides;
  await measure("a dense speech", "≤ 1.00", () => longRecording(sides, files.dense));
  await measure("b half silence", "≤ 0.60", () => longRecording(sides, files.silent));
  await measure("c four at once", "≤ 0.90", () => fourAtOnce(sides));
  await measure("d eight synchronous", "≤ 0.83 of the time", () => eightAtOnce(sides));
  await measure("g synchronous beside full load", "≤ 1.10", () => besideLoad(sides));
  for (const { seconds: length, wavs } of files.byLength) {
    const [first = ""] = wavs;
    await measure(`e alone, ${length} s`, "≤ 1.00", () => longRecording(sides, first));
    await measure(`f four of ${length} s at once`, "≤ 1.00 of one after the other", () =>
      atOnceAndInTurn(sides, wavs),
    );
  }
  if (options.cases.includes("a")) await reportLatency(sides, files.dense);
}

/** The code for this kind of processor that Shruti uses. */
function processorCode(home: string): string {
  const config = join(home, "shruti.toml");
  const { stdout } = Bun.spawnSync([resolve(options.executable), "doctor", "--config", config], {
    env: programEnvironment(),
  });
  return /processor code (\w+)/.exec(stdout.toString())?.[1] ?? "unknown";
}

/** Prints what the recognizer reached of the processor's peak, from its CPU seconds for a length of dense speech. */
function shareReporter(id: string, { floats, shorts, bf16, tiles }: Peak): (cpuSeconds: number) => void {
  const made = readBenchModelName(id);
  if (made === undefined) return () => {};
  const operations =
    Math.ceil(seconds / WINDOW_SECONDS) * windowOperations(made.shape, Number(options.words));
  const peaks = Object.entries({
    "of floats": floats,
    "of numbers of 16 bits": shorts,
    "of bf16 in vectors": bf16,
    "of bf16 in tiles": tiles,
  });
  return (cpuSeconds) => {
    const reached = operations / cpuSeconds / 1e9;
    const shares = peaks.flatMap(([what, of]) =>
      of ? `${((reached / of) * 100).toFixed(0)} % ${what}` : [],
    );
    console.log(`    ${reached.toFixed(0)} GF/s; of the peak: ${shares.join(", ")}`);
  };
}
let reportShare: (cpuSeconds: number) => void = () => {};

await runBench("engine", { names: options.models, words: Number(options.words) }, async (bench) => {
  const { models } = bench;
  const files = makeFiles(bench);
  console.log(`${threads} × ${cpus()[0]?.model ?? "?"}, load ${load()}, ${seconds} s, ${rounds} rounds`);
  const start = async (name: string, port: number, environment: Record<string, string>) => {
    const executable = resolve(options.executable);
    const given = { executable, folder: bench.subfolder(name), port, synchronousWorkers: SYNCHRONOUS };
    return bench.keep(await startShruti({ ...given, environment }, models));
  };
  const shruti = await start("home", PORTS.shruti, {});
  const unshared = options.cases.includes("g")
    ? await start("unshared", PORTS.unshared, { SHRUTI_ENGINE_WORKERS: String(threads) })
    : undefined;
  const peak = measurePeak(bench.folder);
  const code = processorCode(join(bench.folder, "home"));
  console.log(`processor code ${code}; one thread does ${JSON.stringify(peak)} GF/s at best`);
  for (const { id, path } of models) {
    // Both sides load the model once before the measurement. Shruti loads only its default model in advance.
    for (const server of [shruti, unshared]) await server?.transcribeNow(files.short, id);
    const peers = { folder: bench.peersFolder, model: path, threads };
    reportShare = shareReporter(id, peak);
    await benchModel(id, { shruti, unshared, peers, model: id, files });
  }
});
