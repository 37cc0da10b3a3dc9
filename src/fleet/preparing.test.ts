import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { AppError } from "../domain/errors.ts";
import { concatenated, samplePath } from "../e2e/samples.ts";
import type { DecodedAudio } from "../engine/audio/decode.ts";
import { createLocalEngine, type ElsewhereJob, type Engine, type PreparedAudio } from "../engine/engine.ts";
import { EngineError } from "../engine/protocol.ts";
import { extractNativeFiles } from "../native/native-files.ts";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import { until as untilWithin } from "../testing/kits/fleet-chunks.ts";
import { type FleetWorld, openFleetWorld, PREPARING_CODE } from "../testing/kits/fleet-harness.ts";
import { engineOptions } from "../testing/kits/test-config.ts";
import { encodeFormat, makeWav, systemEncoders } from "../testing/makers/audio-makers.ts";
import type { Dispatch } from "./control/dispatch.ts";
import type { Fleet } from "./control/open-fleet.ts";
import { createReconcile } from "./control/reconcile.ts";
import { createRegistry } from "./control/registry.ts";
import type { Results } from "./control/results.ts";
import { createSuspects } from "./control/suspects.ts";
import type { Tickets } from "./control/tickets.ts";
import { createWantedJobs, type WantedPreparation } from "./control/wanted-jobs.ts";
import { type Link, openLink } from "./link.ts";
import {
  PROTOCOL,
  type Prepared,
  type PrepareTicket,
  readPrepareTicket,
  readReply,
  write,
} from "./messages.ts";
import { contentRangeHeader, PIECE_BYTES } from "./pieces.ts";
import { maxBytesOf, readOutline, readSpeech, writeOutline, writeSpeech } from "./prepared-files.ts";
import { subjectsOf } from "./subjects.ts";
import type { PreparingOptions } from "./worker/preparing.ts";

/** Recordings that workers decode and search for speech. */

const LIMITS = { maxSamples: 480_000, gapSamples: 1_600 };
const TIMEOUT_MS = 60_000;
const LOST_AFTER_SECONDS = 2;

describe("files of a prepared recording", () => {
  const regions = [
    { startSample: 0, endSample: 512 },
    { startSample: 512, endSample: 16_000 },
  ];
  const outline = {
    peakSamples: 320,
    lanes: [new Uint8Array([1, 2]), new Uint8Array([3, 4])],
    points: new Uint8Array([5]),
  };

  test("are read as they were written", () => {
    expect(readSpeech(writeSpeech(regions), 16_000)).toEqual(regions);
    expect(readSpeech(new Uint8Array(), 0)).toEqual([]);
    expect(readOutline(writeOutline(outline), 2)).toEqual(outline);
  });

  test.each([
    ["is behind the end", regions, 15_999],
    ["is not in order", regions.toReversed(), 16_000],
    [
      "overlaps",
      [
        { startSample: 0, endSample: 9 },
        { startSample: 8, endSample: 10 },
      ],
      16_000,
    ],
    ["is empty", [{ startSample: 5, endSample: 5 }], 16_000],
  ])("are refused when speech %s", (_, wrong, samples) => {
    expect(readSpeech(writeSpeech(wrong), samples)).toBeUndefined();
  });

  test("are refused in another form", () => {
    expect(readSpeech(new Uint8Array(7), 16_000)).toBeUndefined();
    expect(readOutline(writeOutline(outline), 1)).toBeUndefined();
    expect(readOutline(writeOutline(outline).subarray(0, -1), 2)).toBeUndefined();
    expect(readOutline(new Uint8Array(3), 1)).toBeUndefined();
    expect(readOutline(new Uint8Array(16), 0)).toBeUndefined();
  });

  test("have bounds", () => {
    const bounds = { maxSamples: 16_000, tracks: 2 };
    expect(maxBytesOf("track-1", bounds)).toBe(32_000);
    expect(maxBytesOf("speech-0", bounds)).toBe(264);
    for (const other of ["track-2", "speech-9", "track", "../track-0", "mix.pcm"]) {
      expect(maxBytesOf(other, bounds)).toBeUndefined();
    }
  });
});

