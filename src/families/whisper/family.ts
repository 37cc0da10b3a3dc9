import { fileOf, type InstalledModel, type ModelManifest, modelLanguageOf } from "../../domain/model.ts";
import type { RecognizerSettings } from "../../domain/recognition.ts";
import { type TranscriptionRequest, textLanguageOf } from "../../domain/transcription.ts";
import { conversionOf, letterChoicesOf } from "../../pipeline/letter-conversion.ts";
import { heldBackCharacter, ownSentenceOf, promptFor } from "../../pipeline/wording.ts";
import type { ModelFamily } from "../contract.ts";
import { givenGgml, whisperLanguages } from "./adding.ts";
import { chooseHeads, type MeasuredHead, movedDelayMs, needsMeasuring } from "./alignment-heads.ts";
import { draftFault, draftHindrance } from "./drafting.ts";
import { NO_TIMESTAMPS, whisperKeys, whisperTuning } from "./keys.ts";
import { checkModelFile, isMultilingual, readHead } from "./model-file.ts";
import { whisperNeeds } from "./needs.ts";
import type { WhisperSettings } from "./settings.ts";

/** whisper.cpp treats sound of exactly this length as one window. */
const WINDOW_MS = 30_000;

/** Below it, one word in ten is right (docs/engine.md section 8). */
const UNKNOWN_BELOW = 0.4;

/** Samples instead of greedy choice. Samples rarely lead into the same loop or wrong script again. */
const SECOND_ATTEMPT = { temperature: 0.4, strategy: { name: "greedy", bestOf: 5 } } as const;

/** Looks at a file of weights. @throws Error with the reason why whisper.cpp could not use it */
type LookAtFile = (path: string) => { multilingual: boolean };

/**
 * Makes the family of models of the Whisper architecture, as whisper.cpp runs them.
 *
 * @param look replaced in tests whose files are no weights
 */
export const createWhisperFamily = (look: LookAtFile): ModelFamily => ({
  name: "whisper",
  title: "Whisper",
  engine: "whisper",
  keys: whisperKeys,
  mayUseGpu: true,
  canTimeWords,
  canTranslate,
  drafting: { fault: draftFault, hindrance: draftHindrance },
  canQuantise: true,
  given: givenGgml,
  check: (files) => void look(fileOf(files, "weights")),
  describe: (files, { languages, decoding = {} }) => ({
    family: "whisper",
    languages: whisperLanguages(languages, files ? look(fileOf(files, "weights")) : { multilingual: true }),
    decoding,
  }),
  needs: whisperNeeds,
  trial: {
    hasLanguageParts: false,
    knowsEnglish: true,
    letterChoices: (language, decoding) =>
      letterChoicesOf(language, whisperTuning(decoding).acceptsPrompt !== false),
    withoutTimestamps: {
      flag: NO_TIMESTAMPS,
      decodingOf(decoding) {
        const own = whisperTuning(decoding);
        if (own.timestamps === false) return undefined;
        return { ...decoding, tuning: { [whisperKeys.tuning]: { ...own, timestamps: false } } };
      },
    },
    measuring: {
      settings(settings, { files, decoding }) {
        const shape = readHead(fileOf(files, "weights"));
        const isKnown = shape === undefined || !needsMeasuring(shape);
        if (isKnown || whisperTuning(decoding).alignmentHeads !== undefined) return undefined;
        return { ...settings, ...{ words: true, measuresHeads: true } };
      },
      decoding(decoding, measured) {
        const alignmentHeads = chooseHeads(measured as readonly MeasuredHead[]);
        return {
          ...decoding,
          tuning: { [whisperKeys.tuning]: { ...whisperTuning(decoding), alignmentHeads } },
        };
      },
    },
    wordStarts: {
      mayCorrect: (model) =>
        whisperTuning(model.decoding).alignmentDelayMs === undefined && canTimeWords(model),
      earlier({ files, decoding }, lateMs) {
        const shape = readHead(fileOf(files, "weights"));
        const own = whisperTuning(decoding);
        const alignmentDelayMs = shape && movedDelayMs(shape, own, lateMs);
        if (alignmentDelayMs === undefined) return undefined;
        return { ...decoding, tuning: { [whisperKeys.tuning]: { ...own, alignmentDelayMs } } };
      },
    },
  },
  windowMs: WINDOW_MS,
  maxChunkMs: WINDOW_MS,
  writesPunctuation: true,
  unknownBelow: UNKNOWN_BELOW,
  settingsFor: whisperSettings,
  inOwnLetters: (text, { language }, model) => conversionOf(language, model)?.convert(text) ?? text,
  secondAttempt: (settings): RecognizerSettings => ({ ...settings, ...SECOND_ATTEMPT }),
  singlePass: (settings): RecognizerSettings => ({ ...settings, ...{ temperatureIncrement: 0 } }),
});

