import { expect, test } from "bun:test";
import type { NativeFiles } from "../native-files.ts";
import type { OpenRecognizer } from "../recognizer.ts";
import { createWorker } from "./worker.ts";

/** Which lanes a worker process uses on which device, with a recognizer made of closures. */

const SAMPLES = 1_600;

async function lanesOn(
  device: string,
  { lanes, lanesAreOnGpu }: { lanes: number; lanesAreOnGpu: boolean },
): Promise<number | undefined> {
  let used: number | undefined;
  const open: OpenRecognizer = async () => ({
    info: { libraryVersion: "1", cpuVariant: "x", plainerVariants: [], devices: [], backendFailures: [] },
    load: async () => ({
      device,
      async recognize(_samples, _settings, options) {
        used = options.lanes;
        return [];
      },
    }),
  });
  const worker = createWorker(() => {}, open);
  await worker.handle({
    ...{ type: "start", nativeFiles: {} as NativeFiles, backendDirs: [], avoidedVariants: [] },
    ...{ precision: "fast", opens: ["whisper"] },
  });
  await worker.handle({ type: "load", files: {}, device: "auto" });
  const audio = { pcm: new Uint8Array(2 * SAMPLES), totalSamples: SAMPLES };
  await worker.handle({
    ...{ type: "transcribe", id: 1, audio, settings: { language: "en" }, threads: 1 },
    ...{ lanes, lanesAreOnGpu },
  });
  return used;
}

test.each([
  ["Vulkan0", { lanes: 1, lanesAreOnGpu: true }, 1],
  ["cpu", { lanes: 4, lanesAreOnGpu: false }, 4],
  ["cpu", { lanes: 1, lanesAreOnGpu: true }, 0],
  ["Vulkan0", { lanes: 4, lanesAreOnGpu: false }, 0],
])("on %s with %o, a chunk shares steps in %d lanes", async (device, request, lanes) => {
  expect(await lanesOn(device, request)).toBe(lanes);
});
