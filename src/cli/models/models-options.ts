import { InvalidArgumentError } from "commander";
import { MODES, type Mode } from "../../domain/transcription.ts";
import { WEIGHT_TYPES, type WeightType } from "../../model-import/quantise.ts";
import type { AddModelOptions } from "../../services/models/models.ts";
import { PUNCTUATION_KIND } from "../../services/models/punctuation-model.ts";
import { SPEAKER_WEIGHT_KINDS, type SpeakerWeightKind } from "../../services/models/speaker-weights.ts";

/** Parsers of the options of `shruti models …`. */

/** What is installed beside the speech models. */
export type ModelKind = SpeakerWeightKind | typeof PUNCTUATION_KIND;

const MODEL_KINDS: readonly ModelKind[] = [...SPEAKER_WEIGHT_KINDS, PUNCTUATION_KIND];
export const KINDS = `${SPEAKER_WEIGHT_KINDS.join(", ")} or ${PUNCTUATION_KIND}`;

export function readKind(text: string): ModelKind {
  const kind = MODEL_KINDS.find((known) => known === text);
  if (!kind) throw new InvalidArgumentError(`It is ${KINDS}.`);
  return kind;
}

export function readWeightType(text: string): WeightType {
  const type = WEIGHT_TYPES.find((known) => known === text);
  if (!type) throw new InvalidArgumentError(`It is ${WEIGHT_TYPES.join(", ")}.`);
  return type;
}

export type GivenLanguage = NonNullable<AddModelOptions["languages"]>[number];

/** Parses a language such as `hi`, `hi:native+codemix`, `or=hi`, `or=hi:native` or `hi@1536-1791`. */
export function collectLanguage(text: string, collected: GivenLanguage[] = []): GivenLanguage[] {
  const pattern = /^([a-z]{2,3})(?:=([a-z]{2,3}))?(?:@(\d{1,7})-(\d{1,7}))?(?::([a-z+]+))?$/;
  const [, code, decoderLanguage, first, last, modes] = pattern.exec(text) ?? [];
  const names = modes?.split("+") ?? [];
  if (code === undefined || !names.every(isMode) || Number(first) > Number(last)) {
    throw new InvalidArgumentError("It is as hi, hi:native+codemix, or=hi, or=hi:native or hi@1536-1791.");
  }
  const language: GivenLanguage = { code };
  if (decoderLanguage !== undefined) language.decoderLanguage = decoderLanguage;
  if (first !== undefined) language.tokenSpan = { first: Number(first), last: Number(last) };
  if (modes !== undefined) language.modes = names.filter(isMode);
  return [...collected, language];
}

/** Parses several languages, such as `hi,mr,or=hi`. */
export function readLanguages(text: string): GivenLanguage[] {
  return text
    .split(",")
    .reduce<GivenLanguage[]>((collected, part) => collectLanguage(part.trim(), collected), []);
}

/** Parses several modes, such as `native,codemix`. */
export function readModes(text: string): Mode[] {
  const names = text.split(",").map((name) => name.trim());
  if (!names.every(isMode)) throw new InvalidArgumentError(`They are of ${MODES.join(", ")}.`);
  return names.filter(isMode);
}

function isMode(name: string): name is Mode {
  return MODES.some((mode) => mode === name);
}
