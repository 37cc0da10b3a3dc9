import { expect, test } from "bun:test";
import { join } from "node:path";
import type { Precision } from "../../domain/engine-options.ts";
import { FAMILIES } from "../../families/families.ts";
import type { NativeAddon, NativeModel, NativeParams } from "../../native/whisper/whisper-addon.ts";
import { engineOptions } from "../../testing/kits/test-config.ts";
import type { Whisper } from "./whisper.ts";
import { loadWhisperModel } from "./whisper-model.ts";
import { recognizerOf } from "./whisper-recognizer.ts";

/** What the recognizer asks the native side for. The native side itself finds nothing here. */

const DEMO = join(import.meta.dirname, "../../../models/demo.bin");

/** @returns whisper.cpp without its code, which adds the parameters of each call to a list */
function recording(asked: NativeParams[]): Whisper {
  const model: NativeModel = {
    info: { sharedSteps: 0, sharedTokens: 0 },
    tokens: () => ({ bytes: new Uint8Array(), ends: new Uint32Array() }),
    excluded: () => new Uint8Array(),
    transcribe(_samples, params) {
      asked.push(params);
      return {
        promise: Promise.resolve({ segments: [], heads: [], drafted: 0, accepted: 0, steps: 0 }),
        abort: () => {},
      };
    },
    draftWith: () => {},
    free: async () => {},
  };
  const addon = { WhisperModel: { load: async () => model } } as unknown as NativeAddon;
  return {
    ...{ version: "1.9.1", cpuVariant: "haswell", plainerVariants: [], devices: [], backendFailures: [] },
    load: (path, options) => loadWhisperModel(addon, [], path, options),
  };
}

/** Recognizes silence with settings of real work, and returns the parameters of the native calls. */
async function askedFor(seconds: number, precision: Precision, own: { timestamps?: boolean } = {}) {
  const asked: NativeParams[] = [];
  const loaded = await recognizerOf(recording(asked), { engine: engineOptions({ precision }) }).load(
    { weights: DEMO },
    "cpu",
  );
  const language = { code: "hi", name: "Hindi", modes: ["native" as const] };
  const model = { languages: [language], decoding: { tuning: { whisper: own } } };
  const settings = {
    ...FAMILIES.of("whisper").settingsFor({ language: "hi", mode: "native" }, model),
    effort: { ofMs: 1000 * seconds, most: 2.5 },
  };
  const { signal } = new AbortController();
  await loaded.recognize(new Float32Array(seconds * 16_000), settings, { threads: 1, signal });
  return asked;
}

test.each([
  ["a short chunk has a short window", 5, "fast", {}, 512],
  ["one of 20 s has a longer one", 20, "fast", {}, 1280],
  ["a full one has all of it", 30, "fast", {}, 1500],
  ["so has the text without timestamps", 5, "fast", { timestamps: false }, 512],
  ["exact results have a whole window", 5, "exact", {}, 1500],
] as const)("%s (%d s, %s, %o): %d frames", async (_, seconds, precision, own, frames) => {
  expect((await askedFor(seconds, precision, own)).map(({ windowFrames }) => windowFrames)).toEqual([frames]);
});

test("the budget counts the window that is encoded", async () => {
  const [short] = await askedFor(5, "fast");
  const [whole] = await askedFor(5, "exact");
  expect(whole?.encoderSteps).toBeGreaterThan(0);
  expect((short?.encoderSteps ?? 0) / (whole?.encoderSteps ?? 0)).toBeCloseTo(512 / 1500, 5);
});
