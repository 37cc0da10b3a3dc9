import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Config } from "../config/schema.ts";
import type { InstalledModel } from "../domain/model.ts";
import { modelHashOf } from "../domain/model-hash.ts";
import type { ChunkExecutor } from "../engine/executor.ts";
import type { ChunkJob } from "../engine/protocol.ts";
import { silentLog } from "../lib/log.ts";
import { fetchingInto } from "../programs/fetched-models.ts";
import { renderManifest } from "../services/models/model-manifest.ts";
import { createModelService, type ModelService } from "../services/models/models.ts";
import { openDatabase } from "../store/database.ts";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import { until as untilWithin } from "../testing/kits/fleet-chunks.ts";
import { type FleetWorld, openFleetWorld } from "../testing/kits/fleet-harness.ts";
import { manualClock } from "../testing/kits/manual-clock.ts";
import { testConfig } from "../testing/kits/test-config.ts";
import { TINY_CTC } from "../testing/makers/tiny-ctc.ts";
import type { Fleet } from "./control/open-fleet.ts";
import { openLink } from "./link.ts";
import { PROTOCOL, readHelloReply, write } from "./messages.ts";
import { contentRangeHeader, PIECE_BYTES, piecesOf, readRange } from "./pieces.ts";
import { subjectsOf } from "./subjects.ts";
import { FetchError, fetchFile, fetchText } from "./worker/fetching-file.ts";

/** Workers that fetch the models that they lack (`[fleet] fetch_models`). */

const DEMO = join(import.meta.dir, "../../models/demo.bin");
const TIMEOUT_MS = 60_000;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "shruti-fetch-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("pieces", () => {
  test("cover a file", () => {
    expect([...piecesOf(0)]).toEqual([]);
    expect([...piecesOf(PIECE_BYTES + 1)]).toEqual([
      { start: 0, end: PIECE_BYTES },
      { start: PIECE_BYTES, end: PIECE_BYTES + 1 },
    ]);
  });

  test.each([
    ["bytes=0-3", { start: 0, end: 4 }],
    ["bytes=6-", { start: 6, end: 10 }],
    ["bytes=6-99", { start: 6, end: 10 }],
    ["bytes=10-", undefined],
    ["bytes=3-2", undefined],
    ["bytes=-3", undefined],
    ["bytes=0-1,3-4", undefined],
    ["bytes=1e3-", undefined],
    [null, undefined],
  ])("are read from the range %p", (header, piece) => {
    expect(readRange(header, 10)).toEqual(piece);
  });

  test("are not larger than what a machine holds in memory", () => {
    expect(readRange("bytes=5-", 10 * PIECE_BYTES)).toEqual({ start: 5, end: 5 + PIECE_BYTES });
  });
});

describe("a file of the control plane", () => {
  const content = new Uint8Array(2 * PIECE_BYTES + 1_000).map((_, index) => index % 251);

  /** Fetches the content from a server whose nth answer may be replaced. */
  async function fetched(replace: (n: number, right: () => Response) => Response): Promise<Uint8Array> {
    let answers = 0;
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch(request) {
        const piece = readRange(request.headers.get("range"), content.length);
        if (!piece) return new Response("text");
        const headers = { "content-range": contentRangeHeader(piece, content.length) };
        const right = () => new Response(content.slice(piece.start, piece.end), { status: 206, headers });
        return replace(answers++, right);
      },
    });
    const path = join(folder, "file");
    const file = await open(path, "w");
    try {
      const remote = { url: server.url.href, bytes: content.length, token: () => "t", ca: "" };
      await fetchFile(remote, file, new AbortController().signal);
      return new Uint8Array(readFileSync(path));
    } finally {
      await file.close();
      await server.stop(true);
    }
  }

  test("comes whole although answers fail and connections end too early", async () => {
    const found = await fetched((n, right) => {
      if (n === 0) return new Response(null, { status: 500 });
      if (n === 2) {
        const headers = {
          "content-range": contentRangeHeader({ start: PIECE_BYTES, end: 2 * PIECE_BYTES }, content.length),
        };
        return new Response(content.slice(0, 10), { status: 206, headers });
      }
      return right();
    });
    expect(Bun.SHA256.hash(found, "hex")).toBe(Bun.SHA256.hash(content, "hex"));
  });

  test.each<[string, () => Response]>([
    ["a refusal", () => new Response(null, { status: 401 })],
    ["all of it at once", () => new Response(content)],
    ["another part", () => new Response("x", { status: 206, headers: { "content-range": "bytes 5-5/9" } })],
    [
      "more than was asked for",
      () => {
        const headers = {
          "content-range": contentRangeHeader({ start: 0, end: PIECE_BYTES }, content.length),
        };
        return new Response(content.slice(0, PIECE_BYTES + 1), { status: 206, headers });
      },
    ],
  ])("is refused when the answer is %s", async (_, answer) => {
    expect(await fetched(answer).catch((error: unknown) => error)).toBeInstanceOf(FetchError);
  });

  test("is not read as a text of more than a bound", async () => {
    const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("12345") });
    const remote = { url: server.url.href, token: () => "t", ca: "" };
    const { signal } = new AbortController();
    try {
      expect(await fetchText(remote, 5, signal)).toBe("12345");
      expect(await fetchText(remote, 4, signal).catch((error: unknown) => error)).toBeInstanceOf(FetchError);
    } finally {
      await server.stop(true);
    }
  });
});