test("a recording that no worker takes for a minute is not left waiting", async () => {
  const stop = new AbortController();
  const jobs = createWantedJobs(() => {});
  const { wanted, outcome } = jobs.want<WantedPreparation>(
    {
      ...{
        kind: "prepare",
        id: "a".repeat(32),
        bytes: 1,
        folder: "",
        isAlone: false,
        modelSha256: PREPARING_CODE,
        queue: PREPARING_CODE,
      },
      ...{ urgency: "a", subject: "s", timeoutMs: 1e9 },
      job: {
        ...{ path: "", directory: "", channels: "mix", maxDurationMs: 1, limits: LIMITS },
        expected: { durationMs: 1, withinMs: 1, tracks: 1 },
      },
    },
    stop.signal,
  );
  const ended = outcome.catch((error: EngineError) => error.kind);
  wanted.sequence = 1;
  const reconcile = createReconcile({
    ...{
      jobs,
      suspects: createSuspects(),
      connection: () => undefined,
      linkUpForMs: () => 1e9,
      ping: async () => {},
      lostAfterMs: 4_000,
      onLost: () => {},
    },
    registry: { ...createRegistry(), preparingPlaces: () => 1 },
    results: { sweep: () => {} } as unknown as Results,
    dispatch: { withdraw: async () => {}, cancel: () => {} } as unknown as Dispatch,
    tickets: {
      snapshot: async () => ({ subjects: new Set(["s"]), isDelivered: () => false }),
      models: () => [],
    } as unknown as Tickets,
  });
  wanted.publishedAt = performance.now() - 50_000;
  await reconcile.tick();
  expect(jobs.count()).toBe(1);
  wanted.publishedAt = performance.now() - 61_000;
  await reconcile.tick();
  expect(await ended).toBe("failed");
});

const describeFleet = NATS_SERVER === undefined ? describe.skip : describe;

