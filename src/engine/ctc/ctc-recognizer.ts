import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import { fileOf } from "../../domain/model.ts";
import { CTC_FAMILIES, type CtcModelInfo, checkCtcFiles } from "../../families/ctc/model-files.ts";
import type { CtcSettings } from "../../families/ctc/settings.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import {
  CTC_INPUT,
  CTC_LEAST_SAMPLES,
  finishRun,
  loadOnnx,
  type OnnxAddon,
  type OnnxSession,
} from "../../native/onnx/onnx-addon.ts";
import { requireProcessor } from "../devices.ts";
import type { Recognizer } from "../recognizer.ts";
import { segmentsOf, writtenTokens } from "./ctc-text.ts";

/** Time between two frames of features. */
const FEATURE_MS = 10;
const SAMPLE_MS = 1000 / SAMPLE_RATE_HZ;

/**
 * How long after the beginning of a word its first token is written, by family. Measured with the test model, whose frames
 * are 40 ms long, on words of 9 voices with known times (docs/engine.md section 6). No model of Omnilingual was at hand.
 */
const WORD_DELAY_MS: Readonly<Record<string, number>> = { [CTC_FAMILIES.nemo]: 50 };

/**
 * Opens the recognizer of a family of CTC models on the carried ONNX runtime.
 *
 * @throws Error when its libraries do not load
 */
export function openCtcRecognizer(family: string, nativeFiles: NativeFiles): Recognizer {
  const { addon, version } = loadOnnx(nativeFiles);
  return {
    info: {
      libraryVersion: "",
      cpuVariant: `onnxruntime ${version}`,
      plainerVariants: [],
      devices: [],
      backendFailures: [],
    },
    async load(files, device) {
      requireProcessor(device);
      const path = fileOf(files, "model");
      const info = checkCtcFiles(path, fileOf(files, "tokens"));
      if (info.family !== family)
        throw new Error(`${path} is a model of the family ${info.family}, not ${family}`);
      const session = await addon.open(path, 1);
      await tryOut(addon, session, info);
      return {
        device: "cpu",
        recognize: async (samples, settings, { signal }) => ({
          segments: await recognize(addon, session, info, samples, settings as CtcSettings, signal),
        }),
      };
    },
  };
}

/** Length of the noise on which a loaded model is tried. */
const TRIAL_SECONDS = 3;
/** The number of frames may differ by this much from what the subsampling factor says: padding is rounded. */
const FRAME_TOLERANCE = 2;

/**
 * Runs the net on noise and compares its frames with the subsampling factor of the metadata. With a wrong factor, times
 * would be wrong without any other sign.
 *
 * @throws Error when the net does not do what its metadata says
 */
async function tryOut(addon: OnnxAddon, session: OnnxSession, info: CtcModelInfo): Promise<void> {
  const { bins, factor } = info;
  const settings: CtcSettings = { language: "", features: "nemo" };
  const sound = noise(TRIAL_SECONDS * SAMPLE_RATE_HZ);
  const run = addon.run(session, sound, inputOf(info, settings), bins, allowedTokens(info, settings));
  const { ids, inputFrames } = await run.promise;
  if (Math.abs(ids.length - inputFrames / factor) > FRAME_TOLERANCE) {
    const found = Math.round(inputFrames / Math.max(1, ids.length));
    throw new Error(
      `the model makes ${ids.length} frames of ${inputFrames}: its ${info.family === CTC_FAMILIES.nemo ? "subsampling_factor" : "factor"} is ${factor} and should be about ${found}`,
    );
  }
  if (ids.includes(-1)) throw new Error("the model writes scores that are no numbers");
}

/** Returns quiet noise, the same at every call. */
function noise(count: number): Float32Array {
  const samples = new Float32Array(count);
  let state = 1;
  for (let n = 0; n < count; n++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    samples[n] = (state / 2 ** 32 - 0.5) * 0.02;
  }
  return samples;
}

async function recognize(
  addon: OnnxAddon,
  session: OnnxSession,
  info: CtcModelInfo,
  samples: Float32Array,
  settings: CtcSettings,
  signal: AbortSignal,
) {
  signal.throwIfAborted();
  const { tokens, blank, bins, factor } = info;
  const { language } = settings;
  const words = settings.words ? { words: { delayMs: WORD_DELAY_MS[info.family] ?? 0 } } : {};
  const allowed = allowedTokens(info, settings);
  const sound = longEnough(samples);
  const run = addon.run(session, sound, inputOf(info, settings), bins, allowed);
  const best = await finishRun(addon, run, signal);
  const frameMs = factor * (info.family === CTC_FAMILIES.nemo ? FEATURE_MS : SAMPLE_MS);
  const audioMs = (samples.length * 1000) / SAMPLE_RATE_HZ;
  return segmentsOf(writtenTokens(best, blank), tokens, { frameMs, audioMs, language, ...words });
}

function inputOf({ family }: CtcModelInfo, { features }: CtcSettings): number {
  return family === CTC_FAMILIES.nemo ? CTC_INPUT[features] : CTC_INPUT.samples;
}

/**
 * Returns 1 for each token that may be written, and for the blank.
 *
 * @throws RangeError when the model has no tokens of the span
 */
function allowedTokens(
  { tokens, blank }: CtcModelInfo,
  { tokenSpan, suppressTokens }: CtcSettings,
): Uint8Array {
  const { first = 0, last = tokens.length - 1 } = tokenSpan ?? {};
  if (last >= tokens.length || (tokenSpan && last >= blank && first <= blank)) {
    throw new RangeError(`the model has no token ${last}`);
  }
  const allowed = new Uint8Array(tokens.length);
  allowed.fill(1, first, last + 1);
  if (suppressTokens !== undefined) {
    const suppressed = new RegExp(`^(?:${suppressTokens})$`, "u");
    for (const [id, token] of tokens.entries()) if (suppressed.test(token)) allowed[id] = 0;
  }
  allowed[blank] = 1;
  return allowed;
}

/** Adds silence to audio that is too short for a frame. */
function longEnough(samples: Float32Array): Float32Array {
  if (samples.length >= CTC_LEAST_SAMPLES) return samples;
  const padded = new Float32Array(CTC_LEAST_SAMPLES);
  padded.set(samples);
  return padded;
}