const describeFleet = NATS_SERVER === undefined ? describe.skip : describe;

describeFleet("a worker that fetches models (needs nats-server)", () => {
  let world: FleetWorld;
  let workers = 0;
  const cleanups: (() => unknown)[] = [];
  beforeAll(async () => {
    world = await openFleetWorld();
  });
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  });
  afterAll(() => world.close());

  /** Opens the models of a machine with a data directory of its own. */
  async function modelsOf(machine: string): Promise<ModelService> {
    const database = openDatabase(":memory:");
    cleanups.push(() => database.close());
    const dataDir = join(folder, machine);
    mkdirSync(dataDir, { recursive: true });
    return createModelService({
      ...{ database, config: testConfig(), dataDir, log: silentLog, clock: manualClock() },
    });
  }

  /** Opens the control plane, which has the demonstration weights under another name. */
  async function openControl(
    source = DEMO,
  ): Promise<{ fleet: Fleet; models: ModelService; model: InstalledModel }> {
    const models = await modelsOf("control");
    const languages = source === DEMO ? [] : [{ code: "en" }];
    const model = await models.add(source, { id: "own", ...(source === DEMO ? {} : { languages }) });
    const fleet = world.openControl();
    cleanups.push(fleet.engine.close);
    fleet.serveModels(() => models.list().map((each) => ({ model: each, manifest: renderManifest(each) })));
    return { fleet, models, model };
  }

  async function openWorker(settings: Partial<Config["fleet"]> = {}, reserveBytes = 0) {
    const name = `fetcher-${++workers}`;
    const models = await modelsOf(name);
    const config = testConfig({
      fleet: { worker: name, ...settings },
      storage: { reserve_bytes: reserveBytes },
    });
    const executor: ChunkExecutor = {
      capacity: () => ({ chunks: 1, power: 1, isElastic: false }),
      recognize: async ({ model }) => ({
        segments: [{ startMs: 0, endMs: 1, text: model.id, language: "en", confidence: 1 }],
        workMs: 1,
      }),
      warm: async () => {},
    };
    const installed = () => models.list().filter(({ embedded }) => !embedded);
    const worker = await world.openWorker(name, {
      executor,
      installed,
      fetching: fetchingInto(config, models),
    });
    cleanups.push(worker.close);
    return { name, models };
  }

  const statusOf = (fleet: Fleet, name: string) =>
    fleet.status().workers.find((worker) => worker.name === name);
  const warm = (fleet: Fleet, model: InstalledModel) =>
    fleet.engine.warm(model, new AbortController().signal).catch(() => {});
  /** Returns the files under a worker's folder of models, as far as they are not complete models. */
  const unfinished = (models: ModelService) =>
    existsSync(models.directory) ? readdirSync(models.directory).filter((name) => name.startsWith(".")) : [];

  test.each([
    ["one file", DEMO],
    ["several files", TINY_CTC],
  ])(
    "has a model of %s once the fleet uses it, verified, and recognizes with it",
    async (_, source) => {
      const { fleet, model } = await openControl(source);
      const worker = await openWorker();
      await until(() => statusOf(fleet, worker.name)?.state === "working");
      expect(worker.models.list().filter(({ embedded }) => !embedded)).toEqual([]);
      await warm(fleet, model);
      const hash = modelHashOf(model) ?? "";
      await until(
        () => fleet.engine.capacity(model).chunks === 1 && statusOf(fleet, worker.name)?.models[0] === "own",
      );
      const [own] = worker.models.list();
      expect(modelHashOf(own ?? {})).toBe(hash);
      expect({ ...own, files: {} }).toEqual({ ...model, files: {} });
      expect(unfinished(worker.models)).toEqual([]);
      await until(() => statusOf(fleet, worker.name)?.lacking_models?.length === 0);
      const job: ChunkJob = {
        ...{ model, windowMs: 30_000, settings: { language: "en" }, sharers: 1, isAlone: false },
        audio: { pcm: new Uint8Array(32_000), totalSamples: 16_000 },
      };
      const { segments } = await fleet.engine.recognize(job, new AbortController().signal);
      expect(segments[0]?.text).toBe("own");
    },
    TIMEOUT_MS,
  );

  type Trouble = {
    name: string;
    settings?: Partial<Config["fleet"]>;
    reserveBytes?: number;
    spoil?: (model: InstalledModel) => void;
    before?: (models: ModelService) => Promise<unknown>;
    reason: string;
  };
  const troubles: Trouble[] = [
    {
      name: "that would take more than fleet.fetch_models_max_bytes",
      settings: { fetch_models_max_bytes: statSync(DEMO).size - 1 },
      reason: "fetch_models_max_bytes",
    },
    { name: "for which the disk has no space", reserveBytes: 2 ** 60, reason: "storage.reserve_bytes" },
    {
      name: "whose bytes are not those of the manifest",
      spoil({ files }) {
        const bytes = readFileSync(files.weights ?? "");
        bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
        writeFileSync(files.weights ?? "", bytes);
      },
      reason: "is not the file of its manifest",
    },
    {
      name: "whose id another model has here",
      async before(models) {
        const other = readFileSync(DEMO);
        other[other.length - 1] = (other.at(-1) ?? 0) ^ 1;
        writeFileSync(join(folder, "other.bin"), other);
        await models.add(join(folder, "other.bin"), { id: "own" });
      },
      reason: "another model own",
    },
  ];

  test.each(troubles.map((trouble) => [trouble.name, trouble] as const))(
    "refuses a model %s, and says so",
    async (_, { settings, reserveBytes, spoil, before, reason }) => {
      const { fleet, model } = await openControl();
      spoil?.(model);
      const models = await modelsOf(`fetcher-${workers + 1}`);
      await before?.(models);
      const installed = models.list().map(({ sha256 }) => sha256);
      const worker = await openWorker(settings, reserveBytes);
      await warm(fleet, model);
      const lacking = () => statusOf(fleet, worker.name)?.lacking_models?.[0];
      await until(() => lacking()?.reason.includes(reason) === true);
      expect(lacking()?.id).toBe("own");
      expect(worker.models.list().map(({ sha256 }) => sha256)).toEqual(installed);
      expect(unfinished(worker.models)).toEqual([]);
      // Another model does not wait for it: the worker takes work as before.
      expect(statusOf(fleet, worker.name)?.state).toBe("working");
    },
    TIMEOUT_MS,
  );

  test(
    "removes what a killed process has left, and begins again",
    async () => {
      const { fleet, model } = await openControl();
      const name = `fetcher-${workers + 1}`;
      const left = join((await modelsOf(name)).directory, `.fetching-${name}/files`);
      mkdirSync(left, { recursive: true });
      writeFileSync(join(left, "weights"), "half of it");
      const worker = await openWorker();
      await until(() => unfinished(worker.models).length === 0);
      await warm(fleet, model);
      await until(() => statusOf(fleet, worker.name)?.models[0] === "own");
    },
    TIMEOUT_MS,
  );

  test(
    "needs the token of that model, and only models that the fleet uses are there",
    async () => {
      const { fleet, model } = await openControl();
      const { name } = await openWorker({ fetch_models_max_bytes: 0 });
      await until(() => statusOf(fleet, name)?.state === "working");
      const link = openLink({
        ...{ servers: world.addresses, ca: world.caText(), member: name, seed: world.seedOf(name) },
      });
      cleanups.push(link.close);
      await link.whenUp(10_000);
      const hello = async (question: object) => {
        const message = write({ v: PROTOCOL, version: "1", ...question });
        return readHelloReply((await link.request(subjectsOf("main").hello(name), message, 5_000)).data);
      };
      expect((await hello({ wants_models: true })).models).toEqual([]);
      await warm(fleet, model);
      expect((await hello({})).models).toBeUndefined();
      const { models, base_url } = await hello({ wants_models: true });
      const [described] = models ?? [];
      expect(described).toMatchObject({
        ...{ sha256: model.sha256, id: "own", files: [{ name: "weights", bytes: model.bytes }] },
      });
      const { token = "" } = described ?? {};
      const get = async (path: string, used = token, range = "bytes=0-9") => {
        const headers = { authorization: `Bearer ${used}`, range };
        const { status } = await fetch(`${base_url}${path}`, { headers, tls: { ca: world.caText() } });
        return status;
      };
      const own = `/models/${model.sha256}`;
      expect(await get(`${own}/files/weights`)).toBe(206);
      expect(await get(`${own}/manifest`)).toBe(200);
      expect(await get(`${own}/files/weights`, token, "bytes=999999999-")).toBe(416);
      expect(await get(`${own}/files/weights`, "")).toBe(401);
      expect(await get(`${own}/files/weights`, `9${token}`)).toBe(401);
      expect(await get(`/models/${"0".repeat(64)}/files/weights`)).toBe(401);
      expect(await get(`/audio/${model.sha256.slice(0, 32)}`)).toBe(401);
      expect(await get(`${own}/files/other`)).toBe(404);
      expect(await get(`${own}/files/..%2F..%2Fshruti.db`)).toBe(404);
      expect(await get(`${own}/`)).toBe(404);
    },
    TIMEOUT_MS,
  );
});

const until = (isSo: () => boolean) => untilWithin(isSo, 40_000);
