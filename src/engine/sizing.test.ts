import { describe, expect, test } from "bun:test";
import { bytesOnGpu, chooseSizing, chooseSpeechWorkers } from "./sizing.ts";

const GIB = 1024 ** 3;
const auto = { workers: "auto", threads_per_worker: "auto" } as const;
const SHARING = { onProcessor: true, onGpu: true };

describe("sizing", () => {
  const rows: [string, Parameters<typeof chooseSizing>, ReturnType<typeof chooseSizing>][] = [
    [
      "one chunk for every core",
      [auto, { cores: 2, availableMemoryBytes: 20 * GIB }, { bytes: 7e6 }],
      { workers: 2, threadGroups: 0, threads: undefined },
    ],
    [
      "memory limits large models",
      [auto, { cores: 16, availableMemoryBytes: 12 * GIB }, { bytes: 3 * GIB }],
      { workers: 3, threadGroups: 0, threads: undefined },
    ],
    [
      "the nets that distinguish speakers take memory of a chunk",
      [
        { ...auto, diarization: "auto" },
        { cores: 16, availableMemoryBytes: 9e9 },
        { bytes: 1e9, stateBytes: 0.66e9 },
      ],
      { workers: 7, threadGroups: 0, threads: undefined },
    ],
    [
      "and none without them",
      [
        { ...auto, diarization: "acoustic" },
        { cores: 16, availableMemoryBytes: 9e9 },
        { bytes: 1e9, stateBytes: 0.66e9 },
      ],
      { workers: 8, threadGroups: 0, threads: undefined },
    ],
    [
      "no model is installed yet",
      [auto, { cores: 4, availableMemoryBytes: 20 * GIB }, { bytes: 0 }],
      { workers: 4, threadGroups: 0, threads: undefined },
    ],
    [
      "at least one chunk",
      [auto, { cores: 1, availableMemoryBytes: 1 * GIB }, { bytes: 3 * GIB }],
      { workers: 1, threadGroups: 0, threads: undefined },
    ],
    [
      "an upper limit",
      [auto, { cores: 128, availableMemoryBytes: 512 * GIB }, { bytes: 7e6 }],
      { workers: 16, threadGroups: 0, threads: undefined },
    ],
    [
      "a GPU runs a few chunks, as many as fit into its memory",
      [auto, { cores: 16, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 9 * GIB }, { bytes: 3 * GIB }],
      { workers: 2, threadGroups: 0, threads: undefined, isOnGpu: true },
    ],
    [
      "a GPU without enough memory for the weights leaves the work to the processor",
      [auto, { cores: 16, availableMemoryBytes: 12 * GIB, gpuFreeBytes: 2 * GIB }, { bytes: 3 * GIB }],
      { workers: 3, threadGroups: 0, threads: undefined },
    ],
    [
      "no more than that, however large the GPU is",
      [auto, { cores: 64, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 140 * GIB }, { bytes: 3 * GIB }],
      { workers: 4, threadGroups: 0, threads: undefined, isOnGpu: true },
    ],
    [
      "a set number of threads",
      [
        { workers: "auto", threads_per_worker: 4 },
        { cores: 8, availableMemoryBytes: 64 * GIB },
        { bytes: 7e6 },
      ],
      { workers: 2, threadGroups: 0, threads: 4 },
    ],
    [
      "a set number of workers",
      [{ workers: 5, threads_per_worker: "auto" }, { cores: 2, availableMemoryBytes: GIB }, { bytes: 7e6 }],
      { workers: 5, threadGroups: 0, threads: undefined },
    ],
    [
      "six chunks for every core where their steps are made together",
      [auto, { cores: 2, availableMemoryBytes: 20 * GIB }, { bytes: 7e6, sharing: SHARING }],
      { workers: 12, threadGroups: 2, threads: undefined },
    ],
    [
      "no more of them than there is memory for",
      [auto, { cores: 16, availableMemoryBytes: 12 * GIB }, { bytes: 3 * GIB, sharing: SHARING }],
      { workers: 3, threadGroups: 16, threads: undefined },
    ],
    [
      "chunks of several threads share no steps",
      [
        { workers: "auto", threads_per_worker: 4 },
        { cores: 8, availableMemoryBytes: 64 * GIB },
        { bytes: 7e6, sharing: SHARING },
      ],
      { workers: 2, threadGroups: 0, threads: 4 },
    ],
    [
      "chunks that share steps have the encoder's memory once for each thread group",
      [
        auto,
        { cores: 2, availableMemoryBytes: 10 * GIB },
        { bytes: GIB, stateBytes: GIB / 2, encoderBytes: GIB, sharing: SHARING },
      ],
      { workers: 8, threadGroups: 2, threads: undefined },
    ],
    [
      "memory that all chunks share is needed once",
      [
        auto,
        { cores: 2, availableMemoryBytes: 10 * GIB },
        { bytes: GIB, sharedBytes: GIB, stateBytes: GIB / 2, encoderBytes: GIB, sharing: SHARING },
      ],
      { workers: 6, threadGroups: 2, threads: undefined },
    ],
    [
      "fewer chunks than thread groups have it each",
      [
        auto,
        { cores: 4, availableMemoryBytes: 10 * GIB },
        { bytes: GIB, stateBytes: GIB / 2, encoderBytes: 1.5 * GIB, sharing: SHARING },
      ],
      { workers: 3, threadGroups: 4, threads: undefined },
    ],
    [
      "chunks that make their own steps have it each",
      [
        auto,
        { cores: 8, availableMemoryBytes: 10 * GIB },
        { bytes: GIB, stateBytes: GIB / 2, encoderBytes: GIB },
      ],
      { workers: 4, threadGroups: 0, threads: undefined },
    ],
    [
      "a set number of workers that share steps",
      [
        { workers: 5, threads_per_worker: 1 },
        { cores: 2, availableMemoryBytes: GIB },
        { bytes: 7e6, sharing: SHARING },
      ],
      { workers: 5, threadGroups: 2, threads: 1 },
    ],
    [
      "four thread groups of eight chunks on a GPU, with few cores as well, whatever threads the config sets",
      [
        { workers: "auto", threads_per_worker: 2 },
        { cores: 2, availableMemoryBytes: GIB, gpuFreeBytes: 16 * GIB },
        { bytes: GIB, stateBytes: GIB / 4, sharing: SHARING },
      ],
      { workers: 32, threadGroups: 4, threads: 2, isOnGpu: true },
    ],
    [
      "no more of them than there is memory for on the GPU",
      [
        auto,
        { cores: 16, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 6 * GIB },
        { bytes: 3 * GIB, stateBytes: GIB / 4, sharing: SHARING },
      ],
      { workers: 4, threadGroups: 1, threads: undefined, isOnGpu: true },
    ],
    [
      "a thread group of the GPU for each eight of a set number of chunks",
      [
        { workers: 20, threads_per_worker: "auto" },
        { cores: 2, availableMemoryBytes: GIB, gpuFreeBytes: 6 * GIB },
        { bytes: 3 * GIB, sharing: SHARING },
      ],
      { workers: 20, threadGroups: 3, threads: undefined, isOnGpu: true },
    ],
    [
      "a GPU that does not report its free memory has few",
      [
        auto,
        { cores: 16, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 0 },
        { bytes: 3 * GIB, sharing: SHARING },
      ],
      { workers: 4, threadGroups: 1, threads: undefined, isOnGpu: true },
    ],
    [
      "steps are shared on the GPU alone",
      [
        auto,
        { cores: 16, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 80 * GIB },
        { bytes: 3 * GIB, sharing: { onProcessor: false, onGpu: true } },
      ],
      { workers: 32, threadGroups: 4, threads: undefined, isOnGpu: true },
    ],
    [
      "steps are shared on the processor alone",
      [
        auto,
        { cores: 16, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 80 * GIB },
        { bytes: 3 * GIB, sharing: { onProcessor: true, onGpu: false } },
      ],
      { workers: 4, threadGroups: 0, threads: undefined, isOnGpu: true },
    ],
    [
      "a model that does not fit on the GPU shares steps on the processor",
      [
        auto,
        { cores: 2, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 2 * GIB },
        { bytes: 3 * GIB, sharing: SHARING },
      ],
      { workers: 12, threadGroups: 2, threads: undefined },
    ],
  ];
  for (const [name, input, expected] of rows) {
    test(name, () => expect(chooseSizing(...input)).toEqual(expected));
  }
});

test("a model's memory on a GPU is that of its weights and of all its chunks", () => {
  const machine = { cores: 16, availableMemoryBytes: 64 * GIB, gpuFreeBytes: 24 * GIB };
  const needs = { bytes: GIB, stateBytes: GIB / 8, encoderBytes: GIB / 8, sharing: SHARING };
  expect(bytesOnGpu(auto, machine, needs)).toBe(9 * GIB);
  expect(bytesOnGpu(auto, { ...machine, gpuFreeBytes: GIB / 2 }, needs)).toBeUndefined();
  expect(bytesOnGpu(auto, { ...machine, gpuFreeBytes: undefined }, needs)).toBeUndefined();
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
