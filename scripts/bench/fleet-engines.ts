import { availableParallelism, loadavg } from "node:os";
import { type FleetInstallation, installFleet, workersPresent } from "../../src/e2e/fleet-kit.ts";
import { reached, uploaded } from "../../src/e2e/kit.ts";
import { concatenated, secondsOf } from "../../src/e2e/samples.ts";

/**
 * Compares two workers of one thread each with one worker of two, on the executable with the demonstration model: the time
 * for one recording, and whether the text is the same. Usage: `bun scripts/bench/fleet-engines.ts [ROUNDS]`.
 */

const ROUNDS = Number(process.argv[2] ?? 3);
const SAMPLE = "12-en-long";
const REPETITIONS = 6;
const ENDS_WITHIN_MS = 600_000;

type Layout = { machines: number; processes: number; threads: number };
const LAYOUTS: Layout[] = [
  { machines: 2, processes: 1, threads: 1 },
  { machines: 1, processes: 1, threads: 2 },
  { machines: 1, processes: 2, threads: 1 },
];

async function open({ machines, processes, threads }: Layout): Promise<FleetInstallation> {
  const fleet = await installFleet({
    workerEnvironment: {
      SHRUTI_ENGINE_WORKERS: String(processes),
      SHRUTI_ENGINE_THREADS_PER_WORKER: String(threads),
    },
  });
  for (let n = 0; n < machines; n++) (await fleet.addWorker(`worker-${n}`)).start();
  return fleet;
}

async function measure(layout: Layout): Promise<{ seconds: number[]; text: string }> {
  const fleet = await open(layout);
  try {
    const server = await (await fleet.serve()).ready();
    await workersPresent(fleet, layout.machines);
    const api = server.api();
    const upload = await uploaded(api, concatenated([SAMPLE], REPETITIONS));
    const seconds: number[] = [];
    let text = "";
    for (let round = 0; round <= ROUNDS; round++) {
      const startedAt = performance.now();
      const { body } = await api.start({ audio: { upload_id: upload }, language: "en" });
      await reached(api, body.id, undefined, ENDS_WITHIN_MS);
      // The first one loads the model.
      if (round > 0) seconds.push(Number(((performance.now() - startedAt) / 1000).toFixed(2)));
      text = (await api.result(body.id)).text;
    }
    await server.stop();
    return { seconds, text };
  } finally {
    await fleet.remove();
  }
}

const audioSeconds = Math.round(secondsOf(SAMPLE) * REPETITIONS);
console.log(`${availableParallelism()} cores, ${audioSeconds} s of audio`);
let first: string | undefined;
for (const layout of LAYOUTS) {
  const { seconds, text } = await measure(layout);
  first ??= text;
  const load = loadavg().map((value) => value.toFixed(0));
  console.log(
    JSON.stringify({ ...layout, seconds, load, isSameText: text === first, characters: text.length }),
  );
}
