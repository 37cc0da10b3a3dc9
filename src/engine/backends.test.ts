import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chooseDevice, requireDevice } from "./devices.ts";
import { extractNativeFiles, type NativeFiles } from "./native-files.ts";
import { probeEngine } from "./pool.ts";
import type { DevicePreference, EngineFacts } from "./protocol.ts";
import type { WhisperDevice } from "./whisper.ts";
import { loadModel } from "./worker.ts";

const never = new AbortController().signal;
const device = (name: string, type: WhisperDevice["type"], index = 0): WhisperDevice => ({
  index,
  name,
  type,
  description: "",
  memoryBytes: 1e9,
  freeBytes: 1e9,
});
const CPU = device("CPU", "cpu");
const CUDA = device("CUDA0", "gpu");
const VULKAN = device("Vulkan0", "gpu", 1);

describe("choosing a device", () => {
  test("auto takes the first GPU, else the processor; names are matched", () => {
    expect(chooseDevice([CPU], "auto").use).toBe("cpu");
    expect(chooseDevice([CPU, CUDA, VULKAN], "auto")).toEqual({ name: "CUDA0", use: { gpuIndex: 0 } });
    expect(chooseDevice([CPU, CUDA, VULKAN], "vulkan")).toEqual({ name: "Vulkan0", use: { gpuIndex: 1 } });
    expect(chooseDevice([CPU, CUDA], "cpu").use).toBe("cpu");
  });

  test("a named one that is missing is an error that says what was wrong with its backend", () => {
    const facts: EngineFacts = {
      whisperVersion: "",
      cpuVariant: "",
      devices: [CPU],
      backendFailures: [{ path: "/data/backends/libggml-cuda.so", reason: "invalid ELF header" }],
    };
    expect(() => requireDevice(facts, "cuda")).toThrow(
      /engine.device = "cuda".*libggml-cuda.so: invalid ELF header/,
    );
    expect(() => requireDevice(facts, "auto")).not.toThrow();
  });

  const refusing = (devices: WhisperDevice[]) => {
    const tried: unknown[] = [];
    const load: Parameters<typeof loadModel>[0]["load"] = async (_path, { device: use }) => {
      tried.push(use);
      if (use !== "cpu") throw new Error("out of GPU memory");
      return {} as Awaited<ReturnType<Parameters<typeof loadModel>[0]["load"]>>;
    };
    return { whisper: { devices, load }, tried };
  };

  test("under auto a GPU that cannot hold the model is replaced by the processor", async () => {
    const { whisper, tried } = refusing([CPU, CUDA]);
    expect(await loadModel(whisper, "m.bin", "auto")).toMatchObject({
      device: "cpu",
      gpuFailure: "out of GPU memory",
    });
    expect(tried).toEqual([{ gpuIndex: 0 }, "cpu"]);
  });

  test("a named one is not replaced", async () => {
    const { whisper } = refusing([CPU, CUDA]);
    expect(loadModel(whisper, "m.bin", "cuda")).rejects.toThrow("out of GPU memory");
  });
});

describe("backends that are none", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-backends-"));
  const backends = join(folder, "backends");
  let nativeFiles: NativeFiles;
  beforeAll(async () => {
    nativeFiles = await extractNativeFiles(folder);
    mkdirSync(backends);
    writeFileSync(join(backends, "libggml-cuda.so"), "this is no library\n");
    copyFileSync(join(nativeFiles.dir, "libggml-base.so"), join(backends, "libggml-vulkan.so"));
    writeFileSync(join(backends, "libggml-empty.so"), "");
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("are named with the reason, and the processor is still there", async () => {
    const logged: Record<string, unknown>[] = [];
    const facts = await probeEngine(
      {
        nativeFiles,
        backendDirs: [backends],
        device: "auto" satisfies DevicePreference,
        modelIdleMs: 0,
        log: (_level, message, fields) => logged.push({ message, ...fields }),
      },
      never,
    );
    const named = facts.backendFailures.map(({ path }) => path.slice(backends.length + 1)).sort();
    expect(named).toEqual(["libggml-cuda.so", "libggml-empty.so", "libggml-vulkan.so"]);
    for (const { reason } of facts.backendFailures) expect(reason.length).toBeGreaterThan(5);
    expect(facts.devices.map(({ type }) => type)).toEqual(["cpu"]);
    expect(logged.filter(({ message }) => message === "a GPU backend cannot be used").length).toBe(3);
    expect(() => requireDevice(facts, "cuda")).toThrow("libggml-cuda.so");
  });
});
