import { Database } from "bun:sqlite";
import { afterEach, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TranscriptionResult } from "../http/wire/schemas.ts";
import { CHUNKS_AT_ONCE } from "../store/chunks.ts";
import { fillDisk, mayMountDisks, unmountDisk } from "../testing/boxes/small-disk.ts";
import { TINY_CTC, tinyRecordings } from "../testing/makers/tiny-ctc.ts";
import { openWitness, type Witness } from "./fleet-faults-kit.ts";
import { emptyLog, heldAt, placeWithSmallDisk } from "./held-server.ts";
import { type Installation, install, type RunningServer, reached, until, uploaded } from "./kit.ts";
import { type Sound, wavOf } from "./sounds.ts";

/**
 * A recording with more chunks than are written at once, on the executable: SIGKILL between two slices, and a disk that is
 * full there or before the result. The server is held with SIGSTOP while a test looks, so that no such moment is missed
 * for the speed of a machine.
 */

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Makes 18 minutes of speech, of which chunks of a second are more than a slice. */
function speech(): Uint8Array<ArrayBuffer> {
  const once = tinyRecordings.flatMap(({ pcm }) => [...pcm]);
  const samples = new Float32Array(16 * once.length);
  for (const index of samples.keys()) samples[index] = (once[index % once.length] ?? 0) / 32_768;
  return wavOf({ rateHz: 16_000, channels: [samples] } satisfies Sound);
}

/** What the database says of a transcription. */
type Progress = {
  state: string;
  chunks: number;
  waiting: number;
  /** Changes whenever a slice is written, deleted, or given new attempts. */
  slices: string | null;
};

type World = {
  installation: Installation;
  server: RunningServer;
  /** Counts the ends of chunks, and charges. */
  witness: Witness;
  /** Starts a transcription of the recording. */
  start(): Promise<string>;
  look(id: string): Progress;
  /** The result of an undisturbed run, without its identifier. */
  expected: Omit<TranscriptionResult, "id">;
};

/** @param megabytes size of the disk with the data directory; left out: it has no disk of its own */
async function openWorld(megabytes?: number): Promise<World> {
  const installation = await install({
    // Sums of floating-point numbers depend on how many threads share them.
    environment: { SHRUTI_ENGINE_THREADS_PER_WORKER: "1", SHRUTI_LIMITS_REQUESTS_PER_SECOND: "0" },
    ...(megabytes === undefined ? {} : { place: placeWithSmallDisk(megabytes) }),
  });
  cleanups.push(installation.remove);
  if (megabytes !== undefined) cleanups.push(() => unmountDisk(installation.dataDir));
  const options = [
    "--id",
    "tiny",
    "--language",
    "en",
    "--features",
    "kaldi",
    "--licence",
    "ours",
    "--default",
  ];
  await installation.output("models", "add", TINY_CTC, ...options);
  const manifest = join(installation.dataDir, "models/tiny.toml");
  const text = readFileSync(manifest, "utf8");
  writeFileSync(manifest, text.replace("[decoding]", "[decoding]\nmax_chunk_seconds = 1"));
  const witness = openWitness(installation.dataDir);
  cleanups.push(witness.close);
  const server = await (await installation.serve()).ready();
  const upload = await uploaded(server.api(), speech());
  const database = new Database(join(installation.dataDir, "shruti.db"), { readonly: true });
  cleanups.push(() => database.close());
  database.run("PRAGMA busy_timeout = 2000");
  const progress = database.query<Progress, [string]>(
    `SELECT state, (SELECT count(*) FROM chunks WHERE transcription_id = t.id) AS chunks,
       (SELECT count(*) FROM chunks WHERE transcription_id = t.id AND state = 'waiting') AS waiting,
       (SELECT group_concat(position || attempt) FROM chunks WHERE transcription_id = t.id
          AND position % ${CHUNKS_AT_ONCE} IN (0, ${CHUNKS_AT_ONCE - 1}) AND state = 'waiting') AS slices
     FROM transcriptions t WHERE id = ?`,
  );
  const world: World = {
    ...{ installation, server, witness },
    async start() {
      const request = { audio: { upload_id: upload }, language: "en" };
      return (await world.server.api().start(request)).body.id;
    },
    look(id) {
      const found = progress.get(id);
      if (!found) throw new Error(`there is no ${id}`);
      return found;
    },
    expected: { segments: [] } as unknown as World["expected"],
  };
  const { id: _, ...expected } = await finished(world, await world.start());
  expect(expected.segments.length).toBeGreaterThan(CHUNKS_AT_ONCE);
  return Object.assign(world, { expected });
}

