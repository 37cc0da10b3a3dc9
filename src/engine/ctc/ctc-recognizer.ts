import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import type { CtcSettings } from "../../domain/ctc-settings.ts";
import { fileOf } from "../../domain/model.ts";
import type { NativeFiles } from "../native-files.ts";
import type { Recognizer } from "../recognizer.ts";
import { CTC_INPUT, CTC_LEAST_SAMPLES, type CtcAddon, type CtcSession, loadCtc } from "./ctc-addon.ts";
import { type CtcModelInfo, checkCtcFiles } from "./ctc-files.ts";
import { segmentsOf, writtenTokens } from "./ctc-text.ts";

/** Time between two frames of features. */
const FEATURE_MS = 10;

/**
 * Opens the recognizer of NeMo's CTC models on the carried ONNX runtime.
 *
 * @throws Error when its libraries do not load
 */
export function openCtcRecognizer(nativeFiles: NativeFiles): Recognizer {
  const { addon, version } = loadCtc(nativeFiles);
  return {
    info: {
      libraryVersion: "",
      cpuVariant: `onnxruntime ${version}`,
      plainerVariants: [],
      devices: [],
      backendFailures: [],
    },
    async load(files, device) {
      if (device !== "auto" && device !== "cpu") {
        throw new Error(`models of this family run on the processor, and engine.device is ${device}`);
      }
      const path = fileOf(files, "model");
      const info = checkCtcFiles(path, fileOf(files, "tokens"));
      const session = await addon.open(path, 1);
      await tryOut(addon, session, info);
      return {
        device: "cpu",
        recognize: (samples, settings, { signal }) =>
          recognize(addon, session, info, samples, settings as CtcSettings, signal),
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
async function tryOut(
  addon: CtcAddon,
  session: CtcSession,
  { tokens, bins, factor }: CtcModelInfo,
): Promise<void> {
  const allowed = allowedTokens(tokens.length, undefined);
  const run = addon.run(session, noise(TRIAL_SECONDS * SAMPLE_RATE_HZ), CTC_INPUT.nemo, bins, allowed);
  const { ids, inputFrames } = await run.promise;
  if (Math.abs(ids.length - inputFrames / factor) > FRAME_TOLERANCE) {
    const found = Math.round(inputFrames / Math.max(1, ids.length));
    throw new Error(
      `the model makes ${ids.length} frames of ${inputFrames}: its subsampling_factor is ${factor} and should be about ${found}`,
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
  addon: CtcAddon,
  session: CtcSession,
  { tokens, bins, factor }: CtcModelInfo,
  samples: Float32Array,
  { language, features, tokenSpan }: CtcSettings,
  signal: AbortSignal,
) {
  signal.throwIfAborted();
  const allowed = allowedTokens(tokens.length, tokenSpan);
  const { promise, number } = addon.run(session, longEnough(samples), CTC_INPUT[features], bins, allowed);
  const onAbort = () => addon.abort(number);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const best = await promise;
    signal.throwIfAborted();
    const frameMs = factor * FEATURE_MS;
    const audioMs = (samples.length * 1000) / SAMPLE_RATE_HZ;
    return segmentsOf(writtenTokens(best, tokens.length - 1), tokens, { frameMs, audioMs, language });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/**
 * Returns 1 for each token of the span and for the blank, which is the last one.
 *
 * @throws RangeError when the model has no such tokens
 */
function allowedTokens(count: number, span: CtcSettings["tokenSpan"]): Uint8Array {
  if (span && span.last >= count - 1) throw new RangeError(`the model has no token ${span.last}`);
  const allowed = new Uint8Array(count).fill(span ? 0 : 1);
  if (span) allowed.fill(1, span.first, span.last + 1);
  allowed[count - 1] = 1;
  return allowed;
}

/** Adds silence to audio that is too short for a frame. */
function longEnough(samples: Float32Array): Float32Array {
  if (samples.length >= CTC_LEAST_SAMPLES) return samples;
  const padded = new Float32Array(CTC_LEAST_SAMPLES);
  padded.set(samples);
  return padded;
}
