import { describe, expect, test } from "bun:test";
import { chooseSizing, chooseSpeechWorkers } from "./sizing.ts";

const GIB = 1024 ** 3;
const auto = { workers: "auto", threadsPerWorker: "auto" } as const;

describe("sizing", () => {
  const rows: [string, Parameters<typeof chooseSizing>, ReturnType<typeof chooseSizing>][] = [
    [
      "one chunk for every core",
      [auto, { cores: 2, availableMemoryBytes: 20 * GIB }, { bytes: 7e6 }],
      { workers: 2, lanes: 0, threadsPerWorker: undefined },
    ],
    [
      "memory limits large models",
      [auto, { cores: 16, availableMemoryBytes: 12 * GIB }, { bytes: 3 * GIB }],
      { workers: 3, lanes: 0, threadsPerWorker: undefined },
    ],
    [
      "no model is installed yet",
      [auto, { cores: 4, availableMemoryBytes: 20 * GIB }, { bytes: 0 }],
      { workers: 4, lanes: 0, threadsPerWorker: undefined },
    ],
    [
      "at least one chunk",
      [auto, { cores: 1, availableMemoryBytes: 1 * GIB }, { bytes: 3 * GIB }],
      { workers: 1, lanes: 0, threadsPerWorker: undefined },
    ],
    [
      "an upper limit",
      [auto, { cores: 128, availableMemoryBytes: 512 * GIB }, { bytes: 7e6 }],
      { workers: 16, lanes: 0, threadsPerWorker: undefined },
    ],
    [
      "a GPU runs a few chunks, as many as fit into its memory",
      [auto, { cores: 16, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 9 * GIB }, { bytes: 3 * GIB }],
      { workers: 2, lanes: 0, threadsPerWorker: undefined },
    ],
    [
      "a GPU without enough memory for the weights leaves the work to the processor",
      [auto, { cores: 16, availableMemoryBytes: 12 * GIB, gpuFreeBytes: 2 * GIB }, { bytes: 3 * GIB }],
      { workers: 3, lanes: 0, threadsPerWorker: undefined },
    ],
    [
      "no more than that, however large the GPU is",
      [auto, { cores: 64, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 140 * GIB }, { bytes: 3 * GIB }],
      { workers: 4, lanes: 0, threadsPerWorker: undefined },
    ],
    [
      "a set number of threads",
      [
        { workers: "auto", threadsPerWorker: 4 },
        { cores: 8, availableMemoryBytes: 64 * GIB },
        { bytes: 7e6 },
      ],
      { workers: 2, lanes: 0, threadsPerWorker: 4 },
    ],
    [
      "a set number of workers",
      [{ workers: 5, threadsPerWorker: "auto" }, { cores: 2, availableMemoryBytes: GIB }, { bytes: 7e6 }],
      { workers: 5, lanes: 0, threadsPerWorker: undefined },
    ],
    [
      "four chunks for every core where their steps are made together",
      [auto, { cores: 2, availableMemoryBytes: 20 * GIB }, { bytes: 7e6, sharesSteps: true }],
      { workers: 8, lanes: 2, threadsPerWorker: undefined },
    ],
    [
      "no more of them than there is memory for",
      [auto, { cores: 16, availableMemoryBytes: 12 * GIB }, { bytes: 3 * GIB, sharesSteps: true }],
      { workers: 3, lanes: 16, threadsPerWorker: undefined },
    ],
    [
      "chunks of several threads share no steps",
      [
        { workers: "auto", threadsPerWorker: 4 },
        { cores: 8, availableMemoryBytes: 64 * GIB },
        { bytes: 7e6, sharesSteps: true },
      ],
      { workers: 2, lanes: 0, threadsPerWorker: 4 },
    ],
    [
      "a set number of workers that share steps",
      [
        { workers: 5, threadsPerWorker: 1 },
        { cores: 2, availableMemoryBytes: GIB },
        { bytes: 7e6, sharesSteps: true },
      ],
      { workers: 5, lanes: 2, threadsPerWorker: 1 },
    ],
    [
      "a GPU shares none",
      [
        auto,
        { cores: 16, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 9 * GIB },
        { bytes: 3 * GIB, sharesSteps: true },
      ],
      { workers: 2, lanes: 0, threadsPerWorker: undefined },
    ],
  ];
  for (const [name, input, expected] of rows) {
    test(name, () => expect(chooseSizing(...input)).toEqual(expected));
  }
});

test.each([
  ["auto", 1, 2],
  ["auto", 4, 2],
  ["auto", 10, 5],
  ["auto", 128, 16],
  [1, 128, 1],
  [40, 2, 40],
] as const)("%s processes find speech with %d cores: %d", (wanted, cores, expected) => {
  expect(chooseSpeechWorkers(wanted, { cores })).toBe(expected);
});
