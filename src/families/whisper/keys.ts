import { languageOf } from "../../domain/languages.ts";
import { LETTER_WAYS, type ModelDecoding } from "../../domain/model.ts";
import { matching, oneOf, trueOrFalse, within } from "../checks.ts";
import type { FamilyKeys } from "../contract.ts";
import { type AlignmentHead, MOST_DELAY_MS } from "./alignment-heads.ts";

/** Settings of Whisper's decoder for particular weights. */
export type WhisperTuning = {
  /** Beams of the search; 1 is greedy. */
  beamSize?: number;
  /** Step of the temperature fallback; 0: no fallback. */
  temperatureIncrement?: number;
  /** Token entropy below which a window is recognized again. */
  entropyThreshold?: number;
  /** False: an initial prompt makes this model worse, so no mode uses one. */
  acceptsPrompt?: boolean;
  /** False: the weights were trained without timestamps; the times of segments are those of the speech. */
  timestamps?: boolean;
  /** Whether the weights can translate to English. Left out: where they have the shape of those that can. */
  translates?: boolean;
  /** The heads with which words get times; none: words get no times. Left out: those of the model's shape. */
  alignmentHeads?: readonly AlignmentHead[];
  /** How long after a token is heard these look at it, milliseconds; less than 0: before. Left out: that of the model's shape. */
  alignmentDelayMs?: number;
};

/** Returns the settings that a manifest has for Whisper's decoder. */
export const whisperTuning = ({ tuning }: ModelDecoding): WhisperTuning => tuning?.whisper ?? {};

/** The flag of `shruti models add` for weights that were trained without timestamps. */
export const NO_TIMESTAMPS = "--no-timestamps";

/** Most layers of a model, and most heads of a layer. */
const MOST_OF_EACH = 128;

/** Reads pairs of a layer and a head, each pair once; undefined for anything else. */
function toHeads(value: unknown): AlignmentHead[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const heads = value.map((pair: unknown) => (Array.isArray(pair) ? pair : []));
  const isPlace = (place: unknown) => within(0, MOST_OF_EACH - 1, true)(place) === undefined;
  const isRight = heads.every((pair) => pair.length === 2 && pair.every(isPlace));
  if (!isRight) return undefined;
  const read = heads.map(([layer, head]): AlignmentHead => [Number(layer), Number(head)]);
  return new Set(read.map(String)).size === read.length ? read : undefined;
}

export const whisperKeys: FamilyKeys = {
  tuning: "whisper",
  decoding: {
    beam_size: { field: "beamSize", check: within(1, 8, true), read: Number },
    temperature_increment: { field: "temperatureIncrement", check: within(0, 1, false), read: Number },
    entropy_threshold: { field: "entropyThreshold", check: within(0, 100, false), read: Number },
    accepts_prompt: { field: "acceptsPrompt", check: trueOrFalse },
    timestamps: {
      field: "timestamps",
      check: trueOrFalse,
      option: {
        flags: NO_TIMESTAMPS,
        help: "for weights that were trained without timestamps: times come from the speech",
      },
    },
    translates: {
      field: "translates",
      check: trueOrFalse,
      option: {
        flags: "--no-translation",
        help: "for weights that have forgotten to translate, such as those that were trained further with one language",
      },
    },
    alignment_heads: {
      field: "alignmentHeads",
      check: (value) =>
        toHeads(value) ? undefined : "must be a list of pairs: a layer and a head, each pair once",
      read: toHeads,
    },
    alignment_delay_ms: {
      field: "alignmentDelayMs",
      check: within(-MOST_DELAY_MS, MOST_DELAY_MS, true),
      read: Number,
    },
  },
  languages: {
    decoder_language: {
      field: "decoderLanguage",
      check: matching(/^[a-z]{2,3}$/, "one of whisper's language codes"),
    },
    letters: { field: "letters", check: oneOf(LETTER_WAYS) },
  },
  languageFault({ code, decoderLanguage }) {
    const known = languageOf(code);
    const isUnknown = decoderLanguage === undefined && known && known.whisperCode === undefined;
    return isUnknown
      ? { key: "decoder_language", problem: `is missing: whisper has no language ${code}` }
      : undefined;
  },
};
