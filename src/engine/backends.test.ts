import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import type { DevicePreference } from "../domain/engine-options.ts";
import { backendMark, explainBackendFailure } from "../native/backend-files.ts";
import { extractNativeFiles, type NativeFiles } from "../native/native-files.ts";
import { engineOptions } from "../testing/kits/test-config.ts";
import { chooseDevice, findGpu } from "./devices.ts";
import { requireSpace, tryOut } from "./gpu-trial.ts";
import { probeEngine } from "./probe-engine.ts";
import type { ComputeDevice, EngineInfo } from "./protocol.ts";
import { loadModel } from "./whisper/whisper-recognizer.ts";
import type { HostOptions } from "./workers/worker-host.ts";

/** GPU backends: which device is chosen, whether the weights fit, and which files are usable. */

const ROOT = resolve(import.meta.dir, "../..");
const never = new AbortController().signal;
const device = (name: string, type: ComputeDevice["type"], index = 0): ComputeDevice => ({
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

const gpuOf = (info: EngineInfo, wanted: DevicePreference, backendsDir = "/data/backends") =>
  findGpu(info, { device: wanted }, backendsDir, { warn: () => {} });

describe("choosing a device", () => {
  test("auto takes the first GPU, or the processor without one; device names are matched", () => {
    expect(chooseDevice([CPU], "auto").use).toBe("cpu");
    expect(chooseDevice([CPU, CUDA, VULKAN], "auto")).toEqual({ name: "CUDA0", use: { gpuIndex: 0 } });
    expect(chooseDevice([CPU, CUDA, VULKAN], "vulkan")).toEqual({ name: "Vulkan0", use: { gpuIndex: 1 } });
    expect(chooseDevice([CPU, CUDA], "cpu").use).toBe("cpu");
  });

  test("a device that is set by name and missing is an error that names the fault of its backend", () => {
    const info: EngineInfo = {
      libraryVersion: "",
      cpuVariant: "",
      plainerVariants: [],
      devices: [CPU],
      backendFailures: [{ path: "/data/backends/libggml-cuda.so", reason: "invalid ELF header" }],
    };
    expect(() => gpuOf(info, "cuda", "/data/backends")).toThrow(
      /engine.device = "cuda".*libggml-cuda.so: invalid ELF header/,
    );
    expect(gpuOf(info, "auto")).toBeUndefined();
  });

  test("without such a fault, the error says whether the backend file exists", () => {
    const info: EngineInfo = {
      libraryVersion: "",
      cpuVariant: "",
      plainerVariants: [],
      devices: [CPU],
      backendFailures: [],
    };
    const dir = mkdtempSync(join(tmpdir(), "shruti-backends-"));
    expect(() => gpuOf(info, "vulkan", dir)).toThrow(`there is no libggml-vulkan.so in ${dir}`);
    writeFileSync(join(dir, "libggml-vulkan.so"), "");
    expect(() => gpuOf(info, "vulkan", dir)).toThrow("is the graphics driver installed?");
    rmSync(dir, { recursive: true });
  });

  test("the GPU whose memory is counted is the chosen one", () => {
    const devices = [CPU, CUDA, VULKAN];
    const info: EngineInfo = {
      libraryVersion: "",
      cpuVariant: "",
      plainerVariants: [],
      devices,
      backendFailures: [],
    };
    expect(gpuOf(info, "vulkan")).toBe(VULKAN);
    expect(gpuOf(info, "auto")).toBe(CUDA);
    expect(gpuOf(info, "cpu")).toBeUndefined();
  });

  const refusing = (devices: ComputeDevice[]) => {
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

  test("a device that is set by name is not replaced", async () => {
    const { whisper } = refusing([CPU, CUDA]);
    await expect(loadModel(whisper, "m.bin", "cuda")).rejects.toThrow("out of GPU memory");
  });
});

describe("a GPU and the weights", () => {
  const small = { ...VULKAN, freeBytes: 1024 ** 3 };

  test("fit, or the error names both sizes", () => {
    expect(() => requireSpace(small, 1024 ** 3)).not.toThrow();
    expect(() => requireSpace(small, 3 * 1024 ** 3)).toThrow(
      "Vulkan0 has 1.0 GiB of memory free, the weights take 3.0",
    );
    expect(() => requireSpace({ ...small, freeBytes: 0 }, 3 * 1024 ** 3)).not.toThrow();
  });

  test("a trial that fails names the device", async () => {
    await tryOut(VULKAN, async () => []);
    const failing = tryOut(VULKAN, () => Promise.reject(new Error("cannot allocate a decoder")));
    await expect(failing).rejects.toThrow(
      "Vulkan0 cannot compute with these weights: cannot allocate a decoder",
    );
  });
});

describe("files that are not usable backends", () => {
  const folder = mkdtempSync(join(tmpdir(), "shruti-backends-"));
  const backends = join(folder, "backends");
  let nativeFiles: NativeFiles;
  let libraryVersion: string;

  const probe = (log: HostOptions["log"] = () => {}) =>
    probeEngine({ nativeFiles, backendDirs: [backends], engine: engineOptions(), log }, never);
  const put = (name: string, bytes: Uint8Array | string, version: string | undefined) => {
    const mark = version === undefined ? "" : backendMark(version);
    writeFileSync(join(backends, name), Buffer.concat([Buffer.from(bytes), Buffer.from(mark)]));
  };

  beforeAll(async () => {
    nativeFiles = await extractNativeFiles(folder);
    ({ libraryVersion } = await probe());
    mkdirSync(backends);
    const library = readFileSync(join(nativeFiles.dir, "libggml-base.so"));
    put("libggml-cuda.so", "this is no library\n".repeat(100), libraryVersion);
    put("libggml-empty.so", "", undefined);
    put("libggml-older.so", library, "1.8.0");
    put("libggml-short.so", library.subarray(0, library.length / 2), undefined);
    put("libggml-vulkan.so", library, libraryVersion);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("are named with the reason, and the processor is still there", async () => {
    const logged: Record<string, unknown>[] = [];
    const info = await probe((_level, message, fields) => logged.push({ message, ...fields }));
    const reasons = info.backendFailures.map(({ path, reason }) => [basename(path), reason]);
    expect(Object.fromEntries(reasons)).toEqual({
      "libggml-cuda.so": expect.stringContaining("invalid ELF header"),
      "libggml-empty.so": "it was not made by scripts/build-backend.sh, or is not whole",
      "libggml-older.so": expect.stringContaining(
        `built for whisper.cpp 1.8.0 and this is ${libraryVersion}: build it again`,
      ),
      "libggml-short.so": "it was not made by scripts/build-backend.sh, or is not whole",
      "libggml-vulkan.so": expect.stringContaining("ggml_backend_init"),
    });
    expect(info.devices.map(({ type }) => type)).toEqual(["cpu"]);
    expect(logged.filter(({ message }) => message === "a GPU backend cannot be used").length).toBe(5);
    expect(() => gpuOf(info, "cuda", backends)).toThrow("libggml-cuda.so");
  });

  test("are explained where a remedy is known", () => {
    const path = "/data/backends/libggml-cuda.so";
    const lacks = (library: string) =>
      explainBackendFailure(
        path,
        `load_backend: failed to load ${path}: ${library}: cannot open shared object file: No such file or directory`,
      );
    expect(lacks("libcuda.so.1")).toBe(
      "libcuda.so.1 is not on this machine; it comes with the NVIDIA driver",
    );
    expect(lacks("libcublas.so.12")).toContain("the CUDA toolkit that it was built with");
    expect(lacks("libvulkan.so.1")).toContain("the Vulkan loader");
    expect(lacks("libodd.so")).toBe("libodd.so is not on this machine");
    const none = `load_backend: failed to initialize backend from ${path}: ggml_backend_init returned NULL`;
    expect(explainBackendFailure(path, none)).toBe("it found no graphics driver that it can use");
  });

  test("the build script writes the mark that the program looks for, with the version of whisper.cpp", () => {
    const script = readFileSync(join(ROOT, "scripts/build-backend.sh"), "utf8");
    const format = /^printf '(.*)' "\$version" >>/m.exec(script)?.[1];
    expect(format?.replaceAll("\\n", "\n").replace("%s", libraryVersion)).toBe(backendMark(libraryVersion));
    const project = readFileSync(
      join(ROOT, "node_modules/nodejs-whisper/cpp/whisper.cpp/CMakeLists.txt"),
      "utf8",
    );
    expect(/^project\("whisper.cpp" VERSION ([0-9.]+)/m.exec(project)?.[1]).toBe(libraryVersion);
  });
});
