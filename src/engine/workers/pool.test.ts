import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileOf } from "../../domain/model.ts";
import { NO_NATIVE_FILES } from "../../testing/kits/native-files.ts";
import { engineOptions } from "../../testing/kits/test-config.ts";
import { probeEngine } from "../probe-engine.ts";
import {
  EngineError,
  type EngineInfo,
  type EngineModel,
  type WorkerReply,
  type WorkerRequest,
} from "../protocol.ts";
import { createPool, type Pool, type PoolOptions } from "./pool.ts";
import type { WorkerExit, WorkerProcess } from "./worker-process.ts";

const MODEL_BYTES = 100_000;
const INFO: EngineInfo = {
  libraryVersion: "1",
  cpuVariant: "x",
  plainerVariants: [],
  devices: [],
  backendFailures: [],
};
const never = new AbortController().signal;

const directory = mkdtempSync(join(tmpdir(), "shruti-pool-"));
const weightsOf = (id: string) => join(directory, `${id}.bin`);
const model = (id: string): EngineModel => ({
  ...{ id, version: "1", family: "whisper", files: { weights: weightsOf(id) } },
});
beforeAll(() => {
  for (const id of ["a", "b", "c"]) {
    writeFileSync(weightsOf(id), "");
    truncateSync(weightsOf(id), MODEL_BYTES);
  }
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const pools: Pool[] = [];
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.close();
});

/** Scripted workers that reply after a while, on a machine whose memory they fill. */
function openPool(
  more: Partial<PoolOptions> = {},
  machine: { models: number; chunkMs: number; device?: string } = { models: 2.5, chunkMs: 5 },
) {
  const loaded = new Map<number, string>();
  const begun: WorkerRequest[] = [];
  const history: string[] = [];
  let most = 0;
  let pids = 100;
  const spawn = (onReply: (reply: WorkerReply) => void): WorkerProcess => {
    const pid = ++pids;
    const exited = Promise.withResolvers<WorkerExit>();
    let weights = "";
    return {
      pid,
      exited: exited.promise.then((exit) => {
        loaded.delete(pid);
        return exit;
      }),
      kill: () => exited.resolve({ code: null, signal: "SIGKILL" }),
      send(request: WorkerRequest) {
        if (request.type === "start") begun.push(request);
        if (request.type === "start") queueMicrotask(() => onReply({ type: "started", engine: INFO }));
        if (request.type === "load") {
          weights = fileOf(request.files, "weights").slice(-5, -4);
          loaded.set(pid, weights);
          history.push(`+${weights}`);
          most = Math.max(most, loaded.size);
          queueMicrotask(() => onReply({ type: "loaded", device: machine.device ?? "cpu" }));
        }
        if (request.type === "diarize") {
          const outcome = { turns: [], isCountUncertain: false };
          onReply({ type: "diarized", id: request.id, outcome });
        }
        if (request.type === "transcribe") {
          history.push(weights);
          const outcome = { segments: [], elapsedMs: 1 };
          const { id } = request;
          setTimeout(() => onReply({ type: "transcribed", id, outcome }), machine.chunkMs);
        }
      },
    };
  };
  const pool = createPool({
    nativeFiles: NO_NATIVE_FILES,
    backendDirs: [],
    engine: engineOptions({ device: "cpu", model_idle_seconds: 0, speech_workers: 1 }),
    log: () => {},
    spawn,
    availableBytes: () => (machine.models - loaded.size) * MODEL_BYTES * 1.5,
    turnMs: 20,
    ...more,
  });
  pools.push(pool);
  return { pool, history, begun, loaded: () => [...loaded.values()].sort(), most: () => most, spawn };
}

const chunk = (pool: Pool, id: string, signal = never) =>
  pool.recognize(
    {
      model: model(id),
      audio: { pcmPath: "", slices: [], totalSamples: 0 },
      settings: { language: "en" },
      threads: 1,
      isAlone: false,
      timeoutMs: 5_000,
    },
    signal,
  );

async function untilLoaded(loaded: () => string[], wanted: string[]): Promise<void> {
  for (let i = 0; i < 200 && loaded().join() !== wanted.join(); i++) await Bun.sleep(5);
  expect(loaded()).toEqual(wanted);
}

