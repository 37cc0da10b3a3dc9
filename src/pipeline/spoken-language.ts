import { type ModelManifest, modelLanguageOf } from "../domain/model.ts";
import type { RecognizedSegment } from "../domain/recognition.ts";
import type { LanguageCandidate } from "../domain/result.ts";
import type { TranscriptionRequest } from "../domain/transcription.ts";

/** Less speech than this says little about the language. */
const SHORTEST_MS = 3_000;
/** The model's estimate is steady once there is this much speech. */
const STEADY_MS = 10_000;
/** A language is named when it is at least this probable. */
const NAMED = 0.05;

/**
 * What the estimates must be for a mismatch, in one of these ways: another language at least so probable, and the asked one
 * at most. The surer a model is that it is not the asked language, the less sure it need be which one it is.
 */
const SURE = [
  { other: 0.5, asked: 0.05 },
  { other: 0.35, asked: 0.01 },
];
/** The same for speech of less than `STEADY_MS`. */
const SURE_IF_SHORT = [{ other: 0.9, asked: 0.01 }];

/** Languages that sound alike to a model, whatever they are written in: base takes Assamese for Bengali. */
const ALIKE: readonly (readonly string[])[] = [
  ["hi", "ur"],
  ["as", "bn"],
];

/** Returns one code for all languages that sound alike. */
function soundOf(code: string): string {
  const alike = ALIKE.find((codes) => codes.includes(code));
  return alike?.[0] ?? code;
}

/** What a chunk tells about the language. */
export type ChunkLanguages = { speechMs: number; languages: readonly LanguageCandidate[] };

/**
 * Returns the languages that a chunk may be in. Models know some languages under codes of their own: these become the
 * codes of the manifest, and the request's where several have the same.
 *
 * @returns the most probable first; empty where the model cannot tell
 */
export function spokenLanguages(
  segments: readonly RecognizedSegment[],
  model: Pick<ModelManifest, "languages">,
  asked: string,
): LanguageCandidate[] {
  const heard = segments.find(({ spokenLanguages: found = [] }) => found.length > 0)?.spokenLanguages ?? [];
  const codes = [asked, ...model.languages.map(({ code }) => code)];
  return heard.map(({ language, probability }) => ({
    language: codes.find((code) => modelLanguageOf(model, code) === language) ?? language,
    probability,
  }));
}

/**
 * Judges whether another language is spoken than the request says, from what the model's own estimate says of each chunk.
 *
 * @returns the candidates, the most probable first, when the estimate is sure; otherwise undefined
 */
export function mismatchedLanguages(
  { language, mode }: Pick<TranscriptionRequest, "language" | "mode">,
  chunks: readonly ChunkLanguages[],
): LanguageCandidate[] | undefined {
  const told = chunks.filter(({ languages }) => languages.length > 0);
  const speechMs = told.reduce((sum, chunk) => sum + chunk.speechMs, 0);
  if (speechMs < SHORTEST_MS) return undefined;
  const averages = new Map<string, number>();
  for (const chunk of told)
    for (const { language: code, probability } of chunk.languages)
      averages.set(code, (averages.get(code) ?? 0) + (probability * chunk.speechMs) / speechMs);
  // Speech in codemix has English in it.
  const isAsked = (sound: string) => sound === soundOf(language) || (mode === "codemix" && sound === "en");
  const sounds = new Map<string, number>();
  for (const [code, mean] of averages) sounds.set(soundOf(code), (sounds.get(soundOf(code)) ?? 0) + mean);
  let asked = 0;
  let other = 0;
  for (const [sound, mean] of sounds) {
    if (isAsked(sound)) asked += mean;
    else other = Math.max(other, mean);
  }
  const ways = speechMs < STEADY_MS ? SURE_IF_SHORT : SURE;
  if (!ways.some((sure) => other >= sure.other && asked <= sure.asked)) return undefined;
  return [...averages]
    .map(([code, probability]) => ({ language: code, probability }))
    .filter(({ probability }) => probability >= NAMED)
    .sort((a, b) => b.probability - a.probability);
}
