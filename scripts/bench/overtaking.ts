import { availableParallelism, loadavg } from "node:os";
import { install, reached, uploaded } from "../../src/e2e/kit.ts";
import { sampleSound, wavOf } from "../../src/e2e/sounds.ts";

/**
 * Measures how long a recording of a minute takes behind long ones of the same organization, and when it is alone, on the
 * executable with the demonstration model, and how much audio is recognized per second with and without such recordings.
 * Usage: `bun scripts/bench/overtaking.ts [LONG_COUNT] [LONG_MINUTES] [TIMES]`.
 */

const LONG_COUNT = Number(process.argv[2] ?? 8);
const LONG_MINUTES = Number(process.argv[3] ?? 180);
const TIMES = Number(process.argv[4] ?? 5);

const installation = await install({ environment: { SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0" } });
const server = await (await installation.serve()).ready();
try {
  const api = server.api();
  const minute = await uploaded(api, wavOf(lengthened(60)));
  const run = async (uploadId: string) => {
    const begin = performance.now();
    const { id } = (await api.start({ audio: { upload_id: uploadId }, language: "en" })).body;
    const { state } = await reached(api, id);
    if (state !== "completed") throw new Error(`${id} ended ${state}`);
    return (performance.now() - begin) / 1000;
  };
  await run(minute);
  const alone = await times(() => run(minute));

  const long = await uploaded(api, wavOf(lengthened(LONG_MINUTES * 60)));
  const ids: string[] = [];
  for (let count = 0; count < LONG_COUNT; count++)
    ids.push((await api.start({ audio: { upload_id: long }, language: "en" })).body.id);
  await reached(api, ids[0] ?? "", ["transcribing"], 600_000);
  const recognizedOfLong = async () => {
    const all = await Promise.all(ids.map((id) => api.get(id)));
    return all.reduce((sum, { progress = 0 }) => sum + progress * LONG_MINUTES * 60, 0);
  };
  /** Seconds of audio that are recognized per second while some work is done, with the audio of that work. */
  const rateDuring = async (work: () => Promise<number>) => {
    const before = await recognizedOfLong();
    const begin = performance.now();
    const ownSeconds = await work();
    return ((await recognizedOfLong()) - before + ownSeconds) / ((performance.now() - begin) / 1000);
  };
  await Bun.sleep(5_000);
  const rateWithout = await rateDuring(async () => {
    await Bun.sleep(30_000);
    return 0;
  });
  let behind: number[] = [];
  const rateWith = await rateDuring(async () => {
    behind = await times(() => run(minute));
    return behind.length * 60;
  });

  const load = loadavg().map((value) => value.toFixed(1));
  console.log(`${availableParallelism()} cores, load ${load.join(" ")}; seconds of a recording of a minute`);
  console.table({ alone: summary(alone), [`behind ${LONG_COUNT} of ${LONG_MINUTES} min`]: summary(behind) });
  const rates = [rateWithout, rateWith].map((rate) => rate.toFixed(1));
  console.log(`Audio per second: ${rates[0]} s of the long ones alone, ${rates[1]} s with the short ones.`);
} finally {
  await server.kill();
  await installation.remove();
}

/** Repeats a sample until the recording is this long. */
function lengthened(seconds: number) {
  const { rateHz, channels } = sampleSound("01-en");
  const [sample = new Float32Array()] = channels;
  const samples = new Float32Array(seconds * rateHz);
  for (let at = 0; at < samples.length; at += sample.length)
    samples.set(sample.subarray(0, samples.length - at), at);
  return { rateHz, channels: [samples] };
}

async function times(run: () => Promise<number>): Promise<number[]> {
  const all: number[] = [];
  for (let count = 0; count < TIMES; count++) all.push(await run());
  return all;
}

function summary(seconds: readonly number[]) {
  const sorted = [...seconds].sort((a, b) => a - b);
  const at = (index: number) => Number((sorted[index] ?? 0).toFixed(2));
  return { least: at(0), median: at(sorted.length >> 1), most: at(sorted.length - 1) };
}
