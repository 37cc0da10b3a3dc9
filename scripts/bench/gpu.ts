/**
 * Measures on a GPU what it brings that several chunks make their decoding steps together.
 *
 *   scripts/build-backend.sh vulkan
 *   bun scripts/bench/gpu.ts --backend dist/backends/libggml-vulkan.so [--executable dist/shruti] [--rounds 3]
 *                            [--models bench-turbo,bench-base-q5_0] [--words 96] [--chunks auto,16]
 *                            [--recordings 4] [--seconds 600] [--load-seconds 3600]
 *
 * In each round, servers run one after the other on the free GPU: one whose chunks make steps of their own
 * (`shared_steps = "cpu"`), and one whose chunks share steps for each value of `--chunks` (`engine.workers`). Each
 * recognizes `--recordings` recordings of dense speech at once (`--load-seconds 0`: nothing else), and then synchronous
 * requests of 10 s, one after the other, alone and beside background chunks that fill all places. Prints each time, and
 * the medians against chunks with steps of their own. Models are generated (engine/shapes.ts), or `bench-demo`. The peak
 * of the card's memory is not measured; watch it with the card's own program.
 */
import { basename, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { repeated } from "./engine/audio.ts";
import { type Bench, runBench } from "./engine/bench.ts";
import { besideFullLoad, timeRequests } from "./engine/beside-load.ts";
import { type PreparedShruti, prepareShruti, type Shruti, serveShruti } from "./engine/shruti.ts";
import { median } from "./median.ts";

const ROOT = join(import.meta.dirname, "../..");
const PORT = 18_434;
const REQUEST_SECONDS = 10;
const REQUESTS = 6;

const { values: options } = parseArgs({
  options: {
    backend: { type: "string" },
    executable: { type: "string", default: join(ROOT, "dist/shruti") },
    rounds: { type: "string", default: "3" },
    models: { type: "string", default: "bench-turbo,bench-base-q5_0" },
    words: { type: "string", default: "96" },
    chunks: { type: "string", default: "auto,16" },
    recordings: { type: "string", default: "4" },
    seconds: { type: "string", default: "600" },
    "load-seconds": { type: "string", default: "3600" },
  },
});
const [rounds, recordings, seconds, loadSeconds] = [
  options.rounds,
  options.recordings,
  options.seconds,
  options["load-seconds"],
].map(Number) as [number, number, number, number];
const device = /^libggml-(\w+)\.so$/.exec(basename(options.backend ?? ""))?.[1];
if (device === undefined) {
  console.error("usage: bun scripts/bench/gpu.ts --backend FOLDER/libggml-vulkan.so [options]");
  process.exit(2);
}

type Variant = { name: string; environment: Record<string, string> };
/** Milliseconds: all recordings at once, requests one after the other on an idle machine, and beside full load. */
type Times = { dense: number; idle: number | undefined; loaded: number | undefined };

const VARIANTS: Variant[] = [
  { name: "steps of each", environment: { SHRUTI_ENGINE_SHARED_STEPS: "cpu" } },
  ...options.chunks.split(",").map((chunks) => ({
    name: `shared steps, ${chunks} chunks`,
    environment: chunks === "auto" ? {} : { SHRUTI_ENGINE_WORKERS: chunks },
  })),
];

const inSeconds = (milliseconds: number | undefined) =>
  milliseconds === undefined ? "not measured" : `${(milliseconds / 1000).toFixed(2)} s`;

function makeFiles({ speech, write, several }: Bench) {
  return {
    dense: several("dense", recordings, seconds),
    request: write("request.wav", repeated(speech, REQUEST_SECONDS)),
    load: loadSeconds > 0 ? write("load.wav", repeated(speech, loadSeconds)) : undefined,
  };
}

type Files = ReturnType<typeof makeFiles>;

async function measureServer(shruti: Shruti, model: string, files: Files): Promise<Times> {
  // Loads the model, and lets the driver compile what it compiles at first use.
  await shruti.transcribeNow(files.request, model);
  const uploads: string[] = [];
  for (const wav of files.dense) uploads.push(await shruti.upload(wav));
  await Promise.all(uploads.slice(0, 2).map((id) => shruti.transcribe(id, model)));
  const runs = await Promise.all(uploads.map((id) => shruti.transcribe(id, model)));
  const dense = Math.max(...runs.map(({ wallMs }) => wallMs));
  if (files.load === undefined) return { dense, idle: undefined, loaded: undefined };
  const requests = { wav: files.request, model, count: REQUESTS };
  const idle = median(await timeRequests(shruti, requests));
  const load = await shruti.upload(files.load);
  const loaded = await besideFullLoad(shruti, { load, model }, () => timeRequests(shruti, requests));
  return { dense, idle, loaded: median(loaded) };
}

function printMedians(times: ReadonlyMap<string, Times[]>): void {
  const middle = (name: string, of: (times: Times) => number | undefined): number | undefined => {
    const known = (times.get(name) ?? []).map(of).filter((value) => value !== undefined);
    return known.length > 0 ? median(known) : undefined;
  };
  const own = middle(VARIANTS[0]?.name ?? "", ({ dense }) => dense) ?? Number.NaN;
  for (const { name } of VARIANTS) {
    const dense = middle(name, (one) => one.dense) ?? Number.NaN;
    console.log(
      `  ${name}: ${inSeconds(dense)}, ${((recordings * seconds * 1000) / dense).toFixed(1)} times real time, ` +
        `${(dense / own).toFixed(2)} of the time of steps of each; a request of ${REQUEST_SECONDS} s: idle ` +
        `${inSeconds(middle(name, (one) => one.idle))}, beside full load ${inSeconds(middle(name, (one) => one.loaded))}`,
    );
  }
}

await runBench("gpu", { names: options.models, words: Number(options.words) }, async (bench) => {
  const files = makeFiles(bench);
  const home = bench.subfolder("home");
  const given = { executable: resolve(options.executable), folder: home, port: PORT, synchronousWorkers: 1 };
  const backend = resolve(options.backend ?? "");
  const prepared: PreparedShruti = prepareShruti({ ...given, backend }, bench.models);
  for (const { id } of bench.models) {
    console.log(`${id}: ${recordings} recordings of ${seconds} s at once, on ${device}`);
    const times = new Map<string, Times[]>();
    for (let round = 0; round < rounds; round++) {
      for (const { name, environment } of VARIANTS) {
        const settings = { SHRUTI_ENGINE_DEVICE: device, SHRUTI_MODELS_DEFAULT: id, ...environment };
        const server = bench.keep(await serveShruti({ ...given, environment: settings }, prepared));
        const found = await measureServer(server, id, files);
        await server.stop();
        times.set(name, [...(times.get(name) ?? []), found]);
        const { dense, idle, loaded } = found;
        console.log(
          `    ${name}: ${inSeconds(dense)}; request idle ${inSeconds(idle)}, loaded ${inSeconds(loaded)}`,
        );
      }
    }
    printMedians(times);
  }
});
