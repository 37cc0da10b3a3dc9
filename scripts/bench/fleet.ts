/**
 * Measures what a fleet costs, with Debian's messaging server and workers whose recognition only waits:
 *
 *     bun scripts/bench/fleet.ts [--places 64] [--engine-ms 1000] [--chunks 1280]
 *
 * It prints the overhead of one chunk in an idle fleet, and how busy the places are under load, with the processor time of
 * the control plane for each chunk, its memory after each quarter of the chunks, and the longest pause of its event loop, also
 * without the time in which other programs had the processors.
 * The control plane, the messaging server and the workers are processes of their own. The part of the control plane's
 * process that makes chunks and waits for them is measured alone, and subtracted.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { InstalledModel } from "../../src/domain/model.ts";
import type { ChunkJob } from "../../src/engine/protocol.ts";
import type { Fleet } from "../../src/fleet/control/open-fleet.ts";
import { sha256Hex } from "../../src/lib/sha256.ts";
import { openControlOf, openFleetWorld } from "../../src/testing/kits/fleet-harness.ts";

const { values } = parseArgs({
  options: {
    places: { type: "string", default: "64" },
    "engine-ms": { type: "string", default: "1000" },
    chunks: { type: "string", default: "1280" },
    worker: { type: "string" },
    control: { type: "string" },
    folder: { type: "string" },
  },
});
const PLACES_PER_WORKER = 16;
const SAMPLES = 480_000;
/** Speech of which a chunk consists, with pauses between that are left out, and the samples of all. */
const SLICES = 4;
const SPAN = 600_000;
const MOST_IDLE_CHUNKS = 50;
const IDLE_MS = 20_000;
/** Pauses of the event loop are measured with a timer of this interval. */
const TICK_MS = 5;
/** The control plane is observed without work for this long. */
const SILENCE_MS = 5_000;
const QUARTERS = 4;

const folder = values.folder ?? mkdtempSync(join(tmpdir(), "shruti-fleet-bench-"));
const pcmPath = join(folder, "audio.pcm");
const model = modelIn(folder);

function modelIn(directory: string): InstalledModel {
  const weights = join(directory, "weights.bin");
  writeFileSync(weights, "weights");
  return {
    ...{ id: "m", name: "m", version: "1", family: "whisper", sha256: sha256Hex("weights"), bytes: 1 },
    ...{ languages: [], licence: "none", source: "", decoding: {}, files: { weights }, embedded: false },
  };
}

type WorkerSpec = {
  places: number;
  engineMs: number;
  servers: string[];
  name: string;
  ca: string;
  seed: string;
};

/** Runs as a worker that waits instead of recognizing. */
async function work(spec: WorkerSpec) {
  const [{ openWorker }, { silentLog }] = await Promise.all([
    import("../../src/fleet/worker/open-worker.ts"),
    import("../../src/lib/log.ts"),
  ]);
  const segment = {
    startMs: 0,
    endMs: 4_800,
    text: "एक वाक्य जो पाँच सेकंड तक चलता है",
    language: "hi",
    confidence: 0.9,
  };
  openWorker({
    ...{ servers: spec.servers, fleet: "main", worker: spec.name, ca: spec.ca, seed: spec.seed },
    executor: {
      capacity: () => ({ chunks: spec.places, power: 1, isElastic: false }),
      async recognize() {
        await Bun.sleep(spec.engineMs);
        return { segments: Array.from({ length: 6 }, () => segment), workMs: spec.engineMs };
      },
      warm: async () => {},
    },
    installed: () => [model],
    sha256OfFile: async () => model.sha256,
    ...{ device: () => "none", placesAhead: 0, synchronousPlaces: 0, log: silentLog, version: "bench" },
  });
}

/** Makes a fleet, and starts its workers and its control plane as processes of their own. */
async function bench(): Promise<void> {
  const places = Number(values.places);
  const world = await openFleetWorld();
  const children: Bun.Subprocess[] = [];
  const start = (argument: string, spec: object) => {
    const args = [
      process.execPath,
      import.meta.path,
      ...process.argv.slice(2),
      argument,
      JSON.stringify(spec),
    ];
    const child = Bun.spawn(args, { stdin: "ignore", stdout: "inherit", stderr: "inherit" });
    children.push(child);
    return child;
  };
  try {
    const specs: WorkerSpec[] = [];
    for (let n = 0; n * PLACES_PER_WORKER < places; n++) {
      const name = `w${n}`;
      await (await world.openWorker(name, { executor: idle, installed: () => [] })).close();
      const own = Math.min(PLACES_PER_WORKER, places - n * PLACES_PER_WORKER);
      specs.push({
        ...{ places: own, engineMs: Number(values["engine-ms"]), name },
        ...{ servers: world.addresses, ca: world.caText(), seed: world.seedOf(name) },
      });
    }
    for (const spec of specs) start("--worker", spec);
    const { dataDir, addresses, audioPort } = world;
    await start("--control", { dataDir, addresses, audioPort }).exited;
  } finally {
    for (const child of children) child.kill("SIGKILL");
    await world.close();
    rmSync(folder, { recursive: true });
  }
}

