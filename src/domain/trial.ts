/**
 * What the trial of a model has found for a language. `understood`: nearly all that was said; `weak`: something else;
 * `other_script`: text in letters of other languages; `loops`: the same words again and again, or far too many; `silent`:
 * no text; `slow`: the time of the trial was over first. A language that was not tried has no verdict.
 */
export const TRIAL_VERDICTS = ["understood", "weak", "other_script", "loops", "silent", "slow"] as const;
export type TrialVerdict = (typeof TRIAL_VERDICTS)[number];

/** A model as far as this module reads it. */
type TriedModel = {
  languages: readonly { code: string; trial?: TrialVerdict }[];
  notice?: string;
};

/** The verdicts for people. */
export const VERDICT_WORDS: Readonly<Record<TrialVerdict, string>> = {
  understood: "understood",
  weak: "weak",
  other_script: "another script",
  loops: "loops",
  silent: "nothing heard",
  slow: "too slow to tell",
};

/** Reports whether a verdict says that the model is of no use in the language. */
export function isFailedTrial(verdict: TrialVerdict | undefined): boolean {
  return verdict === "other_script" || verdict === "loops" || verdict === "silent";
}

/** Says in one line what a trial has found; undefined for a model that was not tried. */
export function describeVerdicts({ languages }: TriedModel): string | undefined {
  if (languages.every(({ trial }) => trial === undefined)) return undefined;
  const codesOf = (verdict: TrialVerdict | undefined) =>
    languages.filter(({ trial }) => trial === verdict).map(({ code }) => code);
  const parts = TRIAL_VERDICTS.map((verdict) => [VERDICT_WORDS[verdict], codesOf(verdict)] as const);
  return [...parts, ["not tried", codesOf(undefined)] as const]
    .filter(([, codes]) => codes.length > 0)
    .map(([words, codes]) => `${words}: ${codes.join(", ")}`)
    .join("; ");
}

/**
 * Returns what users should know of a model: the notice of its manifest, and the verdicts of its trial unless every
 * language was understood. Undefined: nothing.
 */
export function noticeOf(model: TriedModel): string | undefined {
  const verdicts = describeVerdicts(model);
  const isGood = model.languages.every(({ trial }) => trial === "understood");
  const sentences = [
    model.notice,
    verdicts === undefined || isGood ? undefined : `trial at installation: ${verdicts}`,
  ].filter((sentence) => sentence !== undefined);
  return sentences.length === 0 ? undefined : sentences.join("; ");
}