describe("pool", () => {
  test("a model is loaded once for all its chunks, and two stay loaded when memory allows", async () => {
    const { pool, history, loaded } = openPool();
    await Promise.all([chunk(pool, "a"), chunk(pool, "a"), chunk(pool, "b"), chunk(pool, "a")]);
    expect(loaded()).toEqual(["a", "b"]);
    expect(history.filter((entry) => entry.startsWith("+")).sort()).toEqual(["+a", "+b"]);
  });

  test("when memory is short, the model that was idle longest is unloaded", async () => {
    const { pool, loaded } = openPool();
    await chunk(pool, "a");
    await chunk(pool, "b");
    await chunk(pool, "a");
    await chunk(pool, "c");
    expect(loaded()).toEqual(["a", "c"]);
  });

  test("with memory for one model, two busy models take turns, are never loaded both at once, and both progress", async () => {
    const { pool, history, most } = openPool({}, { models: 1.2, chunkMs: 5 });
    const stream = async (id: string, chunks: number) => {
      for (let i = 0; i < chunks; i++) await chunk(pool, id);
    };
    await Promise.all([stream("a", 20), stream("a", 20), stream("b", 5), stream("c", 3)]);
    expect(most()).toBe(1);
    const count = (name: string) => history.filter((entry) => entry === name).length;
    expect([count("a"), count("b"), count("c")]).toEqual([40, 5, 3]);
    expect(history.indexOf("b")).toBeLessThan(history.lastIndexOf("a"));
    // A turn lasts several chunks. Otherwise the machine would spend all its time loading.
    expect(history.filter((entry) => entry === "+a").length).toBeLessThan(12);
  });

  test("a request that is aborted while it waits for memory leaves the queue, and no longer causes other models to be unloaded", async () => {
    const { pool, history } = openPool({}, { models: 1.2, chunkMs: 100 });
    const running = chunk(pool, "a");
    await Bun.sleep(5);
    const controller = new AbortController();
    const waiting = chunk(pool, "b", controller.signal);
    await Bun.sleep(5);
    controller.abort();
    await expect(waiting).rejects.toBeInstanceOf(EngineError);
    await running;
    await chunk(pool, "a");
    expect(history).toEqual(["+a", "a", "a"]);
  });

  test("a model larger than the machine's memory is tried nevertheless", async () => {
    const { pool, loaded } = openPool({}, { models: 0.1, chunkMs: 1 });
    await chunk(pool, "a");
    expect(loaded()).toEqual(["a"]);
  });

  describe("on a GPU", () => {
    const memoryFor = (models: number): Partial<PoolOptions> => ({
      backendDirs: ["/backends"],
      engine: engineOptions({ model_idle_seconds: 0, speech_workers: 1 }),
      gpuFreeBytes: models * MODEL_BYTES * 1.5,
    });

    test("the memory of the GPU counts, not that of the machine", async () => {
      const wide = openPool(memoryFor(2), { models: 0, chunkMs: 1, device: "Vulkan0" });
      for (const id of ["a", "b", "a"]) await chunk(wide.pool, id);
      expect(wide.loaded()).toEqual(["a", "b"]);
      const narrow = openPool(memoryFor(1.5), { models: 100, chunkMs: 1, device: "Vulkan0" });
      for (const id of ["a", "b", "a"]) await chunk(narrow.pool, id);
      expect(narrow.loaded()).toEqual(["a"]);
      expect(narrow.most()).toBe(1);
    });

    test("the chunks of a model count, too, and a model that was loaded reports its device", async () => {
      const gpuBytesOf = ({ bytes }: { bytes: number }) => 4 * bytes;
      const machine = { models: 100, chunkMs: 1, device: "Vulkan0" };
      const { pool, loaded } = openPool({ ...memoryFor(4), gpuBytesOf }, machine);
      expect(pool.deviceOf(model("b").files)).toBeUndefined();
      for (const id of ["a", "b"]) await chunk(pool, id);
      expect(loaded()).toEqual(["b"]);
      expect(pool.deviceOf(model("b").files)).toBe("Vulkan0");
    });

    test("a model that the GPU refused takes none of its memory", async () => {
      const machine = { models: 100, chunkMs: 1, device: "cpu" };
      const { pool, loaded } = openPool(memoryFor(1), machine);
      await chunk(pool, "a");
      machine.device = "Vulkan0";
      await chunk(pool, "b");
      expect(loaded()).toEqual(["a", "b"]);
    });

    test("no backend is loaded when the processor does the work", async () => {
      const { pool, begun } = openPool(memoryFor(2));
      const job = { tracks: [] } as unknown as Parameters<Pool["diarize"]>[0];
      await pool.diarize(job, never);
      await pool.diarize({ ...job, weights: {} } as typeof job, never);
      expect(begun).toMatchObject([{ backendDirs: [] }, { backendDirs: [] }]);
      await chunk(pool, "a");
      expect(begun.at(-1)).toMatchObject({ backendDirs: ["/backends"] });
    });
  });

  test("an idle model is unloaded, and loaded again for the next chunk", async () => {
    const { pool, loaded, history } = openPool({ engine: engineOptions({ model_idle_seconds: 0.03 }) });
    await chunk(pool, "a");
    await untilLoaded(loaded, []);
    expect(pool.status().models).toEqual([]);
    await chunk(pool, "a");
    expect(history).toEqual(["+a", "a", "+a", "a"]);
  });

  test("a model stays loaded where the idle time is the longest that the config takes", async () => {
    const { pool, loaded } = openPool({ engine: engineOptions({ model_idle_seconds: 30 * 86_400 }) });
    await chunk(pool, "a");
    await Bun.sleep(20);
    expect(loaded()).toEqual(["a"]);
  });

  test("closing interrupts running and waiting requests", async () => {
    const { pool } = openPool({}, { models: 1.2, chunkMs: 1_000 });
    const kinds = ["a", "b"].map((id) => chunk(pool, id).catch((error: EngineError) => error.kind));
    await Bun.sleep(10);
    await pool.close();
    expect(await Promise.all(kinds)).toEqual(["interrupted", "interrupted"]);
    expect(await chunk(pool, "a").catch((error: EngineError) => error.kind)).toBe("interrupted");
  });

  test("a probe reports what the machine has, and leaves no process", async () => {
    let ended = 0;
    const { spawn } = openPool();
    const info = await probeEngine(
      {
        nativeFiles: NO_NATIVE_FILES,
        backendDirs: [],
        engine: engineOptions(),
        log: () => {},
        spawn: (onReply) => {
          const process = spawn(onReply);
          void process.exited.then(() => ended++);
          return process;
        },
      },
      never,
    );
    expect(info).toEqual(INFO);
    expect(ended).toBe(1);
  });
});
