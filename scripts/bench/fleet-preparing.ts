import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { installFleet, workersPresent } from "../../src/e2e/fleet-kit.ts";
import { type RunningServer, uploaded } from "../../src/e2e/kit.ts";
import { descendantsOf } from "../../src/e2e/processes.ts";
import { concatenated } from "../../src/e2e/samples.ts";
import { encodeFormat } from "../../src/testing/makers/audio-makers.ts";

/**
 * Measures what preparing on workers saves the control plane: the processor time of `shruti serve` with all its child
 * processes, from the acceptance of a transcription to its end, for an hour of audio in each format.
 *
 *     bun scripts/bench/fleet-preparing.ts [--minutes 20]
 *
 * Verification of the upload comes before that and is printed on its own. The worker runs on the same machine, and its
 * processor time is not counted.
 */
const { values } = parseArgs({ options: { minutes: { type: "string", default: "20" } } });
const SECONDS_OF_SAMPLE = 10;
const MS_PER_TICK = 10;
const ASK_EVERY_MS = 1_000;
const FORMATS = [
  { name: "a.mp3", encoder: "libmp3lame", options: ["-ac", "1", "-b:a", "64k"] },
  { name: "a.ogg", encoder: "libopus", options: ["-ac", "1", "-b:a", "32k"] },
  { name: "a.m4a", encoder: "aac", options: ["-ac", "1", "-b:a", "64k"] },
];

/** Returns the processor time of a process, its descendants, and its children that have ended, in seconds. */
function processorSeconds(pid: number): number {
  let ticks = 0;
  for (const each of [pid, ...descendantsOf(pid)]) {
    try {
      const text = readFileSync(`/proc/${each}/stat`, "utf8");
      const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
      for (const field of [11, 12, 13, 14]) ticks += Number(fields[field]);
    } catch {
      // It ended a moment ago: its parent has its time.
    }
  }
  return (ticks * MS_PER_TICK) / 1000;
}

async function measure(
  server: RunningServer,
  audio: Uint8Array<ArrayBuffer>,
): Promise<{ verify: number; work: number }> {
  const api = server.api();
  const before = processorSeconds(server.pid);
  const upload_id = await uploaded(api, audio);
  const between = processorSeconds(server.pid);
  const { body } = await api.start({ audio: { upload_id }, language: "en" });
  // Seldom, because each question costs the server a little.
  while ((await api.get(body.id)).finished_at === null) await Bun.sleep(ASK_EVERY_MS);
  return { verify: between - before, work: processorSeconds(server.pid) - between };
}

const fleet = await installFleet({ creditPaise: 100_000_000 });
try {
  const server = await fleet.serve();
  const [preparing, other] = [await fleet.addWorker("one"), await fleet.addWorker("two")];
  appendFileSync(join(preparing.folder, "shruti.toml"), "preparing_places = 1\n");
  const minutes = Number(values.minutes);
  const wav = concatenated(["04-en"], Math.ceil((minutes * 60) / SECONDS_OF_SAMPLE));
  for (const member of [preparing, other]) {
    member.start();
    await server.ready();
    await workersPresent(fleet, 1);
    // The first recording loads models and starts processes, which no later one does.
    await measure(server, concatenated(["04-en"], 2));
    for (const format of FORMATS) {
      const path = encodeFormat(fleet.folder, wav, { ...format, channels: 1, toleranceMs: 100 });
      const { verify, work } = await measure(server, new Uint8Array(readFileSync(path)));
      const anHour = (seconds: number) => `${((seconds * 60) / minutes).toFixed(1)} s`;
      const where = member === preparing ? "on the worker" : "on the control plane";
      console.log(
        `${format.encoder}: prepared ${where}: ${anHour(work)} of the control plane's processors an hour; verification ${anHour(verify)}`,
      );
    }
    member.stop();
    await member.exited();
  }
  console.log(JSON.stringify((await fleet.fleet()).preparations));
  await server.stop();
} finally {
  await fleet.remove();
}