export const whisperFamily = createWhisperFamily(checkModelFile);

/** Reports whether words of a model can have times: its manifest names no heads that it lacks, and does not say that it has none. */
function canTimeWords({ files, decoding }: Pick<InstalledModel, "files" | "decoding">): boolean {
  const heads = whisperTuning(decoding).alignmentHeads;
  if (heads === undefined) return true;
  const shape = readHead(fileOf(files, "weights"));
  return (
    shape !== undefined &&
    heads.length > 0 &&
    heads.every(([layer, head]) => layer < shape.textLayers && head < shape.textHeads)
  );
}

/**
 * Reports whether a model can translate: its manifest says so, or it has the shape of those that were trained for it. Whisper's own
 * multilingual models have as many layers in the decoder as in the encoder. Large-v3-turbo and distilled ones have fewer, and were
 * trained to transcribe alone (openai/whisper, discussion 2363).
 */
function canTranslate({ files, decoding }: Pick<InstalledModel, "files" | "decoding">): boolean {
  const { translates } = whisperTuning(decoding);
  if (translates !== undefined) return translates;
  const shape = readHead(fileOf(files, "weights"));
  return shape !== undefined && isMultilingual(shape) && shape.textLayers === shape.audioLayers;
}

/** Returns Whisper's reference settings, changed by the model's manifest. */
export function whisperSettings(
  request: Pick<TranscriptionRequest, "language" | "mode" | "task">,
  model: Pick<ModelManifest, "languages" | "decoding">,
): WhisperSettings {
  const { language, mode } = request;
  const written = textLanguageOf(request);
  const whisper = whisperTuning(model.decoding);
  const beamSize = whisper.beamSize ?? 1;
  const heldBack = heldBackCharacter(written, mode, conversionOf(written, model)?.scripts);
  const isPrompted = model.languages.find(({ code }) => code === written)?.letters === "prompted";
  const sentence = promptFor(written, mode) ?? (isPrompted ? ownSentenceOf(written) : undefined);
  const initialPrompt = whisper.acceptsPrompt === false ? undefined : sentence;
  return {
    language: modelLanguageOf(model, language),
    // English speech is written as it was said.
    ...(written === language ? {} : { translates: true }),
    strategy: beamSize > 1 ? { name: "beam", beamSize, bestOf: beamSize } : { name: "greedy", bestOf: 1 },
    temperature: 0,
    temperatureIncrement: whisper.temperatureIncrement ?? 0.2,
    entropyThreshold: whisper.entropyThreshold ?? 2.4,
    logprobThreshold: -1,
    noSpeechThreshold: 0.6,
    suppressNonSpeech: true,
    ...(whisper.timestamps === false ? { timestamps: false } : {}),
    ...(whisper.alignmentHeads === undefined ? {} : { alignmentHeads: whisper.alignmentHeads }),
    ...(whisper.alignmentDelayMs === undefined ? {} : { alignmentDelayMs: whisper.alignmentDelayMs }),
    maxTokens: 0,
    ...(heldBack === undefined ? {} : { heldBack }),
    ...(initialPrompt === undefined ? {} : { initialPrompt }),
  };
}
