import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import { fileOf } from "../../domain/model.ts";
import type { RecognizedSegment, RecognizerSettings } from "../../domain/recognition.ts";
import { checkTdtFile, type TdtModelInfo } from "../../families/tdt/model-file.ts";
import { usesOwnKernels } from "../../families/whisper/step-sharing.ts";
import { onAbort } from "../../lib/abort.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import type { NativeTdtTokens, TdtAddon, TdtHandle } from "../../native/whisper/whisper-addon.ts";
import { segmentsOf } from "../ctc/ctc-text.ts";
import { requireProcessor } from "../devices.ts";
import { longEnough, quietNoise } from "../probe-sound.ts";
import type { LoadedRecognizer, MachineCode, Recognizer } from "../recognizer.ts";
import { openGgml } from "../whisper/whisper.ts";
import { spelledTokens } from "./tdt-text.ts";

/** Time between two frames of features. */
const FEATURE_MS = 10;
/** Shorter audio is filled up with silence: the encoder's convolutions need some frames. */
const LEAST_SAMPLES = 1_600;
/** NeMo takes the frame in which a token is written for the beginning of its word. No model of real size was at hand to measure. */
const WORD_DELAY_MS = 0;
/** Length of the noise on which a loaded model is tried. */
const TRIAL_SECONDS = 1;

/**
 * Opens the recognizer of TDT models, which computes with the same ggml as whisper.cpp.
 *
 * @throws Error when its files do not load or hold no code for this processor
 */
export function openTdtRecognizer(
  nativeFiles: NativeFiles,
  { avoidedVariants, engine }: MachineCode,
): Recognizer {
  const { addon, version, cpuVariant, plainerVariants } = openGgml(
    nativeFiles.dir,
    [],
    avoidedVariants,
    usesOwnKernels(engine),
  );
  return {
    info: { libraryVersion: version, cpuVariant, plainerVariants, devices: [], backendFailures: [] },
    async load(files, device) {
      requireProcessor(device);
      const path = fileOf(files, "weights");
      const info = checkTdtFile(path);
      const model = await addon.loadTdt(path);
      await addon.runTdt(model, quietNoise(TRIAL_SECONDS * SAMPLE_RATE_HZ), {
        groups: 0,
        threads: 1,
        niceness: 0,
      }).promise;
      return recognizerOf(addon, model, info);
    },
  };
}

function recognizerOf(addon: TdtAddon, model: TdtHandle, info: TdtModelInfo): LoadedRecognizer {
  return {
    device: "cpu",
    recognize: async (
      samples,
      settings,
      { signal, threads, threadGroups = 0, groupThreads = 1, niceness = 0 },
    ) => {
      signal.throwIfAborted();
      const run = addon.runTdt(model, longEnough(samples, LEAST_SAMPLES), {
        groups: threadGroups,
        threads: threadGroups > 0 ? groupThreads : threads,
        niceness,
      });
      const unwatch = onAbort(signal, () => run.abort());
      try {
        const found = await run.promise;
        signal.throwIfAborted();
        return { segments: toSegments(found, samples.length, settings, info) };
      } catch (error) {
        signal.throwIfAborted();
        throw error;
      } finally {
        unwatch();
      }
    },
  };
}

function toSegments(
  { ids, starts, durations, probabilities }: NativeTdtTokens,
  samples: number,
  { language, words = false }: RecognizerSettings,
  { shape, tokens }: TdtModelInfo,
): RecognizedSegment[] {
  const written = Array.from(ids, (id, n) => {
    const first = starts[n] ?? 0;
    return {
      id,
      first,
      last: first + Math.max(1, durations[n] ?? 0) - 1,
      probability: probabilities[n] ?? 0,
    };
  });
  const spelled = spelledTokens(written, tokens);
  return segmentsOf(spelled.tokens, spelled.texts, {
    frameMs: shape.factor * FEATURE_MS,
    audioMs: (samples * 1000) / SAMPLE_RATE_HZ,
    language,
    ...(words ? { words: { delayMs: WORD_DELAY_MS } } : {}),
    // The model itself says how long a token is, where it has durations.
    ...(shape.durations.length > 0 ? { tailMs: 0 } : {}),
  });
}
