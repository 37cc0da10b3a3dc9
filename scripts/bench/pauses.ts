import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { systemClock } from "../../src/lib/clock.ts";
import { createRowCheckpoint } from "../../src/scheduler/row-checkpoint.ts";
import { createGroupCommit } from "../../src/store/group-commit.ts";
import { findTranscription, moveTranscription } from "../../src/store/transcriptions.ts";
import { openTestApp, type TestAppOptions } from "../../src/testing/kits/open-test-app.ts";
import { clientOf, forever } from "../../src/testing/kits/scheduler-kit.ts";
import { createScriptedEngine, scriptedAudio } from "../../src/testing/kits/scripted-engine.ts";
import { round, TICK_MS, watchPauses } from "./watch-pauses.ts";

/**
 * Measures how long the event loop of a control plane is held at most, with recordings of an hour that wait and a decoder
 * that never ends:
 *
 *     bun scripts/bench/pauses.ts [--places 512] [--recordings 600] [--chunks 3000]
 *
 * when the chunks of a long recording are stored and read, and given new attempts after a start; when a fleet brings places;
 * and when the program starts again with as much work unfinished. The longest allowed recording has 120,000 chunks.
 */
const { values } = parseArgs({
  options: {
    places: { type: "string", default: "512" },
    recordings: { type: "string", default: "600" },
    chunks: { type: "string", default: "3000" },
  },
});
const [places, recordings, chunkCount] = [values.places, values.recordings, values.chunks].map(Number) as [
  number,
  number,
  number,
];
const HOUR_SECONDS = 3_600;
const ROUNDS = 5;

/** Says how long work takes, and how long it holds the event loop at most. */
async function pausesOf(what: string, work: () => Promise<unknown>): Promise<void> {
  await Bun.sleep(10 * TICK_MS);
  const ended = watchPauses();
  const began = performance.now();
  await work();
  const took = round(performance.now() - began);
  console.log(JSON.stringify({ what, count: chunkCount, took, ...ended() }));
}

const directory = mkdtempSync(join(tmpdir(), "shruti-pauses-"));
const capacity = { chunks: places, power: places, isElastic: false };

/** Opens the program. Decoding never ends, because all those recordings would fill the disk. */
async function open(options: TestAppOptions = {}) {
  const engine = createScriptedEngine();
  engine.interfere({ decode: (_job, signal) => forever(signal) });
  const config = { engine: { workers: 1 }, server: { drain_seconds: 0 } };
  return openTestApp({ directory, engine, config, ...options });
}

async function untilRunning(app: Awaited<ReturnType<typeof open>>["app"], count: number): Promise<void> {
  while (app.scheduler.status().running < count) await Bun.sleep(TICK_MS);
}

try {
  const first = await open({ creditPaise: 1_000_000_000 });
  const client = clientOf(first);
  const { id: upload } = await client.upload(scriptedAudio({ seconds: HOUR_SECONDS, text: "एक" }));
  let last = "";
  for (let n = 0; n < recordings; n++)
    last = (await client.start({ audio: { upload_id: upload }, language: "hi" })).body.id;
  const { store } = first.app.database;
  const chunks = Array.from({ length: chunkCount }, (_, n) => ({
    ...{ channel: 0, startMs: n * 30_000, endMs: (n + 1) * 30_000, speechMs: 28_000 },
    regions: Array.from({ length: 5 }, (_, k) => {
      const startSample = n * 480_000 + k * 90_000;
      return { startSample, endSample: startSample + 80_000 };
    }),
  }));
  const outline = { peakSamples: 160, lanes: [new Uint8Array(1_000)], points: new Uint8Array(1) };
  const preparation = { warnings: [], totalMs: chunkCount * 30_000, outline };
  const never = new AbortController().signal;
  for (let n = 0; n < ROUNDS; n++) {
    const save = async (what: string, more: object) => {
      moveTranscription(store, last, "claim", 1);
      const row = findTranscription(store, last);
      if (!row) throw new Error("the transcription is gone");
      const checkpoint = createRowCheckpoint(
        first.app.database,
        row,
        createGroupCommit(first.app.database),
        systemClock,
      );
      await pausesOf(what, () => checkpoint.savePreparation({ ...preparation, ...more }, never));
      await pausesOf(`${what}, read`, checkpoint.chunks);
      moveTranscription(store, last, "requeue", 1);
    };
    await save("chunks", { chunks });
    await save("chunks of an earlier run", {});
  }
  first.app.services.transcriptions.cancelById(last);

  const ended = watchPauses();
  const began = performance.now();
  first.app.scheduler.resize(capacity);
  await untilRunning(first.app, Math.min(places, recordings));
  const took = round(performance.now() - began);
  console.log(JSON.stringify({ what: "places come", places, recordings, took, ...ended() }));
  await first.close();

  const endedAgain = watchPauses();
  const beganAgain = performance.now();
  const second = await open();
  second.app.scheduler.resize(capacity);
  await untilRunning(second.app, Math.min(places, recordings));
  const tookAgain = round(performance.now() - beganAgain);
  console.log(JSON.stringify({ what: "a start", took: tookAgain, ...endedAgain() }));
  await second.close();
} finally {
  rmSync(directory, { recursive: true });
}
process.exit(0);