async function finished({ server }: World, id: string): Promise<TranscriptionResult> {
  const { state } = await reached(server.api(), id, undefined, 120_000);
  expect(state).toBe("completed");
  return await server.api().result(id);
}

/** Checks that a disturbed transcription has become what the undisturbed one is, and has been charged once. */
async function expectUndisturbed(world: World, id: string): Promise<void> {
  const { id: _, ...actual } = await finished(world, id);
  expect(actual).toEqual(world.expected);
  const { installation, witness, server } = world;
  const ends = witness.ends(id);
  expect(ends.length).toBeGreaterThan(CHUNKS_AT_ONCE);
  expect(ends.filter((count) => count !== 1)).toEqual([]);
  expect(witness.charges(id)).toBe(1);
  const { data, credit } = await server.api().usage();
  expect(new Set(data.map(({ amount_paise }) => amount_paise)).size).toBe(1);
  expect(credit.reserved_paise).toBe(0);
  expect((await installation.json<{ ok: boolean }>("credit", "audit")).ok).toBe(true);
}

/**
 * Kills the server as soon as a slice of a transcription has changed while others have not, and starts it again.
 *
 * @returns false when all slices had changed before
 */
async function killBetweenSlices(world: World, id: string): Promise<boolean> {
  const { slices } = world.look(id);
  await heldAt(
    world.server,
    () => world.look(id),
    (now) => now.slices !== slices,
  );
  const hasHit = world.look(id).state === "preparing";
  await world.server.kill();
  world.server = await world.installation.serve();
  return hasHit;
}

test("a server that is killed again and again between slices of chunks loses and repeats nothing", async () => {
  const world = await openWorld();
  let id = await world.start();
  // On a machine that is busy with other things, a kill may come late.
  while (!(await killBetweenSlices(world, id))) {
    await world.server.api().cancel(id);
    id = await world.start();
  }
  expect(world.look(id)).toMatchObject({ waiting: world.look(id).chunks });
  expect(world.look(id).chunks % CHUNKS_AT_ONCE).toBe(0);
  // Now it deletes what it has left behind, and writes it again.
  for (let kill = 0; kill < 2; kill++) await killBetweenSlices(world, id);
  await reached(world.server.api(), id, ["transcribing"]);
  await world.server.kill();
  world.server = await world.installation.serve();
  // From here on, each start gives the waiting chunks new attempts.
  while (!(await killBetweenSlices(world, id))) expect(world.look(id).state).not.toBe("completed");
  await expectUndisturbed(world, id);
  expect(await world.server.stop()).toBe(0);
}, 300_000);

/** Moments of a transcription at which the disk gets full, and what has been stored of it by then. */
const MOMENTS: { name: string; isIt: (now: Progress) => boolean }[] = [
  { name: "between two slices", isIt: ({ state, chunks }) => state === "preparing" && chunks > 0 },
  { name: "before the result", isIt: ({ state }) => state === "finalizing" },
];

test.skipIf(!mayMountDisks())(
  "a disk that gets full between slices or before the result ends nothing, and leaves no part of them (needs root on Linux)",
  async () => {
    const world = await openWorld(300);
    const filler = join(world.installation.dataDir, "filler");
    for (const { name, isIt } of MOMENTS) {
      let id = await world.start();
      const isThere = (now: Progress) => isIt(now) && emptyLog(world.installation.dataDir);
      while (!(await heldAt(world.server, () => world.look(id), isThere))) id = await world.start();
      const held = world.look(id);
      fillDisk(filler);
      const { baseUrl, process } = world.server;
      process.kill("SIGCONT");
      const isFull = async () => (await (await fetch(`${baseUrl}/readyz`)).text()).includes("nearly full");
      await until(`the full disk is noticed, ${name}`, isFull);
      await until("the write fails", () => world.server.log().includes("disk is full"));
      expect(world.look(id)).toEqual(held);
      expect(world.witness.charges(id)).toBe(0);
      // A stop while the disk is full is orderly.
      expect(await world.server.stop()).toBe(0);
      expect(world.look(id)).toEqual(held);
      rmSync(filler);
      world.server = await (await world.installation.serve()).ready();
      await expectUndisturbed(world, id);
    }
    expect(await world.server.stop()).toBe(0);
  },
  300_000,
);
