import { expect, test } from "bun:test";
import type { NativeFiles } from "../../native/native-files.ts";
import { engineOptions } from "../../testing/kits/test-config.ts";
import type { ChunkThreads } from "../protocol.ts";
import type { OpenRecognizer } from "../recognizer.ts";
import { createWorker } from "./worker.ts";

/** What a worker process computes a chunk with on which device, with a recognizer made of closures. */

const SAMPLES = 1_600;

async function usedOn(device: string, request: Partial<ChunkThreads>): Promise<Partial<ChunkThreads>> {
  let used: Partial<ChunkThreads> = {};
  const open: OpenRecognizer = async () => ({
    info: { libraryVersion: "1", cpuVariant: "x", plainerVariants: [], devices: [], backendFailures: [] },
    load: async () => ({
      device,
      async recognize(_samples, _settings, options) {
        used = options;
        return { segments: [] };
      },
    }),
  });
  const worker = createWorker(
    () => {},
    async () => "",
    open,
  );
  await worker.handle({
    ...{ type: "start", nativeFiles: {} as NativeFiles, backendDirs: [], avoidedVariants: [] },
    ...{ engine: engineOptions(), opens: ["whisper"] },
  });
  await worker.handle({ type: "load", files: {}, device: "auto" });
  const audio = { pcm: new Uint8Array(2 * SAMPLES), totalSamples: SAMPLES };
  await worker.handle({
    ...{ type: "transcribe", id: 1, audio, settings: { language: "en" }, threads: 1 },
    ...request,
  });
  return used;
}

test.each([
  ["Vulkan0", { threadGroups: 1, groupsAreOnGpu: true }, 1],
  ["cpu", { threadGroups: 4, groupsAreOnGpu: false }, 4],
  ["cpu", { threadGroups: 1, groupsAreOnGpu: true }, 0],
  ["Vulkan0", { threadGroups: 4, groupsAreOnGpu: false }, 0],
])("on %s with %o, a chunk shares steps in %d thread groups", async (device, request, threadGroups) => {
  expect((await usedOn(device, request)).threadGroups).toBe(threadGroups);
});

test("a chunk has the threads and the niceness that its request names", async () => {
  const named = { threads: 3, threadGroups: 4, groupThreads: 2, niceness: 10 };
  expect(await usedOn("cpu", named)).toMatchObject(named);
});
