import { expect, test } from "bun:test";
import { workerEnvironment } from "./worker-environment.ts";

test("a worker process receives the variables that drivers and libraries need, and none that could be a secret", () => {
  const needed = {
    PATH: "/usr/bin",
    HOME: "/var/lib/shruti",
    LD_LIBRARY_PATH: "/usr/local/cuda/lib64",
    CUDA_VISIBLE_DEVICES: "0",
    NVIDIA_VISIBLE_DEVICES: "all",
    VK_ICD_FILENAMES: "/etc/vulkan/icd.json",
    GGML_VK_VISIBLE_DEVICES: "0",
    XDG_CACHE_HOME: "/var/cache",
    LC_ALL: "C",
  };
  const others = {
    SHRUTI_METRICS_TOKEN: "geheim",
    AWS_SECRET_ACCESS_KEY: "geheim",
    LD_PRELOAD: "/tmp/x.so",
    BUN_BE_BUN: "1",
    BUN_OPTIONS: "--inspect",
    NODE_OPTIONS: "--inspect",
    TOKEN_PATH: "geheim",
    absent: undefined,
  };
  expect(workerEnvironment({ ...others, ...needed })).toEqual(needed);
});