describeFleet("preparing on workers (needs nats-server)", () => {
  let world: FleetWorld;
  let folder: string;
  let names = 0;
  const cleanups: (() => unknown)[] = [];
  beforeAll(async () => {
    world = await openFleetWorld();
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "shruti-preparing-"));
  });
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
    rmSync(folder, { recursive: true, force: true });
  });
  afterAll(() => world.close());

  function control(): Fleet {
    const fleet = world.openControl({ lostAfterSeconds: LOST_AFTER_SECONDS });
    cleanups.push(fleet.engine.close);
    return fleet;
  }

  /** Opens a worker that recognizes nothing. */
  async function worker(engine: PreparingOptions["engine"], options: Partial<PreparingOptions> = {}) {
    const name = `preparer-${++names}`;
    const own = join(folder, name);
    mkdirSync(own);
    const opened = await world.openWorker(name, {
      executor: {
        capacity: () => ({ chunks: 1, power: 1, isElastic: false }),
        recognize: () => Promise.reject(new EngineError("failed", "no")),
        warm: async () => {},
      },
      installed: () => [],
      preparing: { engine, code: PREPARING_CODE, places: 1, folder: own, reserveBytes: 0, ...options },
    });
    cleanups.push(opened.close);
    return { name, folder: own, close: opened.close, left: () => readdirSync(own) };
  }

  const places = (fleet: Fleet, count: number) => until(() => fleet.engine.elsewhere?.places() === count);

  /** Makes the job of a recording of one second, unless something else is asked for. */
  function jobOf(path: string | undefined, parts: Partial<ElsewhereJob> = {}): ElsewhereJob {
    const directory = mkdtempSync(join(folder, "work-"));
    const own = join(directory, "recording");
    if (path === undefined) writeFileSync(own, makeWav({ seconds: 1 }));
    return {
      ...{ path: path ?? own, directory, channels: "mix", maxDurationMs: 3_600_000, limits: LIMITS },
      expected: { durationMs: 1_000, withinMs: 100, tracks: 1 },
      ...parts,
    };
  }

  const prepare = (fleet: Fleet, job: ElsewhereJob, signal = new AbortController().signal) => {
    if (!fleet.engine.elsewhere) throw new Error("the fleet prepares nothing");
    return fleet.engine.elsewhere.prepare(job, signal);
  };

  const SAMPLES = 16_000;
  const MEASUREMENTS = {
    ...{ truncated: false, clippedRatio: 0, peakDb: -6, rmsDb: -20, highFrequencyDb: -30 },
    ...{ identicalChannels: false, tracks: [{ peakDb: -6 }] },
  };
  const OUTLINE = { peakSamples: 320, lanes: [new Uint8Array(50)], points: new Uint8Array() };
  const SPEECH = [{ startSample: 0, endSample: 8_000 }];

  /** An engine whose decoder writes a second of one value. */
  function scripted(
    decode: (signal: AbortSignal) => Promise<unknown> = async () => {},
    samples = SAMPLES,
  ): PreparingOptions["engine"] {
    return {
      async decode({ directory }, signal): Promise<DecodedAudio> {
        await decode(signal);
        const file = join(directory, "mix.pcm");
        writeFileSync(file, new Uint8Array(2 * samples).fill(7));
        return {
          ...{ durationMs: samples / 16, samples, channels: 1, files: [file] },
          ...{ measurements: MEASUREMENTS, outline: OUTLINE, reading: {} },
        };
      },
      detectSpeech: async () => SPEECH,
    };
  }

  describe("with the real decoder and detector", () => {
    let engine: Engine;
    let native: string;
    beforeAll(async () => {
      native = mkdtempSync(join(tmpdir(), "shruti-preparing-native-"));
      engine = createLocalEngine({
        ...{ nativeFiles: await extractNativeFiles(native), backendDirs: [] },
        ...{ availableBytes: () => Number.POSITIVE_INFINITY, gpuFreeBytes: undefined, log: () => {} },
        engine: engineOptions({ device: "cpu", model_idle_seconds: 0, workers: 1, threads_per_worker: 1 }),
        maxDurationMs: () => 3_600_000,
      });
    });
    afterAll(async () => {
      await engine.close();
      rmSync(native, { recursive: true, force: true });
    });

    async function here({ expected: _, limits, ...job }: ElsewhereJob): Promise<PreparedAudio> {
      const { signal } = new AbortController();
      const decoded = await engine.decode(job, signal);
      const speech = await Promise.all(
        decoded.files.map((pcmPath) => engine.detectSpeech({ pcmPath, limits }, signal)),
      );
      return { decoded, speech };
    }

    const encoders = systemEncoders();
    const recordings: [name: string, path: (folder: string) => string, channels: ElsewhereJob["channels"]][] =
      [
        ["FLAC with two channels, each on its own", () => samplePath("10-en-stereo"), "separate"],
        ["the same, mixed", () => samplePath("10-en-stereo"), "mix"],
        [
          "a file of several pieces",
          (to) => {
            const path = join(to, "long.wav");
            writeFileSync(path, concatenated(["04-en"], 40));
            return path;
          },
          "mix",
        ],
        ...(["libmp3lame", "libopus"] as const)
          .filter((encoder) => encoders.has(encoder))
          .map((encoder): [string, (folder: string) => string, ElsewhereJob["channels"]] => [
            encoder,
            (to) => {
              const name = encoder === "libopus" ? "a.ogg" : "a.mp3";
              const wav = concatenated(["04-en"], 3);
              return encodeFormat(to, wav, { name, encoder, options: [], channels: 1, toleranceMs: 100 });
            },
            "separate",
          ]),
      ];

    test.each(recordings)(
      "finds what this machine finds: %s",
      async (_, path, channels) => {
        const fleet = control();
        const { left } = await worker(engine);
        await places(fleet, 1);
        const verified = await engine.verify({ path: path(folder) }, new AbortController().signal);
        const tracks = channels === "mix" ? 1 : verified.channels;
        const expected = { durationMs: verified.durationMs, withinMs: 100, tracks };
        const [own, other] = [1, 2].map(() => jobOf(path(folder), { channels, expected }));
        if (!own || !other) throw new Error("no jobs");
        const local = await here(own);
        const remote = await prepare(fleet, other);
        const plain = ({ decoded: { files, ...decoded }, speech }: PreparedAudio) => ({
          ...{ decoded, speech, names: files.map((file) => basename(file)) },
          sounds: files.map((file) => Bun.SHA256.hash(readFileSync(file), "hex")),
        });
        if (!remote) throw new Error("not prepared");
        expect(plain(remote)).toEqual(plain(local));
        expect(local.speech.flat().length).toBeGreaterThan(0);
        expect(readdirSync(other.directory).sort()).toEqual(readdirSync(own.directory).sort());
        expect(left()).toEqual([]);
        expect(fleet.status().preparations).toEqual({ prepared: 1, failed: 0, here: 0 });
      },
      TIMEOUT_MS,
    );
  });

  test(
    "is done here while no worker does it: none is there, an older one, one with other code, one that drains",
    async () => {
      const fleet = control();
      expect(await prepare(fleet, jobOf(undefined))).toBeUndefined();
      const other = await worker(scripted(), { code: "0".repeat(64) });
      const older = await world.openWorker("older", {
        executor: {
          capacity: () => ({ chunks: 2, power: 1, isElastic: false }),
          recognize: () => Promise.reject(new EngineError("failed", "no")),
          warm: async () => {},
        },
        installed: () => [],
      });
      cleanups.push(older.close);
      const { name } = await worker(scripted());
      await places(fleet, 1);
      const found = () => fleet.status().workers.filter(({ state }) => state === "working");
      await until(() => found().length === 3);
      expect(
        found()
          .map(({ name: each, preparing_places }) => [each, preparing_places])
          .sort(),
      ).toEqual(
        [
          [other.name, 0],
          ["older", 0],
          [name, 1],
        ].sort(),
      );
      await world.drain(name);
      await places(fleet, 0);
      expect(await prepare(fleet, jobOf(undefined))).toBeUndefined();
      expect(fleet.status().preparations).toEqual({ prepared: 0, failed: 0, here: 2 });
    },
    TIMEOUT_MS,
  );

  test(
    "is tried twice, and then done here",
    async () => {
      const fleet = control();
      const tries: string[] = [];
      const failing = scripted(async () => {
        tries.push("decode");
        throw new AppError("audio_decode_failed");
      });
      const { left } = await worker(failing);
      await places(fleet, 1);
      const job = jobOf(undefined);
      expect(await prepare(fleet, job)).toBeUndefined();
      expect(tries.length).toBe(2);
      expect(readdirSync(job.directory)).toEqual(["recording"]);
      expect(left()).toEqual([]);
      // A worker that fails at every recording rests, and still recognizes.
      expect(await prepare(fleet, jobOf(undefined))).toBeUndefined();
      await places(fleet, 0);
      expect(
        fleet
          .status()
          .workers.find(({ preparing_places, state }) => state === "working" && preparing_places === 0),
      ).toBeDefined();
    },
    TIMEOUT_MS,
  );

  test(
    "needs space on the worker's disk",
    async () => {
      const fleet = control();
      let decoded = 0;
      await worker(
        scripted(async () => void decoded++),
        { reserveBytes: 2 ** 60 },
      );
      await places(fleet, 1);
      expect(await prepare(fleet, jobOf(undefined))).toBeUndefined();
      expect(decoded).toBe(0);
    },
    TIMEOUT_MS,
  );

  test(
    "goes to another worker when one is lost",
    async () => {
      const fleet = control();
      let begun = false;
      const one = await worker(
        scripted((signal) => {
          begun = true;
          return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
        }),
      );
      await places(fleet, 1);
      const prepared = prepare(fleet, jobOf(undefined));
      await until(() => begun);
      await worker(scripted());
      await places(fleet, 2);
      await one.close();
      expect((await prepared)?.speech).toEqual([SPEECH]);
      expect(one.left()).toEqual([]);
      expect(fleet.status()).toMatchObject({
        lost_workers: 1,
        preparations: { prepared: 1, failed: 1, here: 0 },
      });
    },
    TIMEOUT_MS,
  );

  test(
    "is done here when the last worker is lost",
    async () => {
      const fleet = control();
      let begun = false;
      const one = await worker(
        scripted(() => {
          begun = true;
          return new Promise(() => {});
        }),
      );
      await places(fleet, 1);
      const job = jobOf(undefined);
      const prepared = prepare(fleet, job);
      // Another recording waits for the only place.
      const second = prepare(fleet, jobOf(undefined));
      await until(() => begun);
      void one.close();
      expect(await prepared).toBeUndefined();
      expect(await second).toBeUndefined();
      expect(readdirSync(job.directory)).toEqual(["recording"]);
    },
    TIMEOUT_MS,
  );

  test(
    "is cancelled, also when the message of that is lost",
    async () => {
      const fleet = control();
      const began: AbortSignal[] = [];
      const { left } = await worker(
        scripted((signal) => {
          began.push(signal);
          return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
        }),
      );
      await places(fleet, 1);
      for (const isLost of [false, true]) {
        const stop = new AbortController();
        const count = began.length;
        const job = jobOf(undefined);
        const prepared = prepare(fleet, job, stop.signal).catch((error: EngineError) => error.kind);
        await until(() => began.length > count);
        if (isLost) {
          await world.nats.signal("SIGKILL");
          await until(() => !fleet.status().server.connected);
        }
        stop.abort();
        expect(await prepared).toBe("aborted");
        if (isLost) await world.nats.restart();
        await until(() => began.at(-1)?.aborted === true && left().length === 0);
        await until(() => readdirSync(job.directory).length === 1);
        await until(() => fleet.status().workers.every(({ preparing }) => preparing === 0));
      }
      expect(fleet.status().preparing).toBe(0);
    },
    TIMEOUT_MS,
  );

  /** A program with the key of a worker that does not keep our rules. It says that it prepares recordings. */
  async function rogue(
    fleet: Fleet,
  ): Promise<{ link: Link; name: string; pull: () => Promise<PrepareTicket> }> {
    const { name, close } = await worker(scripted());
    await places(fleet, 1);
    await close();
    const link = openLink({
      ...{ servers: world.addresses, ca: world.caText(), member: name, seed: world.seedOf(name) },
    });
    cleanups.push(link.close);
    await link.whenUp(10_000);
    const subjects = subjectsOf("main");
    let job: string | undefined;
    const beat = () =>
      link.publish(
        subjects.beat(name),
        write({
          ...{
            v: PROTOCOL,
            instance: "f".repeat(16),
            version: "1",
            device: "cpu",
            places: 0,
            synchronous_places: 0,
          },
          ...{ models: [], jobs: job === undefined ? [] : [job], draining: false },
          preparing: { sha256: PREPARING_CODE, places: 1, jobs: 0 },
        }),
      );
    const timer = setInterval(beat, 200);
    cleanups.push(() => clearInterval(timer));
    await places(fleet, 1);
    return {
      link,
      name,
      async pull() {
        const subject = `$JS.API.CONSUMER.MSG.NEXT.${subjects.stream}.${subjects.consumer(PREPARING_CODE, "a")}`;
        for (;;) {
          const message = await link
            .pull(subject, JSON.stringify({ batch: 1, expires: 1e9 }), 2_000)
            .catch(() => undefined);
          if (!message || message.status !== undefined) continue;
          const ticket = readPrepareTicket(message.data);
          if (message.reply) link.publish(message.reply, "+ACK");
          job = ticket.job;
          return ticket;
        }
      },
    };
  }

  /** Brings a file, and returns the status. */
  async function bring(
    ticket: PrepareTicket,
    file: string,
    bytes: Uint8Array<ArrayBuffer>,
    { token = ticket.prepared.token, range = contentRangeHeader({ start: 0, end: bytes.length }, "*") } = {},
  ): Promise<number> {
    const headers = { authorization: `Bearer ${token}`, "content-range": range };
    const tls = { ca: world.caText() };
    const url = `${ticket.prepared.url}/${file}`;
    return (await fetch(url, { method: "PUT", body: bytes, headers, tls })).status;
  }

  const TRACK = new Uint8Array(2 * SAMPLES);
  type Lie = {
    name: string;
    files?: Record<string, Uint8Array<ArrayBuffer>>;
    prepared?: Partial<Prepared>;
    /** Replaces the report. */
    report?: object;
  };
  const lies: Lie[] = [
    { name: "another length", prepared: { samples: 2 * SAMPLES } },
    { name: "a track that is shorter than it says", files: { "track-0": TRACK.subarray(2) } },
    {
      name: "speech behind the end",
      files: { "speech-0": writeSpeech([{ startSample: 0, endSample: SAMPLES + 1 }]) },
    },
    { name: "speech in another form", files: { "speech-0": new Uint8Array(9) } },
    { name: "no outline", files: { outline: new Uint8Array() } },
    {
      name: "an outline of two lanes",
      files: { outline: writeOutline({ ...OUTLINE, lanes: [new Uint8Array(1), new Uint8Array(1)] }) },
    },
    {
      name: "two tracks",
      prepared: { measurements: { ...MEASUREMENTS, tracks: [{ peakDb: 1 }, { peakDb: 1 }] } },
    },
    { name: "text", report: { outcome: { segments: [], elapsed_ms: 1 } } },
    { name: "the files of another try", report: { attempt: "0".repeat(16) } },
  ];

  test(
    "refuses what lies, and then does it here",
    async () => {
      const fleet = control();
      const { link, name, pull } = await rogue(fleet);
      let refused = 0;
      for (const lie of lies) {
        const job = jobOf(undefined);
        const prepared = prepare(fleet, job);
        for (let tries = 0; tries < 2; tries++) {
          const ticket = await pull();
          const files = {
            "track-0": TRACK,
            "speech-0": writeSpeech(SPEECH),
            outline: writeOutline(OUTLINE),
            ...lie.files,
          };
          for (const [file, bytes] of Object.entries(files)) {
            if (bytes.length > 0) expect(await bring(ticket, file, bytes)).toBe(204);
          }
          const { v, job: id, attempt, proof } = ticket;
          const told: Prepared = {
            samples: SAMPLES,
            channels: 1,
            measurements: MEASUREMENTS,
            ...lie.prepared,
          };
          const report =
            lie.report && "outcome" in lie.report ? lie.report : { prepared: told, ...lie.report };
          const message = { v, job: id, attempt, proof, ...report };
          const done = await link.request(subjectsOf("main").done(name), JSON.stringify(message), 5_000);
          expect({ lie: lie.name, taken: readReply(done.data).taken }).toEqual({
            lie: lie.name,
            taken: false,
          });
          refused++;
        }
        expect(await prepared).toBeUndefined();
        expect(readdirSync(job.directory)).toEqual(["recording"]);
      }
      expect(fleet.status().results.refused).toBe(refused);
      expect(fleet.status().workers.find((each) => each.name === name)?.refused_messages).toBe(refused);
    },
    TIMEOUT_MS,
  );

  test(
    "gives and takes nothing without the token of the job, and nothing that is too large",
    async () => {
      const fleet = control();
      const { link, name, pull } = await rogue(fleet);
      const stop = new AbortController();
      const job = jobOf(undefined);
      const prepared = prepare(fleet, job, stop.signal).catch((error: EngineError) => error.kind);
      const ticket = await pull();
      const { recording } = ticket;
      const get = async (url: string, token: string, range = "bytes=0-") => {
        const headers = { authorization: `Bearer ${token}`, range };
        return fetch(url, { headers, tls: { ca: world.caText() } });
      };
      const given = await get(recording.url, recording.token);
      expect(given.status).toBe(206);
      expect(await given.bytes()).toEqual(new Uint8Array(readFileSync(job.path)));
      const other = recording.url.replace(/.{32}$/, "0".repeat(32));
      const requests = [
        [recording.url, ticket.prepared.token, 401],
        [recording.url, `9${recording.token}`, 401],
        [other, recording.token, 401],
        [recording.url.replace("recordings", "audio"), recording.token, 401],
      ] as const;
      for (const [url, token, status] of requests) expect((await get(url, token)).status).toBe(status);
      expect((await get(recording.url, recording.token, "bytes=99999999-")).status).toBe(416);

      const small = new Uint8Array(4);
      expect(await bring(ticket, "track-0", small, { token: recording.token })).toBe(401);
      expect(
        await bring(
          {
            ...ticket,
            prepared: { ...ticket.prepared, url: ticket.prepared.url.replace(/.{16}$/, "0".repeat(16)) },
          },
          "track-0",
          small,
        ),
      ).toBe(401);
      expect(await bring(ticket, "track-1", small)).toBe(404);
      expect(await bring(ticket, "mix.pcm", small)).toBe(404);
      expect(await bring(ticket, "..%2F..%2Fx", small)).toBe(404);
      expect(await bring(ticket, "track-0", small, { range: "bytes 0-9/*" })).toBe(400);
      expect(await bring(ticket, "track-0", small, { range: "bytes 4-2/*" })).toBe(400);
      expect(await bring(ticket, "track-0", small, { range: "" })).toBe(400);
      expect(await bring(ticket, "track-0", small, { range: `bytes 9999996-9999999/*` })).toBe(413);
      expect(await bring(ticket, "outline", new Uint8Array(3 * 1024 * 1024))).toBe(413);
      expect(await bring(ticket, "track-0", new Uint8Array(PIECE_BYTES + 1))).toBe(413);
      // Of another job, the proof does not hold, and the job continues.
      const { v, attempt } = ticket;
      const told: Prepared = { samples: SAMPLES, channels: 1, measurements: MEASUREMENTS };
      const message = { v, job: "0".repeat(32), attempt, proof: ticket.proof, prepared: told };
      const done = await link.request(subjectsOf("main").done(name), JSON.stringify(message), 5_000);
      expect(readReply(done.data).taken).toBe(false);
      expect(fleet.status().preparing).toBe(1);
      stop.abort();
      expect(await prepared).toBe("aborted");
      expect((await get(recording.url, recording.token)).status).toBe(404);
      expect(await bring(ticket, "track-0", small)).toBe(404);
      expect(readdirSync(job.directory)).toEqual(["recording"]);
    },
    TIMEOUT_MS,
  );
});

const until = (isSo: () => boolean) => untilWithin(isSo, 40_000);
