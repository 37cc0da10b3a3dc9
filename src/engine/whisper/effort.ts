import { languageOf, type Script } from "../../domain/languages.ts";
import type { WhisperHead } from "../../families/whisper/model-file.ts";

/**
 * What recognition costs, in decoding steps: a step writes a token. Steps do not depend on the machine and on what else
 * runs there.
 */

/** The encoder multiplies each of its weights so many times as fast as a step, which waits for memory. */
const ENCODER_SPEED = 11;

/**
 * Returns how many steps take as long as the encoding of a window: weights of the encoder, times frames, over those that a
 * step reads. Measured with base: a whole window 231 ms, a step 4.6 ms (patches/README.md).
 *
 * @param frames of the window
 */
export function encodingInSteps(
  { width, audioLayers, textLayers, vocab }: WhisperHead,
  frames: number,
): number {
  const encoder = 12 * width ** 2 * audioLayers;
  const step = 16 * width ** 2 * textLayers + vocab * width;
  return (encoder * frames) / (step * ENCODER_SPEED);
}

/** Tokens of a second of speech with Whisper's vocabulary, in scripts that it spells with few or many tokens. */
const TOKENS_PER_SECOND: Partial<Record<Script, number>> = { Latin: 6, Arabic: 12, Devanagari: 15 };
const MOST_TOKENS_PER_SECOND = 25;

/**
 * Returns how many steps clear speech takes.
 *
 * @param language a code of whisper
 */
export function stepsOfSpeech(language: string, ms: number): number {
  const script = languageOf(language)?.scripts[0];
  const perSecond = script === undefined ? undefined : TOKENS_PER_SECOND[script];
  return ((perSecond ?? MOST_TOKENS_PER_SECOND) * ms) / 1000;
}
