import { describe, expect, test } from "bun:test";
import { chooseSizing } from "./sizing.ts";

const GIB = 1024 ** 3;
const auto = { workers: "auto", threadsPerWorker: "auto" } as const;

describe("sizing", () => {
  const rows: [string, Parameters<typeof chooseSizing>, ReturnType<typeof chooseSizing>][] = [
    [
      "a chunk for every core",
      [auto, { cores: 2, availableMemoryBytes: 20 * GIB }, 7e6],
      { workers: 2, threadsPerWorker: undefined },
    ],
    [
      "memory bounds large models",
      [auto, { cores: 16, availableMemoryBytes: 12 * GIB }, 3 * GIB],
      { workers: 3, threadsPerWorker: undefined },
    ],
    [
      "no model yet",
      [auto, { cores: 4, availableMemoryBytes: 20 * GIB }, 0],
      { workers: 4, threadsPerWorker: undefined },
    ],
    [
      "at least one",
      [auto, { cores: 1, availableMemoryBytes: 1 * GIB }, 3 * GIB],
      { workers: 1, threadsPerWorker: undefined },
    ],
    [
      "not without end",
      [auto, { cores: 128, availableMemoryBytes: 512 * GIB }, 7e6],
      { workers: 16, threadsPerWorker: undefined },
    ],
    [
      "a GPU takes a few, as many as its memory holds",
      [auto, { cores: 16, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 9 * GIB }, 3 * GIB],
      { workers: 2, threadsPerWorker: undefined },
    ],
    [
      "a GPU without room for the weights leaves them to the processor",
      [auto, { cores: 16, availableMemoryBytes: 12 * GIB, gpuFreeBytes: 2 * GIB }, 3 * GIB],
      { workers: 3, threadsPerWorker: undefined },
    ],
    [
      "and no more, however large",
      [auto, { cores: 64, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 140 * GIB }, 3 * GIB],
      { workers: 4, threadsPerWorker: undefined },
    ],
    [
      "threads asked for",
      [{ workers: "auto", threadsPerWorker: 4 }, { cores: 8, availableMemoryBytes: 64 * GIB }, 7e6],
      { workers: 2, threadsPerWorker: 4 },
    ],
    [
      "workers asked for",
      [{ workers: 5, threadsPerWorker: "auto" }, { cores: 2, availableMemoryBytes: GIB }, 7e6],
      { workers: 5, threadsPerWorker: undefined },
    ],
  ];
  for (const [name, input, expected] of rows) {
    test(name, () => expect(chooseSizing(...input)).toEqual(expected));
  }
});
