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
      whisperVersion: "",
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
      return {
        device: "cpu",
        recognize: (samples, settings, { signal }) =>
          recognize(addon, session, info, samples, settings as CtcSettings, signal),
      };
    },
  };
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

/** Returns 1 for each token of the span and for the blank, which is the last one. */
function allowedTokens(count: number, span: CtcSettings["tokenSpan"]): Uint8Array {
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