/** Runs as the control plane: makes chunks, waits for them and prints what that took. */
async function control(spec: Parameters<typeof openControlOf>[0]): Promise<void> {
  writeFileSync(pcmPath, new Uint8Array(2 * SPAN));
  const [places, engineMs, chunks] = [values.places, values["engine-ms"], values.chunks].map(Number) as [
    number,
    number,
    number,
  ];
  const idleChunks = Math.min(MOST_IDLE_CHUNKS, Math.ceil(IDLE_MS / engineMs));
  const fleet = openControlOf(spec);
  while (fleet.engine.capacity(model).chunks < places) await Bun.sleep(50);
  await Bun.sleep(1_500);
  const idleTimes: number[] = [];
  for (let n = 0; n < idleChunks; n++) {
    const startedAt = performance.now();
    await recognize(fleet.engine, n);
    idleTimes.push(performance.now() - startedAt - engineMs);
  }
  idleTimes.sort((a, b) => a - b);
  const idleCpu = process.cpuUsage();
  await Bun.sleep(SILENCE_MS);
  const { user, system } = process.cpuUsage(idleCpu);
  const ownCpuMs = (await load(instantly, { first: 0, chunks, places })).cpuMs;
  const { elapsedMs, cpuMs, memoryMb, longestPauseMs, longestBusyMs } = await load(fleet.engine, {
    ...{ first: idleChunks, chunks, places },
  });
  const busy = (chunks * engineMs) / (elapsedMs * places);
  console.log(
    JSON.stringify({
      places,
      engine_ms: engineMs,
      chunks,
      idle_overhead_ms: {
        median: round(idleTimes[idleChunks >> 1]),
        p90: round(idleTimes[Math.floor(idleChunks * 0.9)]),
      },
      idle_cpu_ms_per_second: round((user + system) / SILENCE_MS),
      busy_percent: round(busy * 100),
      cpu_ms_per_chunk: round((cpuMs - ownCpuMs) / chunks),
      memory_mb: memoryMb,
      longest_pause_ms: round(longestPauseMs),
      longest_pause_with_processor_ms: round(longestBusyMs),
      status: fleet.status().tickets,
    }),
  );
  await fleet.engine.close();
}

const idle = {
  capacity: () => ({ chunks: 1, power: 1, isElastic: false }),
  recognize: () => new Promise<never>(() => {}),
  warm: async () => {},
};
const round = (value = 0) => Math.round(value * 10) / 10;

type Recognizer = Pick<Fleet["engine"], "recognize">;
/** Does nothing, so that only this program's own work is measured. */
const instantly: Recognizer = {
  recognize: async () => ({ segments: [], workMs: 0 }),
};

/** Keeps all places busy with this many chunks. */
async function load(
  engine: Recognizer,
  { first, chunks, places }: { first: number; chunks: number; places: number },
) {
  const memoryMb: number[] = [];
  let longestPauseMs = 0;
  let longestBusyMs = 0;
  let tickedAt = performance.now();
  let tickedCpu = process.cpuUsage();
  const ticks = setInterval(() => {
    const now = performance.now();
    const { user, system } = process.cpuUsage(tickedCpu);
    longestPauseMs = Math.max(longestPauseMs, now - tickedAt - TICK_MS);
    // Without the processors the process could not react either, which is not its own doing.
    longestBusyMs = Math.max(longestBusyMs, Math.min(now - tickedAt - TICK_MS, (user + system) / 1000));
    tickedAt = now;
    tickedCpu = process.cpuUsage();
  }, TICK_MS);
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  let begun = 0;
  let ended = 0;
  await Promise.all(
    Array.from({ length: places }, async () => {
      while (begun < chunks) {
        await recognize(engine, first + begun++);
        if (++ended % Math.ceil(chunks / QUARTERS) === 0 || ended === chunks)
          memoryMb.push(Math.round(process.memoryUsage().rss / 1e6));
      }
    }),
  );
  clearInterval(ticks);
  const { user, system } = process.cpuUsage(cpu);
  const elapsedMs = performance.now() - startedAt;
  return { elapsedMs, cpuMs: (user + system) / 1000, memoryMb, longestPauseMs, longestBusyMs };
}

async function recognize(engine: Recognizer, n: number): Promise<void> {
  const samples = SAMPLES / SLICES;
  const slices = Array.from({ length: SLICES }, (_, slice) => {
    return { sourceStartSample: (slice * SPAN) / SLICES, samples, targetStartSample: slice * samples };
  });
  const job: ChunkJob = {
    ...{ model, windowMs: 30_000, settings: { language: `x${n}` }, sharers: 1, isAlone: false },
    audio: { pcmPath, slices, totalSamples: SAMPLES },
  };
  const outcome = await engine.recognize(job, new AbortController().signal);
  outcome.onStored?.();
}

if (values.worker !== undefined) {
  await work(JSON.parse(values.worker) as WorkerSpec);
} else if (values.control !== undefined) {
  await control(JSON.parse(values.control) as Parameters<typeof openControlOf>[0]);
  process.exit(0);
} else {
  await bench();
  process.exit(0);
}
