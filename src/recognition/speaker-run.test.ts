import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { EngineError } from "../engine/protocol.ts";
import { openRecognitionKit } from "../testing/kits/recognition-kit.ts";
import { until } from "../testing/kits/scheduler-kit.ts";
import { createMemoryCheckpoint } from "./checkpoint.ts";

const kit = openRecognitionKit();
afterAll(() => rmSync(kit.folder, { recursive: true, force: true }));

const INSTALLED = { segmentationPath: "segmentation.onnx", embeddingPath: "speaker.onnx" };
const CARRIED = { segmentationPath: "carried-1.bin", embeddingPath: "carried-2.bin" };
const TALK = { seconds: 20, text: "one", speakers: [0, 1] };
const request = { diarization: {} };

/** Recognizes a conversation, and lets `speakers` see each attempt at its speakers. */
async function talk(
  speakers: (weights: unknown) => Promise<void>,
  checkpoint = createMemoryCheckpoint(),
): Promise<unknown> {
  kit.engine.interfere({ speakers: (job) => speakers(job.weights) });
  return kit.recognize(kit.recordingOf(TALK), {
    checkpoint,
    request,
    tools: { speakerWeights: () => [INSTALLED, CARRIED] },
  });
}

describe("speakers", () => {
  const cases: [name: string, damaged: unknown[], attempts: unknown[], isWarned: boolean][] = [
    ["with the first nets", [], [INSTALLED], false],
    [
      "with the nets of the executable where installed ones are damaged",
      [INSTALLED],
      [INSTALLED, CARRIED],
      true,
    ],
    [
      "by the built-in method where all nets are damaged",
      [INSTALLED, CARRIED],
      [INSTALLED, CARRIED, undefined],
      true,
    ],
  ];
  test.each(cases)("are distinguished %s", async (_name, damaged, expected, isWarned) => {
    const attempts: unknown[] = [];
    const ending = await talk(async (weights) => {
      attempts.push(weights);
      if (damaged.includes(weights)) throw new EngineError("unusable_model", "the file is cut off");
    });
    expect(attempts).toEqual(expected);
    expect(ending).toMatchObject({ kind: "result", result: { status: "completed" } });
    const { warnings = [] } = (ending as { result: { warnings?: string[] } }).result;
    expect(warnings.includes("speaker_count_uncertain")).toBe(isWarned);
  });

  test.each([
    ["where the request asks for them", request, 2_000],
    ["and none where it does not", {}, 0],
  ])("have their time reported, %s", async (_title, asked, elapsedMs) => {
    const reported: number[][] = [];
    let atMs = 1_000;
    kit.engine.interfere({
      speakers: async () => {
        atMs += 2_000;
      },
    });
    await kit.recognize(kit.recordingOf(TALK), {
      checkpoint: createMemoryCheckpoint(),
      request: asked,
      tools: {
        clock: { now: () => atMs },
        onSpeakers: (recordingMs: number, time: number) =>
          void reported.push([Math.round(recordingMs), time]),
      },
    });
    expect(reported).toEqual([[20_000, elapsedMs]]);
  });

  test("are distinguished while the last chunk is still recognized", async () => {
    const release = kit.engine.hold();
    const began = Promise.withResolvers<void>();
    const ending = talk(async () => began.resolve());
    // Without this, the test would wait for ever.
    await began.promise;
    release();
    expect(await ending).toMatchObject({ kind: "result", result: { status: "completed" } });
  });

  test("are a part of the progress: with all text and no speakers it is a half", async () => {
    const shares: number[] = [];
    const checkpoint = createMemoryCheckpoint((share) => shares.push(share));
    // The speakers wait until all chunks have their text.
    const hasText = async () => (await checkpoint.chunks()).every(({ state }) => state === "done");
    await talk(() => until("all text", hasText), checkpoint);
    expect(shares.filter((share) => share < 1).at(-1)).toBeCloseTo(0.5, 5);
    expect(shares.at(-1)).toBe(1);
  });
});
