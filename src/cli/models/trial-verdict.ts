import type { Warning } from "../../domain/result.ts";
import { isFailedTrial, type TrialVerdict } from "../../domain/trial.ts";
import { characterErrors, normalizeForScoring } from "../../pipeline/wer.ts";

/** What was said in a sample of a trial, and what the model made of it. */
export type HeardSample = {
  language: string;
  said: string;
  heard: string;
  warnings: readonly Warning[];
};

/** Numbers are often written in digits, and spelling differs: more errors than these are another text. */
const MAX_ERROR_RATE = 0.35;
/** A person says some 15 letters a second; a decoder in a loop fills its memory. */
const RAMBLING_FACTOR = 6;

/** Judges the text of a sample, after the guards that real work has. */
export function verdictOf({ language, said, heard, warnings }: HeardSample): TrialVerdict {
  if (!/[\p{L}\p{N}]/u.test(heard)) return warnings.includes("repetition_removed") ? "loops" : "silent";
  const rate = characterErrorRate(said, heard, language);
  if (rate <= MAX_ERROR_RATE) return "understood";
  if (warnings.includes("repetition_removed") || heard.length > RAMBLING_FACTOR * said.length) return "loops";
  return warnings.includes("script_mismatch") ? "other_script" : "weak";
}

/** Returns the share of the characters that are wrong, as people read them; above 1 for a much longer text. */
export function characterErrorRate(said: string, heard: string, language: string): number {
  const scored = [said, heard].map((text) => normalizeForScoring(text, language)) as [string, string];
  return characterErrors(...scored)?.rate ?? Number.POSITIVE_INFINITY;
}

const ORDER: readonly TrialVerdict[] = ["understood", "weak", "slow", "other_script", "loops", "silent"];

/** Returns the better of two outcomes, the first of equal ones. */
export function betterOf<T extends { verdict: TrialVerdict }>(one: T, other: T): T {
  return ORDER.indexOf(other.verdict) < ORDER.indexOf(one.verdict) ? other : one;
}

/**
 * Says why a model must not be installed: it was of no use in any sample, and not because of their script. A model that is
 * of use in one language is installed, with its verdicts.
 *
 * @param outcomes of all samples
 * @param untimedFlag the flag that adds it without timestamps, with which a second trial had a better verdict; undefined: it had
 *   not, or there was none
 * @returns the reason, a sentence; undefined: it can be installed
 */
export function refusalOf(
  outcomes: readonly { language: string; said: string; heard: string; verdict: TrialVerdict }[],
  untimedFlag: string | undefined,
): string | undefined {
  const isOfNoUse = ({ verdict }: { verdict: TrialVerdict }) =>
    isFailedTrial(verdict) && verdict !== "other_script";
  if (outcomes.length === 0 || !outcomes.every(isOfNoUse)) return undefined;
  const parts = outcomes.map(({ language, said, heard, verdict }) =>
    verdict === "silent"
      ? `hears nothing in clear speech of the language ${language} (${JSON.stringify(said)})`
      : `loops in the language ${language}: for a sample of ${said.length} characters it writes ${JSON.stringify(shorten(heard))}`,
  );
  const hint = untimedFlag ? ` Without timestamps it does better: add it with ${untimedFlag}.` : "";
  return `The model ${parts.join(", and ")}.${hint} It was not installed; --no-trial installs it as it is.`;
}

const MAX_SHOWN = 80;

/** Shortens a text for a line. */
export function shorten(text: string): string {
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text;
}
