import { SAMPLE_RATE_HZ } from "../../domain/chunk.ts";
import type { DevicePreference } from "../../domain/engine-options.ts";
import { type DraftModel, fileOf } from "../../domain/model.ts";
import { alignmentOf, allHeads } from "../../families/whisper/alignment-heads.ts";
import { draftHindrance } from "../../families/whisper/drafting.ts";
import { readHead } from "../../families/whisper/model-file.ts";
import type { WhisperSettings } from "../../families/whisper/settings.ts";
import { stepSharing, usesOwnKernels } from "../../families/whisper/step-sharing.ts";
import { errorMessage } from "../../lib/error-message.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import { readProcessor } from "../../native/processor.ts";
import { chooseDevice } from "../devices.ts";
import type { MachineCode, Recognizer } from "../recognizer.ts";
import { encodingInSteps, stepsOfSpeech } from "./effort.ts";
import { recognizeUntimed } from "./untimed.ts";
import { openWhisper, type Whisper } from "./whisper.ts";
import type { LoadedModel } from "./whisper-model.ts";
import { windowFrames } from "./window.ts";

/** The decoder notices after a step, with all of its samples, that nothing is left. */
const LAST_STEP = 2;

/**
 * Opens whisper.cpp as a recognizer.
 *
 * @throws Error when its files do not load or hold no code for this processor
 */
export function openWhisperRecognizer(nativeFiles: NativeFiles, code: MachineCode): Recognizer {
  const { backendDirs, avoidedVariants, engine } = code;
  return recognizerOf(
    openWhisper(nativeFiles.dir, backendDirs, avoidedVariants, usesOwnKernels(engine)),
    code,
  );
}

/**
 * Makes a recognizer of a loaded whisper.cpp.
 *
 * @param code what it was loaded with
 */
export function recognizerOf(whisper: Whisper, { engine }: Pick<MachineCode, "engine">): Recognizer {
  const { version, cpuVariant, plainerVariants, devices, backendFailures } = whisper;
  // Exact results are those of whisper.cpp as it comes, which encodes whole windows.
  const fitsWindow = usesOwnKernels(engine);
  return {
    info: { libraryVersion: version, cpuVariant, plainerVariants, devices, backendFailures },
    async load(files, preference, draft) {
      const weights = fileOf(files, "weights");
      const head = readHead(weights);
      const sharesSteps =
        head !== undefined && stepSharing(head, { engine, processorFlags: new Set() }).onGpu;
      const hindrance =
        draft && draftHindrance(files, { engine, processorFlags: readProcessor()?.flags ?? new Set() });
      const drafts = hindrance === undefined ? draft : undefined;
      const { model, ...loaded } = await loadModel(whisper, weights, preference, {
        sharesSteps,
        draft: drafts,
      });
      const draftFailure = hindrance ?? loaded.draftFailure;
      return {
        ...loaded,
        ...(draftFailure === undefined ? {} : { draftFailure }),
        async recognize(samples, settings, { signal, ...run }) {
          const whisperSettings = settings as WhisperSettings;
          const { effort, language, translates } = settings;
          const written = translates ? "en" : language;
          const encoding = (of: number) => (head ? encodingInSteps(head, windowFrames(of, fitsWindow)) : 0);
          const ofSamples = ((effort?.ofMs ?? 0) * SAMPLE_RATE_HZ) / 1000;
          const good = effort && encoding(ofSamples) + stepsOfSpeech(written, effort.ofMs);
          const encoderSteps = encoding(samples.length);
          const budget = effort && good ? { left: effort.most * good - LAST_STEP, encoderSteps } : undefined;
          const heads = head && settings.words ? alignmentOf(head, whisperSettings) : {};
          const isDrafted = draftFailure === undefined && draft?.languageCodes.includes(language) === true;
          const drafting = isDrafted ? { drafted: 0, accepted: 0 } : undefined;
          const options = { ...whisperSettings, ...heads, ...run, budget, fitsWindow, drafting };
          if (head && whisperSettings.measuresHeads) {
            const measured = await model.measure(
              samples,
              { ...options, alignmentHeads: allHeads(head) },
              signal,
            );
            return { segments: [], measured };
          }
          const before = budget?.left ?? 0;
          const found =
            options.timestamps === false
              ? await recognizeUntimed(model, samples, options, signal)
              : await model.recognize(samples, options, signal);
          const segments = found.map(({ tokens: _tokens, ...segment }) => segment);
          return {
            segments,
            ...(budget && good ? { effort: (before - budget.left) / good } : {}),
            ...(drafting ? { draft: drafting } : {}),
          };
        },
      };
    },
  };
}

/** How weights are loaded. `sharesSteps`: chunks share decoding steps on a GPU. `draft`: the model that drafts. */
type Loading = { sharesSteps?: boolean; draft?: DraftModel | undefined };

/** Why a draft model is not used beside a GPU. */
const ON_GPU = "the model runs on a GPU";

/**
 * Loads weights on the preferred device. Under `auto` the processor takes the place of a GPU that cannot load them.
 *
 * @throws Error when the weights or the device cannot be used
 */
export async function loadModel(
  whisper: Pick<Whisper, "devices" | "load">,
  weightsPath: string,
  preference: DevicePreference,
  { sharesSteps = false, draft }: Loading = {},
): Promise<{ model: LoadedModel; device: string; gpuFailure?: string; draftFailure?: string }> {
  const { name, use } = chooseDevice(whisper.devices, preference);
  const load = async (device: typeof use) => {
    const draftPath = draft && device === "cpu" ? fileOf(draft.files, "weights") : undefined;
    const model = await whisper.load(weightsPath, { device, flashAttention: true, sharesSteps, draftPath });
    const draftFailure = draft && device !== "cpu" ? ON_GPU : model.draftFailure;
    return { model, ...(draftFailure === undefined ? {} : { draftFailure }) };
  };
  try {
    return { ...(await load(use)), device: name };
  } catch (error) {
    if (preference !== "auto" || use === "cpu") throw error;
    const gpuFailure = errorMessage(error);
    return { ...(await load("cpu")), device: "cpu", gpuFailure };
  }
}
